"""One writer per folder; the lock of somebody who is gone does not count."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from rade.errors import RadeError
from rade.train import lock
from rade.train.lock import Holder, Locked, locked


def left_behind(folder, holder, silence=0.0):
    folder.mkdir(exist_ok=True)
    path = folder / lock.NAME
    path.write_text(json.dumps(asdict(holder)))
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - silence))
    return path


def test_the_second_is_refused_and_told_by_whom(tmp_path):
    with locked(tmp_path / "out"):
        sentence = rf"out is in use by process {os.getpid()} on .* since .*; wait for it, or choose another folder"
        with pytest.raises(Locked, match=sentence), locked(tmp_path / "out"):
            pass
        assert (tmp_path / "out" / lock.NAME).exists()
    with locked(tmp_path / "out"):
        pass
    assert list((tmp_path / "out").iterdir()) == []


def test_a_dead_process_on_this_machine_does_not_hold(tmp_path):
    done = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    left_behind(tmp_path, replace(Holder(), pid=int(done.stdout)))
    with locked(tmp_path):
        assert json.loads((tmp_path / lock.NAME).read_text())["pid"] == os.getpid()


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="the system does not tell when processes start")
def test_another_process_with_the_same_number_does_not_hold(tmp_path):
    left_behind(tmp_path, replace(Holder(), born="before the machine was started anew 7"))
    with locked(tmp_path):
        pass


@pytest.mark.parametrize(("silence", "held"), [(0, True), (lock.STALE - 100, True), (lock.STALE + 100, False)])
@pytest.mark.parametrize("content", ["elsewhere", "unreadable"])
def test_what_cannot_be_looked_up_is_judged_by_its_silence(silence, held, content, tmp_path):
    path = left_behind(tmp_path, replace(Holder(), host="elsewhere.example"))
    if content == "unreadable":
        path.write_text("")
    os.utime(path, (0, path.stat().st_mtime - silence))
    if held:
        with pytest.raises(Locked, match=r"in use by (process .* on elsewhere|another process)"), locked(tmp_path):
            pass
        assert path.exists()
    else:
        with locked(tmp_path):
            pass


@pytest.mark.parametrize("content", ["[]", "null", '{"pid": "x"}', '{"pid": 9999, "no": 1}', "\x00", "[" * 9999])
def test_any_content_of_a_lock_is_survived(content, tmp_path):
    (tmp_path / lock.NAME).write_text(content)
    with pytest.raises(Locked), locked(tmp_path):
        pass


def test_a_living_holder_touches_its_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "TOUCH", 0.01)
    with locked(tmp_path):
        path = tmp_path / lock.NAME
        os.utime(path, (0, 0))
        for _ in range(1000):
            if path.stat().st_mtime > 0:
                break
            lock.threading.Event().wait(0.01)
        assert path.stat().st_mtime > 0


def test_somebody_elses_lock_is_not_removed(tmp_path):
    with locked(tmp_path):
        path = left_behind(tmp_path, replace(Holder(), token="another"))
    assert path.exists()


def test_of_many_who_find_a_stale_lock_one_gets_it(tmp_path):
    """Eight processes at once, each holding what it gets until all have tried."""
    code = (
        "import sys, pathlib\n"
        "from rade.train.lock import locked, Locked\n"
        "sys.stdin.readline()\n"
        "try:\n"
        "    with locked(pathlib.Path(sys.argv[1])):\n"
        "        print('got', flush=True); sys.stdin.readline()\n"
        "except Locked:\n"
        "    print('refused', flush=True)\n"
    )
    left_behind(tmp_path, replace(Holder(), pid=2**22 + 1))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    crowd = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], **pipes) for _ in range(4)]
    for process in crowd:
        process.stdin.write("\n")
        process.stdin.flush()
    answers = [process.stdout.readline().strip() for process in crowd]
    for process in crowd:
        process.communicate("\n")
    assert sorted(answers) == ["got"] + ["refused"] * 3


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    sentence = r"cannot write to .*file/out: Not a directory; choose another"
    with pytest.raises(RadeError, match=sentence), locked(tmp_path / "file" / "out"):
        pass

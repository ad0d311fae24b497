"""Names, the data folder, and `rade datasets` as a user runs it."""

import json
from pathlib import Path

import rade.data
from rade.data.catalogue import catalogue
from rade.data.files import _address, raw_files


def test_case_punctuation_and_aliases_do_not_matter_and_no_name_has_two_meanings():
    assert rade.data.resolve("Chameleon (filtered)").name == "chameleon-filtered"
    for entry in catalogue().values():
        for spelling in (entry.name.upper(), entry.title.replace("-", "_"), *entry.aliases):
            assert rade.data.resolve(spelling) is entry


def test_the_data_folder_is_the_argument_then_the_environment_then_the_cache(monkeypatch):
    monkeypatch.delenv("RADE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert rade.data.data_root() == Path("/somewhere/rade")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert rade.data.data_root() == Path.home() / ".cache" / "rade"
    monkeypatch.setenv("RADE_DATA", "elsewhere")
    assert rade.data.data_root() == Path("elsewhere")
    assert rade.data.data_root("~/here") == Path.home() / "here"


def test_every_real_data_set_has_files_and_a_source_and_pickles_have_checksums():
    for entry in catalogue().values():
        assert bool(raw_files(entry.name)) != entry.embedded
        for file in raw_files(entry.name):
            assert file.path.startswith(f"{entry.folder}/")
            assert file.sha256 or file.path.endswith(".npy")
            assert _address(entry, file).startswith("https://")
            assert "{" not in _address(entry, file)


def test_import_reports_what_is_missing_and_every_data_set_is_listed_with_its_state(mirror, tmp_path, rade):
    code, out, _ = rade("datasets", "import", mirror, "--data-root", tmp_path)
    assert code == 0
    assert "cora: 8 new, 0 already there\n" in out
    assert "flickr: 3 new, 0 already there; missing: Flickr/raw/feats.npy\n" in out
    again = rade("datasets", "--data-root", tmp_path, "import", mirror, "far-pair", "mutag")
    assert again == (0, "far-pair: generated, needs no file\nmutag: 0 new, 4 already there\n", "")
    code, _, err = rade("datasets", "--data-root", tmp_path, "import", mirror, "flickr")
    assert (code, "Flickr/raw/feats.npy is not in the mirror" in err) == (2, True)
    _, out, _ = rade("datasets", "--data-root", tmp_path)
    lines = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert tuple(lines) == tuple(catalogue())
    assert "2,708" in lines["cora"]
    assert str(tmp_path / "Cora") in lines["cora"]
    assert "missing feats.npy" in lines["flickr"]
    found = {one["name"]: one for one in json.loads(rade("datasets", "--json", "--data-root", tmp_path)[1])}
    files = [str(tmp_path / "Cora"), "missing feats.npy", "generated"]
    assert [found[name]["files"] for name in ("cora", "flickr", "csbm")] == files
    assert found["flickr"]["missing"] == ["Flickr/raw/feats.npy"]
    assert {"level", "metric", "split", "nodes", "edges", "licence", "source"} <= set(found["cora"])

"""Any configuration and any command line: trained, or refused in one sentence with a documented code."""

from hypothesis import given
from hypothesis import strategies as st

from fuzz.outcome import empty_folder, enough, rade
from fuzz.values import NAMES, NUMBERS, WORDS, backbone, name, scalar, toml, value
from rade.train.methods import METHODS

FLAGS = ("--fixed-rates", "--resume", "--overwrite", "--json", "--no-such-option", "--")
PATHS = ("--out", "--config", "--data-root", "--tensorboard")
option = st.one_of(
    st.tuples(st.sampled_from([f"--{name.replace('_', '-')}" for name in NAMES]), scalar.map(str)),
    st.tuples(st.just("--set"), st.tuples(name, value).map(lambda pair: f"{pair[0]}={toml(pair[1])}")),
    st.tuples(st.sampled_from(PATHS), st.sampled_from([*WORDS, "\udcff"])),
    st.tuples(st.sampled_from(FLAGS)),
    st.tuples(scalar.map(str)),
)


@given(st.dictionaries(name, value, max_size=5))
def test_configurations_are_accepted_or_refused(content):
    with empty_folder() as folder:
        lines = "".join(f"{key} = {toml(item)}\n" for key, item in content.items())
        (folder / "file.toml").write_text(lines, "utf-8")
        rade("train", "--config", "file.toml", data=enough)


@given(st.lists(option, max_size=5), st.sampled_from(["train", "predict", "datasets", "trian"]))
def test_command_lines_are_accepted_or_refused(options, command):
    with empty_folder():
        words = [word for option in options for word in option]
        rade(command, *words, data=enough)


@given(st.sampled_from(list(METHODS)), backbone, st.data())
def test_what_is_accepted_trains_or_fails_in_a_sentence(method, net, data):
    """Names that the method has, with any number."""
    names = st.sampled_from(sorted(METHODS[method].options | {"lr", "layers", "patience", "seed", "batch_size"}))
    drawn = data.draw(st.dictionaries(names, st.sampled_from(NUMBERS), max_size=2))
    content = {"method": method, "backbone": net, "hidden": 4, "runs": 1, **drawn, "epochs": 2}
    with empty_folder() as folder:
        (folder / "file.toml").write_text("".join(f"{key} = {toml(item)}\n" for key, item in content.items()), "utf-8")
        rade("train", "--config", "file.toml", "--out", "out")

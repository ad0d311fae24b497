"""The page in a real browser."""

from dataclasses import replace

import pytest
from tests.report.browser import Browser, find
from tests.report.synthetic import MAIN, Row, cell, store

from rade.report import build, read_rows, write

pytestmark = pytest.mark.skipif(find() is None, reason="there is no chromium; apt-get install chromium runs this test")

WIDE = replace(
    MAIN,
    name="wide",
    title="A table with more columns than fit a phone",
    datasets=("cora", "citeseer", "pubmed", "cs", "computer", "physics", "flickr", "ogbn-arxiv"),
    rows=(*MAIN.rows, Row("A method with a rather long name & more", "rade-of-fixed")),
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    rows = store(6, rade_of=0.01) + cell(0.7, 0.02, 4, dataset="citeseer", method="rade-of", backbone="gat")
    rows += cell(0.7, 0.02, 4, dataset="citeseer", method="none")
    write(build(read_rows(rows)[0], [MAIN, WIDE]), folder, ["html"])
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_loads_without_errors_and_fits(browser, page, width, dark):
    browser.open(page, width, 800, dark)
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.querySelectorAll('svg.plot').length") > 5
    assert browser.errors == []


def test_colours_follow_the_wish_for_dark(browser, page):
    colours = []
    for dark in (False, True):
        browser.open(page, dark=dark)
        colours.append(browser.run("getComputedStyle(document.body).backgroundColor"))
    assert colours[0] != colours[1]


ROWS = "[...document.querySelector('table.differences').tBodies[0].rows]"
COLUMN = ROWS + ".map(row => row.cells[{}].getAttribute('data-v'))"


def test_sorting_by_a_number(browser, page):
    browser.open(page)
    head = "document.querySelector('table.differences').tHead.rows[0].cells[2]"
    before = browser.run(COLUMN.format(2))
    for direction, reverse in (("ascending", False), ("descending", True)):
        browser.run(f"{head}.querySelector('button').click()")
        values = [float(value) for value in browser.run(COLUMN.format(2))]
        assert values == sorted(map(float, before), reverse=reverse)
        assert browser.run(f"{head}.getAttribute('aria-sort')") == direction
    assert browser.errors == []


def test_filtering_by_words(browser, page):
    browser.open(page)
    typed = (
        "(() => {{ const input = document.querySelector('input[type=search]'); input.value = '{}';"
        " input.dispatchEvent(new Event('input')); return new Promise(done => setTimeout(() => done("
        f"{ROWS}.filter(row => !row.hidden)"
        ".map(row => row.cells[1].textContent)), 50)); }})()"
    )
    shown = browser.run(typed.format("rade-ofs plain"))
    assert shown
    assert all("RADE-OFS" in text and "plain" in text for text in shown)
    assert browser.run(typed.format("no such thing")) == []
    everything = browser.run(typed.format(""))
    assert len(everything) > len(shown)


def test_rows_can_be_downloaded(browser, page):
    browser.open(page)
    code = (
        "new Promise(done => { URL.createObjectURL = blob => { blob.text().then(done); return '#'; };"
        " document.querySelector('button.download').click(); })"
    )
    lines = browser.run(code).strip().splitlines()
    assert lines[0].startswith("key,tables,dataset")
    assert len(lines) == 1 + 38


def test_it_reads_without_the_script(browser, page):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(page)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    text = browser.run("document.body.innerText")
    assert "RADE-OF is better than the plain backbone by" in text
    assert browser.run("document.querySelectorAll('input').length") == 0
    assert browser.run("[...document.querySelectorAll('button')].every(one => one.hidden)")


def test_an_injected_script_would_not_run(browser, page, tmp_path):
    """The policy lets only the page's own script run, should an escape ever be forgotten."""
    text = page.read_text("utf-8").replace("<header>", "<header><script>document.title = 'broken in'</script>")
    (tmp_path / "injected.html").write_text(text, "utf-8")
    browser.open(tmp_path / "injected.html")
    assert browser.run("document.title") == "RADE: results"
    browser.errors.clear()

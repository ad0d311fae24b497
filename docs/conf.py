"""The documentation as pages: `make docs`, without network and without warnings."""

import os
import re
import shutil
from pathlib import Path

from docutils import nodes

HERE = Path(__file__).parent
ROOT = HERE.parent

project = "rade"
copyright = "The rade authors"
version = release = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)[1]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "sphinx_copybutton"]
exclude_patterns = ["_build", "pictures/*.py"]
suppress_warnings = ["mystnb.unknown_mime_type"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
# Files of the repository that are no pages (examples, results, sources) are shown as they are.
myst_all_links_external = False

# Notebooks are executed when they changed, and their outputs kept in _build.
nb_execution_mode = "cache"
nb_execution_timeout = 1800  # of a cell: a machine may be busy
nb_execution_raise_on_error = True
os.environ.setdefault("OMP_NUM_THREADS", "1")  # graphs this small gain nothing from a second core
os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"  # tqdm, where Jupyter's widgets are not installed

default_role = "code"
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = f"rade {release}"
html_static_path = ["_static"]
html_css_files = ["pictures.css"]
html_show_sourcelink = False
html_copy_source = False

# Pages that live elsewhere in the repository are copied, so that each is written once.
COPIES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
NOTEBOOKS = HERE / "notebooks"


def _as_page(text: str) -> str:
    """Links of a file at the root, seen from docs/; what is no page becomes plain text."""
    text = re.sub(r"\]\(docs/([\w-]+\.md)", r"](\1", text)
    for name, page in COPIES.items():
        text = text.replace(f"]({name})", f"]({page})")
    return re.sub(r"\[([^\]]+)\]\((?:examples|results|LICENSE)[^)]*\)", r"`\1`", text)


def _prepare(app) -> None:
    for name, page in COPIES.items():
        content = _as_page((ROOT / name).read_text("utf-8"))
        target = HERE / page
        if not target.exists() or target.read_text("utf-8") != content:
            target.write_text(content, "utf-8")
    NOTEBOOKS.mkdir(exist_ok=True)
    for notebook in (ROOT / "examples").glob("*.ipynb"):
        shutil.copy2(notebook, NOTEBOOKS / notebook.name)


def _literally(line: str) -> str:
    """What is outside of back-ticks is text: bars and stars mean themselves."""
    parts = re.split(r"(``.*?``|`.*?`)", line)
    return "".join(part if part.startswith("`") else re.sub(r"([|*])", r"\\\1", part) for part in parts)


def _readable(app, what, name, value, options, lines) -> None:
    """Docstrings are written to be read in a terminal; blank lines around examples and escapes are put in here."""
    source, lines[:] = list(lines), []
    example = False
    for line in source:
        begins = line.lstrip().startswith(">>>")
        if begins and not example and lines and lines[-1].strip():
            lines.append("")
        example = begins or (example and bool(line.strip()))
        lines.append(line if example else _literally(line))


def _linked(app, name, source) -> None:
    """Links that work in the repository lead to the pages that are copied from there."""
    for original, page in COPIES.items():
        source[0] = source[0].replace(f"](../{original})", f"]({page})")
    source[0] = re.sub(r"\]\(\.\./examples/(\w+\.ipynb)\)", r"](notebooks/\1)", source[0])
    source[0] = re.sub(r"\[([^\]]+)\]\(\.\./(results/[^)]+)\)", r"\1 (`\2`)", source[0])  # tables that are no pages


def _framed(app, doctree) -> None:
    """Pictures scroll in a frame where the page is narrow; long words in tables may break (_static/pictures.css)."""
    for image in list(doctree.findall(nodes.image)):
        if {"only-light", "only-dark"} & set(image["classes"]):
            frame = nodes.container(classes=["picture", *image["classes"]])
            image["classes"] = []
            image.parent.replace(image, frame)
            frame += image
    for row in doctree.findall(nodes.row):
        if max(map(len, row[-1].astext().split()), default=0) > 30:
            row[-1]["classes"].append("long-words")


def setup(app) -> None:
    """Called by Sphinx."""
    app.connect("doctree-read", _framed)
    app.connect("source-read", _linked)
    app.connect("autodoc-process-docstring", _readable, priority=400)  # before napoleon reads Args and Attributes


_prepare(None)

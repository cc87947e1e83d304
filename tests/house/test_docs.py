"""The documents: their links lead somewhere, the names in them exist, their Python runs, and the
reference leaves nothing out."""

import configparser
import importlib
import json
import re
import sys
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path

import pytest
from house_tree import ROOMS, ROOT, clean_python, package_files
from test_shown import DOCUMENTS, fences

from crosslens.cli.main import build_parser
from crosslens.probes.tasks.task import TUNED

sys.path.insert(0, str(ROOT / "docs" / "site"))
import reference_pages

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# folders of docs/ that the build writes
_GENERATED = {"reference": "crosslens.rst", "tasks": "index.rst"}


def prose(document: str) -> str:
    """A document without its code."""
    return _FENCE.sub("", (ROOT / document).read_text(encoding="utf-8"))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_place_is_left_to_be_filled_in(document):
    assert re.findall(r"@[A-Z]\w*@|TODO|FIXME", prose(document)) == []


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub and MyST make them."""
    text = _FENCE.sub("", document.read_text(encoding="utf-8"))
    found: dict[str, int] = defaultdict(int)
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        slug = re.sub(
            r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        ).replace(" ", "-")
        found[slug] += 1
    return {
        f"{slug}-{place}" if place else slug
        for slug, count in found.items()
        for place in range(count)
    }


def broken_links(document: str) -> list[str]:
    """Relative links of a document that lead to no file, or to no heading of one."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(document)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (ROOT / document).parent / file if file else ROOT / document
        if (
            path.parent == ROOT / "docs"
            and path.name in _GENERATED
            or _GENERATED.get(path.parent.name) == path.name
        ):
            continue
        if not path.exists() or anchor and anchor not in anchors(path):
            broken.append(target)
    return broken


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_between_the_documents_leads_to_a_file_and_a_heading(document):
    assert broken_links(document) == []


def test_a_link_without_its_heading_is_found():
    assert "what-languages-share" in anchors(ROOT / "docs" / "training.md")
    assert anchors(ROOT / "docs" / "training.md").isdisjoint({"", "what languages share"})
    assert "p1" in anchors(
        ROOT / "docs" / "glossary.md"
    ) and "masked-language-modelling-mlm" in anchors(ROOT / "docs" / "glossary.md")


def dead_names(text: str) -> list[str]:
    """Names in code type that look like the repository's files, or like the package's modules and
    names, and are not there."""
    dead = []
    for name in re.findall(r"`([^`\n]+)`", text):
        name = name.partition("(")[0]
        if re.fullmatch(r"crosslens(\.\w+)+", name):
            if not _exists(name):
                dead.append(name)
        elif re.fullmatch(
            rf"(?:{'|'.join((*ROOMS, 'crosslens', 'tests', 'benchmarks'))})(?:/[\w.-]+)+", name
        ):
            if not (ROOT / name).exists() and not (ROOT / f"{name}.py").exists():
                dead.append(name)
    return dead


def _exists(name: str) -> bool:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        return all(
            hasattr(value, part) and (value := getattr(value, part)) is not None
            for part in parts[cut:]
        )
    return False


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_and_names_in_the_documents_are_there(document):
    assert dead_names(prose(document)) == []


def test_a_dead_name_is_found():
    text = (
        "`models/train.py`, `models/training/loop`, `crosslens.models.feed`, "
        "`crosslens.stats.wilson_interval(1, 2)`, `tests/house`"
    )
    assert dead_names(text) == ["models/train.py", "crosslens.models.feed"]


@pytest.mark.parametrize("room", ROOMS)
def test_the_files_that_a_room_lists_are_in_it(room):
    listed = [
        line
        for line in (importlib.import_module(f"crosslens.{room}").__doc__ or "").splitlines()
        if re.match(r"    \S.* {2,}", line)
    ]
    names = [name for line in listed for name in re.split(r"\s{2,}", line.strip())[0].split(", ")]
    assert len(names) > 10
    assert [name for name in names if not (ROOT / room / f"{name}.py").exists()] == []


def test_the_design_has_every_floor():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    floors = re.findall(r"crosslens\.([\w.]+)", setup["importlinter:contract:floors"]["layers"])
    rows = re.search(r"## Floors\n(.*?)\n## ", prose("docs/design.md"), re.DOTALL)
    assert rows and [name for name in floors if f"`{name}`" not in rows[1]] == []


def test_the_reference_has_every_module_and_every_public_name():
    assert reference_pages.modules() == sorted(package_files())
    pages = reference_pages.reference_pages(reference_pages.modules())
    text = "\n".join(pages.values())
    missing = []
    for name in pages:
        for key in getattr(importlib.import_module(name), "__all__", []):
            value = getattr(importlib.import_module(name), key)
            home = reference_pages.home(value)
            described = f":: {home}\n" in text if home else f".. py:data:: {key}\n" in pages[name]
            if (
                not described
                and not hasattr(value, "__path__")
                and getattr(value, "__module__", name) is not None
            ):
                missing.append(f"{name}.{key}")
    assert missing == []
    inside = {
        child
        for page in pages.values()
        for child in re.findall(r"<(crosslens\.[\w.]+)>$", page, re.MULTILINE)
    }
    assert inside == pages.keys() - {"crosslens"}, "pages that no list leads to"


def test_each_card_of_a_task_has_a_page():
    from crosslens.probes.tasks.catalogue import cards

    pages = reference_pages.task_pages(cards())
    assert pages.keys() == {"index", *cards()}
    for name, card in cards().items():
        (command,) = re.findall(r"^   crosslens (.*)$", pages[name], re.MULTILINE)
        verb = "transfer" if card["kind"] in TUNED else "probe"
        asked = build_parser().parse_args(command.split())
        assert asked.verb == verb
        if verb == "transfer":
            assert (asked.tasks, asked.train) == (name, "eng") and asked.test.split(",")[0] == "eng"
        assert (
            str(card["licence"]).replace("_", r"\_") in pages[name]
            and f":doc:`{name}`" in pages["index"]
        )
        assert " ".join(str(card["citation"]).split()) in " ".join(pages[name].split())


def glossary_terms() -> set[str]:
    return {
        heading.lower()
        for heading in re.findall(r"^### (.+)$", prose("docs/glossary.md"), re.MULTILINE)
    }


def test_what_reports_define_is_in_the_glossary():
    from crosslens.report.pages import emergence, probes, training
    from crosslens.report.sections import provenance

    defined = {
        name
        for module in (emergence, probes, training, provenance)
        for name, _ in module._DEFINITIONS
    }
    terms, missing = glossary_terms(), []
    for name in defined:
        whole = name.removesuffix(", P@1").lower()
        missing += (
            [] if whole in terms or all(term in terms for term in whole.split(" and ")) else [name]
        )
    assert missing == []


def test_every_quantity_of_a_score_is_in_the_glossary():
    from crosslens.score import QUANTITIES

    text = prose("docs/glossary.md")
    assert [name for name in QUANTITIES if f"`{name}`" not in text] == []


# What a fence reads that its reader has: by document, the code that makes it, beside the fence that
# begins with this line.
_STAND_INS = {
    "import crosslens as cl": """
import shutil
from crosslens.recipes.quickstart import DATA
shutil.copytree(DATA / "tiny-encoder", "xlm-roberta-base")
for name in ("eng", "fra"):
    shutil.copy(DATA / "corpus" / f"{name}.txt", ".")
""",
    "from crosslens.activations import Activations, join": """
import numpy as np
from crosslens.activations_writer import ActivationsWriter
for name in ("store", "other"):
    writer = ActivationsWriter(name, {"vectors": name}, arrays=["layer_00", "layer_01"], d=3, dtype="float16")
    with writer.plan() as plan:
        plan.add({"id": [f"s{i}" for i in range(8)], "language": ["eng"] * 4 + ["fra"] * 4})
        plan.end_block()
    for block in writer.left:
        writer.write(block, {array: np.ones((8, 3)) for array in ("layer_00", "layer_01")})
    writer.finish(unit="sentence")
""",
    "from crosslens.outcomes import pair_outcomes, read_outcomes": """
import os
import numpy as np
from crosslens.outcomes import Outcomes, write_outcomes
for name, layer in (("mine", 6), ("other", 8)):
    os.makedirs(f"runs/{name}")
    outcome = np.random.default_rng(layer).integers(0, 2, 40).astype(float)
    ids = np.array([str(i) for i in range(40)])
    columns = {"item": np.arange(40), "item_id": ids, "group": ids, "outcome": outcome}
    write_outcomes([Outcomes(task="upos", quantity="accuracy", layer=layer, **columns)], f"runs/{name}/outcomes.parquet")
""",
}
_RUN = """
import json, os, sys
for number, (name, before, code) in enumerate(json.load(open(sys.argv[1])), 1):
    os.makedirs(str(number))
    os.chdir(str(number))
    print("fence", number)
    for text in (before, code):
        exec(compile(text, name, "exec"), {"__name__": "__main__"})
    os.chdir("..")
"""


@pytest.mark.slow  # half a minute; .ci/run has a step of it
def test_the_documents_python_runs(tmp_path):
    """Each fence in a folder and a namespace of its own, all in one process, and once; the README's
    show something."""
    codes: dict[str, str] = {}  # the code, and the document that has it first
    for document in DOCUMENTS:
        for code in fences(document, "python"):
            codes.setdefault(code, document)
    used = {code.strip().splitlines()[0] for code in codes}
    assert _STAND_INS.keys() <= used, "a stand-in whose fence is gone"
    told = [
        (document, _STAND_INS.get(code.strip().splitlines()[0], ""), code)
        for code, document in codes.items()
    ]
    (tmp_path / "fences.json").write_text(json.dumps(told), encoding="utf-8")
    (tmp_path / "there").mkdir()
    run = clean_python(_RUN, str(tmp_path / "fences.json"), cwd=tmp_path / "there")
    assert run.returncode == 0, run.stderr
    shown = re.split(r"^fence \d+\n", run.stdout, flags=re.MULTILINE)[1:]
    silent = [
        code
        for (code, document), output in zip(codes.items(), shown, strict=True)
        if document == "README.md" and not output.strip()
    ]
    assert {*codes.values()} >= {"README.md", "docs/python.md", "docs/training.md"} and silent == []


class _Page(HTMLParser):
    """The links of a built page, and what can be linked in it."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for key, value in attributes:
            if value and key in ("href", "src"):
                self.links.append(value)
            elif value and key == "id":
                self.ids.add(value)


@pytest.mark.slow
def test_the_documentation_is_built_without_a_warning(tmp_path):
    for name in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(name, reason="the extra docs is not installed")
    build = "import sys; from sphinx.cmd.build import main; sys.exit(main(sys.argv[1:]))"
    run = clean_python(
        build,
        "-q",
        "-W",
        "--keep-going",
        "-d",
        str(tmp_path / "trees"),
        "docs",
        str(tmp_path / "html"),
    )
    assert run.returncode == 0, run.stdout + run.stderr
    pages = {}
    for path in (tmp_path / "html").rglob("*.html"):
        pages[path] = _Page()
        pages[path].feed(path.read_text(encoding="utf-8"))
    assert len(pages) > len(package_files())
    broken = []
    for path, page in pages.items():
        for link in page.links:
            file, _, anchor = link.partition("#")
            target = (path.parent / file.partition("?")[0]).resolve() if file else path
            if not re.match(r"[a-z]+:", link) and (
                not target.exists()
                or anchor
                and target in pages
                and anchor not in pages[target].ids
            ):
                broken.append(f"{path.name}: {link}")
            elif file.startswith("http") and re.search(r"\.(?:js|css|woff2?)$", file):
                broken.append(f"{path.name} loads {link}")
    assert broken == []

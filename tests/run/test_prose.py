"""The English that every installation has: what is kept of a text, what is not, and that nothing is
imported for it."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from crosslens.errors import InputError
from crosslens.recipes.prose import PACKAGES, english_prose

FIRST = "The first line of this text says what it is about."


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty package that can be found and must not be imported, beside one help topic."""
    monkeypatch.setattr(
        "pydoc_data.topics.topics", {"one": "The help topics come before everything else."}
    )
    folder = tmp_path / "some_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('this was imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def of(package: Path, docstring: str, name: str = "a.py", before: str = 'r"""') -> list[str]:
    """The sentences that a package with one docstring adds to the help topics."""
    (package / name).write_text(
        f'def f():\n    {before}{textwrap.indent(docstring, "    ").strip()}\n    """\n',
        encoding="utf-8",
    )
    topics = english_prose(())
    found = english_prose((package.name,))
    assert found[: len(topics)] == topics
    return found[len(topics) :]


# ---------------------------------------------------------------- what is kept


def test_running_text_is_cut_into_sentences_over_line_breaks(package: Path) -> None:
    text = (
        f"{FIRST}\n\nA sentence may go on over the end\nof a line. Another one (e.g. This one, "
        f"there) follows then at last, as Dr. Smith\n"
    )
    text += "said! Is it still a question?"
    assert of(package, text) == [
        FIRST,
        "A sentence may go on over the end of a line.",
        "Another one (e.g. This one, there) follows then at last, as Dr. Smith said!",
        "Is it still a question?",
    ]


def test_no_sentence_occurs_twice_whatever_its_case_and_marks(package: Path) -> None:
    text = (
        "Such a sentence is kept only once.\n\nSuch a Sentence is kept, only once!\n\nAnother "
        "sentence stands beside it."
    )
    assert of(package, text) == [
        "Such a sentence is kept only once.",
        "Another sentence stands beside it.",
    ]


def test_descriptions_of_parameters_lose_their_names_and_types(package: Path) -> None:
    numpy_style = (
        "Parameters\n----------\nx : array_like\n    The values that are to be sorted\n    "
        "along the axis.\nkind : {'a', 'b'}, Optional\n"
        "    Which of the two ways is taken."
    )
    google_style = (
        "Args:\n    alpha (`float`, *optional*): The rate at which the weights\n        are "
        "made smaller. It may be zero as well.\n"
        "    beta: The share of what is kept."
    )
    sphinx_style = (
        ":param int gamma: The number of the steps that are made.\n:returns: The sum of all the "
        "values there."
    )
    assert of(package, numpy_style) == [
        "The values that are to be sorted along the axis.",
        "Which of the two ways is taken.",
    ]
    assert of(package, google_style) == [
        "The rate at which the weights are made smaller.",
        "It may be zero as well.",
        "The share of what is kept.",
    ]
    assert of(package, sphinx_style) == [
        "The number of the steps that are made.",
        "The sum of all the values there.",
    ]


def test_lists_and_notes_are_text(package: Path) -> None:
    text = (
        f"{FIRST}\n\n- The first entry of a list is this.\n- The second one goes on over the\n  "
        f"end of its line.\n\n"
    )
    text += ".. note:: A note is worth reading too."
    assert of(package, text) == [
        FIRST,
        "The first entry of a list is this.",
        "The second one goes on over the end of its line.",
        "A note is worth reading too.",
    ]


def test_markup_is_taken_off(package: Path) -> None:
    text = (
        "It is *not* said :ref:`in the guide <guide>` how the ``axis`` is chosen [1]_.\n\n"
        "A `page of text <http://x.org/y>`_ and **one more** are read."
    )
    assert of(package, text) == [
        "It is not said in the guide how the axis is chosen.",
        "A page of text and one more are read.",
    ]


# ---------------------------------------------------------------- what is not


@pytest.mark.parametrize(
    "code",
    [
        ">>> print('Hello to all of you.')\nHello to all of you.",
        (
            "As in the following lines::\n\n    This is a line of code that reads like text.\n\n  "
            "  And so is this one."
        ),
        "```python\nThis is a line of code that reads like text.\n```",
        ".. code-block:: python\n\n    This is a line of code that reads like text.",
        ".. [1] This is the title of a book. The place and the year.",
        "References\n----------\nThis is the title of a book that is cited.",
        "| This cell of a table | is a sentence. |",
        "The function some_name is called by the other one.",
        "It is found at https://example.org in the last part.",
        "The values of x = 3 are left out here.",
        "It is f(x) that we look at here.",
        "Look into numpy.linalg for the other ones.",
        "no capital letter begins this line of text.",
        "This line of text never comes to its end",
        "Only three words.",
        "The Title Of Some Very Well Known Book.",
        "A bracket that is never (closed again here.",
    ],
)
def test_what_is_no_prose_is_left_out_and_the_rest_stays(package: Path, code: str) -> None:
    # what cites goes on to the next heading
    heading = "Notes\n-----\n" if code.startswith("References") else ""
    assert of(package, f"{FIRST}\n\n{code}\n\n{heading}The last line is prose again.") == [
        FIRST,
        "The last line is prose again.",
    ]


def test_only_strings_in_triple_quotes_are_read(package: Path) -> None:
    source = '''
# A comment that says """ and then goes on for a while.
x = "This is a common string that reads like a sentence."
y = f"""This is a format string that reads like a sentence."""
z = b"""These are some bytes that read like a sentence."""
add_doc("f", """This text is handed to a function as its docstring.""")
'''
    (package / "b.py").write_text(source)
    assert (
        english_prose((package.name,))[-1] == "This text is handed to a function as its docstring."
    )
    assert len(english_prose((package.name,))) == len(english_prose(())) + 1


def test_tests_and_other_peoples_code_are_passed_over(package: Path) -> None:
    for name in ("tests/a.py", "_vendor/a.py", "test_a.py", "a.txt", "kept/b.py"):
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text(
            f'"""What the file named '
            f'{name.split("/")[0].strip("_").split("_")[0].split(".")[0]} says is this."""\n'
        )
    assert [s for s in english_prose((package.name,)) if s.startswith("What the file named")] == [
        "What the file named kept says is this."
    ]


# ---------------------------------------------------------------- the whole, and refusals


def test_topics_alone_are_prose_in_the_same_order_each_time() -> None:
    sentences = english_prose(())
    words = [sentence.split() for sentence in sentences]
    assert len(sentences) > 500 and sum(map(len, words)) > 10_000
    assert all(4 <= len(some) <= 60 for some in words)
    assert all(
        re.fullmatch(r"[\"'(“]?[A-Z][^\n`_<>{}\[\]|=]*[.!?][\"')”]{0,2}", sentence)
        for sentence in sentences
    )
    assert sentences == english_prose(())
    assert len(set(sentences)) == len(sentences)


def test_packages_are_read_without_being_imported_and_in_the_same_order_in_another_process() -> (
    None
):
    command = (
        "import sys; from crosslens.recipes.prose import english_prose; before = set(sys.modules); "
    )
    command += (
        "found = english_prose(('networkx', 'sympy'), most=3000); assert not {'networkx', "
        "'sympy'} & (set(sys.modules) - before); "
    )
    command += "sys.stdout.reconfigure(encoding='utf-8'); print('\\n'.join(found))"
    other = subprocess.run([sys.executable, "-c", command], capture_output=True, check=True)
    assert other.stdout.decode().splitlines() == english_prose(("networkx", "sympy"), most=3000)


@pytest.mark.slow
def test_this_installation_has_about_a_million_words() -> None:
    sentences = english_prose()
    assert sum(len(sentence.split()) for sentence in sentences) > 800_000
    assert len({sentence.lower() for sentence in sentences}) == len(sentences)


def test_the_default_names_what_the_library_requires() -> None:
    assert {"numpy", "scipy", "sklearn", "torch", "transformers", "matplotlib"} <= set(PACKAGES)


def test_what_cannot_be_meant_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"packages: .*got 'numpy\.linalg'"):
        english_prose(("numpy.linalg",))
    with pytest.raises(InputError, match="most: expected a whole number"):
        english_prose((), most=0)
    assert english_prose(("no_such_package",), most=2) == english_prose((), most=2)
    monkeypatch.setattr("pydoc_data.topics.topics", {})
    with pytest.raises(InputError, match="packages: .*got no_such_package"):
        english_prose(("no_such_package",))

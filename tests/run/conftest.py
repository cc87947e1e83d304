"""A multilingual encoder that nobody trained, and parallel texts of the package's own corpus:
enough to run a study in seconds."""

import pytest
from controlled_toy import KEPT
from panels_drawn_once import drawn_once
from tests_run_helpers import first_lines, other_encoder

__all__ = ["drawn_once", "kept_texts", "small_encoder", "texts"]


@pytest.fixture(scope="session")
def small_encoder(tmp_path_factory):
    """A folder with a random 2-layer encoder of width 16."""
    return other_encoder(tmp_path_factory.mktemp("small") / "small-encoder", layers=2, width=16)


@pytest.fixture(scope="module")
def few_kept():
    """Sixty sentences for the end of a study of several trainings instead of five hundred."""
    from crosslens.run.trainings import emergence

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(emergence, "_KEPT", KEPT)
        yield


@pytest.fixture
def texts(tmp_path):
    """language -> file with the same 60 sentences."""
    return write_texts(tmp_path)


@pytest.fixture(scope="session")
def kept_texts(tmp_path_factory):
    """The same, for what several tests share. Not to be written to."""
    return write_texts(tmp_path_factory.mktemp("texts"))


def write_texts(folder):
    paths = {}
    for language in ("eng", "fra", "rus"):
        paths[language] = str(folder / f"{language}.txt")
        (folder / f"{language}.txt").write_text(
            "".join(line + "\n" for line in first_lines(language, 60)), encoding="utf-8"
        )
    return paths

"""What tests may look for outside the repository. DEVELOPERS.md says where to put it;
tests/SKIPS.md lists every skip."""

import gc
import os
from pathlib import Path

# Python looks for garbage again and again among all that the libraries and the collected tests are
# made of, and these stay: they are put aside when they are there (below).
gc.disable()

# Before numpy and torch are loaded, and for the processes that tests start: what they compute is
# small, and threads that wait for each other on a busy machine make it many times slower. Tests of
# several threads ask for them.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What tests write need not outlast a power cut (a killed process loses nothing without it), and they
# would wait for the disk for a good part of their time. Tests of when it is called replace it.
os.fsync = lambda file: None

# Before calls are checked: whatever a checked module is the first to import is compiled anew, and
# these are large.
import pytest  # noqa: E402
import sklearn.linear_model  # noqa: E402, F401
import torch  # noqa: E402, F401
from checked_calls import check_calls  # noqa: E402
from transformers import AutoModelForMaskedLM, AutoTokenizer  # noqa: E402, F401

check_calls()
ROOT = Path(__file__).parents[1]


def pytest_collection_modifyitems(items):
    """Rooms whose files take minutes come first, so that no worker is left with one at the end."""
    long = ("run", "models", "report", "house", "front")
    items.sort(key=lambda item: not {*long} & {*item.path.relative_to(ROOT / "tests").parts})


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def heard():
    """Remarks are shown in every test: `--quiet` of a test, or of what several tests share, stays
    with it."""
    from crosslens.progress import be_quiet

    be_quiet(False)
    yield
    be_quiet(False)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real corpora: CROSSLENS_DATA, or else shared/data beside the checkout."""
    named = os.environ.get("CROSSLENS_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(reason=f"no real data: {folder} is not there; set CROSSLENS_DATA to the folder")
    return folder


@pytest.fixture(scope="session")
def real_encoder() -> Path:
    """The folder of a real multilingual encoder: CROSSLENS_ENCODER."""
    named = os.environ.get("CROSSLENS_ENCODER")
    if not named:
        pytest.skip(reason="no real encoder: set CROSSLENS_ENCODER to the folder of one")
    if not (Path(named) / "config.json").is_file():
        raise pytest.UsageError(
            f"CROSSLENS_ENCODER: expected a model folder, got {named!r}; there is no "
            f"config.json in it"
        )
    return Path(named)

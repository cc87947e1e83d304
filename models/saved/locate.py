"""Where an encoder's files are: a folder, or what the hub has under a name.

Which files are read, :mod:`crosslens.models.saved.model_files` decides: weights are safetensors of
the folder itself, and code from it is run only for a caller who says so. The fingerprint (a hash of
their content) covers all of them.
"""

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from crosslens.errors import refuse
from crosslens.models.saved.model_files import HUB_PATTERNS, ModelFiles, find_model_files
from crosslens.progress import is_quiet

__all__ = ["encoder_fingerprint", "hub_commit", "resolve_encoder"]

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def resolve_encoder(
    name: str, *, trust_remote_code: bool = False, revision: str | None = None
) -> Path:
    """The folder of an encoder given as a folder or a hub name (which is downloaded unless it is in
    the cache).

    Parameters
    ----------
    revision: for a hub name, the commit, tag or branch to take; the hub's main branch where it is
        None.

    Raises
    ------
    InputError: no such folder, hub name or revision; the folder lacks weights or a tokeniser; it
        wants code of its own to be run.
    """
    folder = Path(name)
    if not folder.is_dir():
        if folder.exists() or not _HUB_NAME.fullmatch(name):
            refuse("encoder", "a model folder or a hub name", f"{name!r}", "check the path")
        if revision is not None and not revision.strip():
            expected = "a commit, tag or branch of the hub"
            refuse("revision", expected, repr(revision), "name one, or leave it out")
        folder = _download(name, trust_remote_code, revision)
    elif revision is not None:
        expected = "a hub name that it is a revision of"
        refuse("revision", expected, f"the folder {name}", "leave the revision out")
    _check_code(name, find_model_files(name, folder), trust_remote_code)
    return folder


def encoder_fingerprint(folder: Path, random_seed: int | None = None) -> str:
    """16 hexadecimal digits over the files that an encoder's numbers depend on (for a random copy:
    its seed instead of the weights)."""
    digest = hashlib.sha256(f"seed {random_seed}".encode())
    for line in find_model_files(folder.name, folder).sums(weights=random_seed is None):
        digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]


def hub_commit(folder: Path) -> str:
    """The commit that a folder of the hub's cache is of."""
    return folder.name if folder.parent.name == "snapshots" else ""


def _check_code(name: str, files: ModelFiles, trusted: bool) -> None:
    wanted = files.code
    if not wanted:
        return
    if not trusted:
        remedy = (
            "read that code, and if you trust it say --trust-remote-code (trust_remote_code=True)"
        )
        got = f"one that wants to run {wanted[0][:80]}"
        refuse(f"encoder {name}", "a model that transformers has the code of", got, remedy)
    for one in wanted:
        file = one.rpartition(".")[0].replace(".", "/") + ".py"
        if "--" in one:  # the code could change there without the fingerprint changing
            remedy = (
                "copy that repository's *.py files into the folder and take the part up to -- out "
                "of auto_map in the *.json files"
            )
            got = f"code in another repository ({one[:80]})"
            refuse(f"encoder {name}", "code in its own folder", got, remedy)
        if file not in files.others:
            refuse(
                f"encoder {name}", f"its code ({file[:80]}) in the folder", "none", "copy it there"
            )


def _download(name: str, code: bool, revision: str | None) -> Path:
    from huggingface_hub import model_info, snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if is_quiet():
        disable_progress_bars()
    from_cache = _offline()
    if not from_cache:
        try:
            # snapshot_download itself would wait for a silent network without end
            model_info(name, revision=revision, timeout=10)
        except Exception:  # no network, or no such model: what the cache has decides
            from_cache = True
    patterns = [*HUB_PATTERNS, *(["*.py"] if code else [])]
    try:
        taken: dict[str, Any] = {
            "allow_patterns": patterns,
            "ignore_patterns": ["*/*"],
            "local_files_only": from_cache,
        }
        return Path(snapshot_download(name, revision=revision, etag_timeout=10, **taken))
    except Exception as error:  # the hub client raises many kinds
        why = type(error).__name__
        refuse(
            "encoder",
            "a model folder or the name of a model on the hub",
            (
                f"{name!r}{f' at revision {revision!r}' if revision else ''}, which could not be "
                f"had ({why})"
            ),
            "check spelling and network",
        )


def _offline() -> bool:
    # as the hub client reads it
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")

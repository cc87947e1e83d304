"""An attack on the loading of model folders: whatever lies in one, it is loaded or refused, quickly
and in little memory."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from attack import KINDS

SEED = int(os.environ.get("CROSSLENS_ATTACK_SEED", "0"))
VARIATIONS = int(os.environ.get("CROSSLENS_ATTACK_VARIATIONS", "10"))


def attacked(original, base, cases, limit):
    """What became of each case, in a process of its own; its memory is bounded, so that a fault of
    this kind harms nobody."""
    base.mkdir(exist_ok=True)
    bound = lambda: resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))  # noqa: E731
    program = [sys.executable, str(Path(__file__).with_name("attack.py")), str(original), str(base)]
    done = subprocess.run(
        program,
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=limit,
        preexec_fn=bound,
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"{told[-1:]} {done.stderr[-1000:]}"
    found = [one for one in told if "outcome" in one]
    assert len(found) == len(cases)
    return found


def faults(found):
    return [
        one
        for one in found
        if not one["outcome"].startswith(("loaded", "refused"))
        or one["executed"]
        or one["heard"]
        or one["seconds"] > 20
        or one["mb"] > 1024
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "xlm-roberta"])
def test_every_kind_of_damage_is_refused_or_does_no_harm(originals, tmp_path, kind):
    cases = [(name, SEED + number) for number in range(VARIATIONS) for name in KINDS]
    assert len(KINDS) >= 18
    found = attacked(originals[kind], tmp_path / "attack", cases, 60 + 20 * len(cases))
    assert faults(found) == []
    refused = {one["kind"] for one in found if one["outcome"].startswith("refused")}
    assert {
        "index_to_pickle",
        "index_outside",
        "decoy",
        "pickle_alone",
        "header_claims",
        "huge_sizes",
        "no_file",
        "adapter",
    } <= refused


@pytest.mark.parametrize(
    "name",
    [
        "index_to_pickle",
        "index_outside",
        "header_nested",
        "huge_sizes",
        "many_layers",
        "code_unasked",
        "no_file",
    ],
)
def test_a_sample_of_it(originals, tmp_path, name):
    """In this process, so that it is quick."""
    import random
    import shutil

    from crosslens.errors import CrosslensError
    from crosslens.models.saved.loading import load_encoder

    for seed in range(3):
        folder = shutil.copytree(originals["bert"], tmp_path / str(seed) / "model")
        KINDS[name](folder, random.Random(f"{name} {seed}"), folder.parent / "executed")
        with pytest.raises(CrosslensError):
            load_encoder(str(folder))
        assert not (folder.parent / "executed").exists()

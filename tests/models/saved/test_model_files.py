"""Which files a model folder is read from: safetensors of the folder, and none that the fingerprint
does not cover."""

import json
import os
import pickle
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from toy_models import change_weights
from transformers import AutoModel

from crosslens.errors import InputError
from crosslens.models.saved import model_files
from crosslens.models.saved.loading import load_encoder
from crosslens.models.saved.locate import encoder_fingerprint
from crosslens.models.saved.model_files import find_model_files


class Harmful:
    def __init__(self, sign):
        self.sign = str(sign)

    def __reduce__(self):
        return os.mkdir, (self.sign,)


def into_shards(folder, shards):
    """Replace a folder's weights by an index that maps them to ``shards``, in turn."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    places = {name: shards[i % len(shards)] for i, name in enumerate(weights)}
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return weights, places


def state_of(encoder):
    ids = torch.arange(5, 15)[None]
    with torch.inference_mode():
        return encoder.hidden_states(ids, None)[-1]


def test_an_index_that_names_a_pickle_is_refused_whatever_lies_beside_it(copy_of, tmp_path):
    folder = copy_of("bert")
    weights, _ = into_shards(folder, ["pytorch_model.bin"])
    torch.save(weights, folder / "pytorch_model.bin")
    save_file({"decoy": torch.ones(1)}, folder / "decoy.safetensors")
    told = (
        r"expected weights as safetensors, got 'pytorch_model.bin' \(named in "
        r"model.safetensors.index.json\); convert them: .*"
    )
    with pytest.raises(InputError, match=told):
        load_encoder(str(folder))
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Harmful(tmp_path / "executed")))
    with pytest.raises(InputError, match=told):
        load_encoder(str(folder))
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("way", ["above", "absolute", "below and above"])
def test_an_index_that_names_weights_elsewhere_is_refused(copy_of, tmp_path, way):
    folder = copy_of("bert")
    elsewhere = tmp_path / "other" / "model.safetensors"
    elsewhere.parent.mkdir()
    target = {
        "above": "../other/model.safetensors",
        "absolute": str(elsewhere),
        "below and above": "x/../../other/model.safetensors",
    }[way]
    weights, _ = into_shards(folder, [target])
    (folder / "x").mkdir()
    save_file(weights, elsewhere, metadata={"format": "pt"})
    with pytest.raises(
        InputError,
        match=(
            "expected files in its own folder, got '.*'; copy the file into the folder and name "
            "it there"
        ),
    ):
        load_encoder(str(folder))


@pytest.mark.parametrize(
    "index",
    ["[]", "{", "{}", '{"weight_map": []}', '{"weight_map": {}}', '{"weight_map": {"a": 1}}'],
)
def test_an_index_that_is_none_is_refused(copy_of, index):
    folder = copy_of("bert")
    into_shards(folder, ["one.safetensors"])
    (folder / "model.safetensors.index.json").write_text(index)
    told = (
        r"index.json\)?(: expected (JSON|an object))?, got (something else|a list).*; (give the "
        r"whole checkpoint|check the folder)"
    )
    with pytest.raises(InputError, match=told):
        load_encoder(str(folder))


def test_a_shard_that_is_missing_is_refused_by_its_name(copy_of):
    folder = copy_of("bert")
    into_shards(folder, ["one.safetensors"])
    with pytest.raises(
        InputError, match="expected one.safetensors in the folder, got none; give the whole folder"
    ):
        load_encoder(str(folder))


def test_safetensors_that_nobody_loads_are_no_weights(copy_of):
    folder = copy_of("bert")
    (folder / "model.safetensors").rename(folder / "decoy.safetensors")
    with pytest.raises(
        InputError,
        match=(
            "expected weights as safetensors, got only decoy.safetensors; give a folder with "
            "model.saf"
        ),
    ):
        load_encoder(str(folder))


def test_shards_in_folders_below_are_loaded_and_all_in_the_fingerprint(copy_of, originals):
    folder = copy_of("bert")
    weights, places = into_shards(folder, ["a.safetensors", "part/b.safetensors"])
    (folder / "part").mkdir()
    for shard in set(places.values()):
        save_file(
            {name: weights[name] for name in weights if places[name] == shard},
            folder / shard,
            metadata={"format": "pt"},
        )
    assert torch.equal(
        state_of(load_encoder(str(folder))), state_of(load_encoder(str(originals["bert"])))
    )
    seen = {encoder_fingerprint(folder)}
    some = next(name for name in weights if places[name] == "part/b.safetensors")
    with open(folder / "part" / "b.safetensors", "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x01")
    seen.add(encoder_fingerprint(folder))
    index = folder / "model.safetensors.index.json"
    index.write_text(index.read_text().replace(some, some + "x"))
    seen.add(encoder_fingerprint(folder))
    # what is not loaded changes no number
    save_file({"decoy": torch.ones(1)}, folder / "decoy.safetensors")
    assert len(seen) == 3 and encoder_fingerprint(folder) in seen


def test_weights_that_the_configuration_names_are_the_ones_in_the_fingerprint(copy_of):
    folder = copy_of("bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps({**config, "transformers_weights": "chosen.safetensors"})
    )
    weights = load_file(folder / "model.safetensors")
    weights["bert.embeddings.LayerNorm.bias"] = weights["bert.embeddings.LayerNorm.bias"] + 1
    save_file(weights, folder / "chosen.safetensors", metadata={"format": "pt"})
    before = encoder_fingerprint(folder)
    model = load_encoder(str(folder)).model
    assert torch.equal(model.embeddings.LayerNorm.bias, weights["bert.embeddings.LayerNorm.bias"])
    change_weights(folder, lambda others: others["bert.embeddings.LayerNorm.bias"].add_(3))
    assert encoder_fingerprint(folder) == before
    for name in ("../x.safetensors", "adapter_model.bin"):
        (folder / "config.json").write_text(json.dumps({**config, "transformers_weights": name}))
        (folder.parent / "x.safetensors").write_bytes((folder / "chosen.safetensors").read_bytes())
        (folder / "adapter_model.bin").touch()
        with pytest.raises(
            InputError, match="expected (files in its own folder|weights as safetensors), got"
        ):
            load_encoder(str(folder))


def hub_cache(base, original, shared):
    """A snapshot as the hub's client leaves it: links to blobs, which with a store of all
    repositories are links themselves."""
    repository = base / "hub" / "models--some--bert"
    snapshot = repository / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    for number, path in enumerate(sorted(original.iterdir())):
        blob = repository / "blobs" / f"{number:064x}"
        if shared:
            store = base / "hub" / "blobs" / "00" / blob.name
            store.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, store)
            blob.symlink_to(os.path.relpath(store, blob.parent))
        else:
            shutil.copy(path, blob)
        (snapshot / path.name).symlink_to(f"../../blobs/{blob.name}")
    return snapshot


@pytest.mark.parametrize("shared", [False, True])
def test_the_links_of_a_hub_cache_are_part_of_the_folder(originals, tmp_path, shared):
    snapshot = hub_cache(tmp_path, originals["bert"], shared)
    assert encoder_fingerprint(snapshot) == encoder_fingerprint(originals["bert"])
    assert torch.equal(
        state_of(load_encoder(str(snapshot))), state_of(load_encoder(str(originals["bert"])))
    )
    # where the folder itself lies is the user's choice
    (tmp_path / "by another name").symlink_to(snapshot)
    assert encoder_fingerprint(tmp_path / "by another name") == encoder_fingerprint(
        originals["bert"]
    )


@pytest.mark.parametrize(
    "file", ["model.safetensors", "config.json", "tokenizer.json", "special_tokens_map.json"]
)
def test_a_link_out_of_the_folder_is_refused(copy_of, originals, file):
    folder = copy_of("bert")
    (folder / file).unlink(missing_ok=True)
    outside = folder.parent / "secret"
    outside.write_bytes(
        (originals["bert"] / file).read_bytes() if (originals["bert"] / file).exists() else b"{}"
    )
    (folder / file).symlink_to("../secret")
    told = (
        f"expected files in its own folder, got {file}, a link to {outside}; copy the file into "
        f"the folder"
    )
    with pytest.raises(InputError, match=told):
        load_encoder(str(folder))
    (folder / file).unlink()
    outside.rename(folder / "here")
    (folder / file).symlink_to("here")
    load_encoder(str(folder))


@pytest.mark.parametrize(
    "file", ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"]
)
@pytest.mark.parametrize("what", ["folder", "pipe"])
def test_what_is_no_file_is_refused_and_not_waited_for(copy_of, file, what):
    folder = copy_of("bert")
    (folder / file).unlink()
    (folder / file).mkdir() if what == "folder" else os.mkfifo(folder / file)
    with pytest.raises(
        InputError,
        match=(
            f"expected a file {file}, got something else; give the folder that save_pretrained "
            f"wrote"
        ),
    ):
        load_encoder(str(folder))


def test_an_adapter_is_refused(copy_of):
    folder = copy_of("bert")
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "../other"}))
    with pytest.raises(
        InputError,
        match=(
            r"expected whole weights, got an adapter \(adapter_config.json\); merge it with its "
            r"model"
        ),
    ):
        load_encoder(str(folder))


@pytest.mark.parametrize("source", ["tokenizer_config.json", "special_tokens_map.json"])
@pytest.mark.parametrize("key", ["tokenizer_file", "vocab_file", "vocab", "init_inputs"])
def test_settings_of_a_tokeniser_name_no_file_elsewhere(copy_of, originals, source, key):
    folder = copy_of("bert")
    (folder.parent / "evil.json").write_bytes(
        (originals["xlm-roberta"] / "tokenizer.json").read_bytes()
    )
    value = str(folder.parent / "evil.json")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings.pop("added_tokens_decoder", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    there = json.loads((folder / source).read_text()) if (folder / source).exists() else {}
    (folder / source).write_text(
        json.dumps({**there, key: [value] if key == "init_inputs" else value})
    )
    found = load_encoder(str(folder)).tokenizer
    expected = load_encoder(str(originals["bert"])).tokenizer
    assert (
        found.get_vocab() == expected.get_vocab()
        and found("the cat sat")["input_ids"] == expected("the cat sat")["input_ids"]
    )


def test_kernels_that_a_configuration_names_are_not_fetched(copy_of, originals):
    folder = copy_of("bert")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps({**config, "attn_implementation": "somebody/kernels"})
    )
    assert torch.equal(
        state_of(load_encoder(str(folder))), state_of(load_encoder(str(originals["bert"])))
    )


def test_transformers_sees_the_files_of_the_fingerprint_and_no_others(copy_of, monkeypatch):
    folder = copy_of("bert")
    for other in (
        "pytorch_model.bin",
        "decoy.safetensors",
        "README.md",
        "training_args.json",
        "generation_config.json",
        ".metadata",
    ):
        (folder / other).write_bytes(b"{}")
    (folder / "special_tokens_map.json").write_text('{"unk_token": "[UNK]"}')
    (folder / "added_tokens.json").write_text("{}")
    seen = []
    load = AutoModel.from_pretrained
    monkeypatch.setattr(
        AutoModel,
        "from_pretrained",
        lambda where, **options: seen.append(list(where.iterdir())) or load(where, **options),
    )
    encoder = load_encoder(str(folder))
    files = find_model_files("x", folder)
    assert {path.name for path in seen[0]} == {*files.weights, *files.others}
    assert encoder.model.name_or_path == encoder.tokenizer.name_or_path == str(folder)
    before = {encoder_fingerprint(folder)}
    for number, path in enumerate(sorted(seen[0])):
        with open(folder / path.name, "ab") as file:
            file.write(b" ")
        before.add(encoder_fingerprint(folder))
        assert len(before) == number + 2, path.name
    (folder / "README.md").write_text("other words")
    assert encoder_fingerprint(folder) in before


OPENED = """
import os, sys, pathlib
folder = pathlib.Path(sys.argv[1])
from crosslens.models.saved.loading import load_encoder
from crosslens.models.scoring.cloze import load_scorer
load_encoder(sys.argv[2])
opened = set()
sys.addaudithook(lambda event, told: opened.add(told[0]) if event == "open" else None)
load_encoder(str(folder))
load_scorer(str(folder))
for path in sorted(os.path.realpath(path) for path in opened if isinstance(path, (str, bytes, os.PathLike))):
    print(path)
"""


@pytest.mark.slow
def test_every_file_that_is_opened_is_in_the_fingerprint_or_no_part_of_the_folder(
    copy_of, originals
):
    """Rust's own files are not heard; they are of the same folder of links."""
    folder = copy_of("bert")
    for other in (
        "pytorch_model.bin",
        "decoy.safetensors",
        "generation_config.json",
        "chat_template.jinja",
    ):
        (folder / other).write_bytes(b"{}")
    program = [sys.executable, "-c", OPENED, str(folder), str(originals["bert"])]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=True)
    inside = {
        line.removeprefix(f"{folder}/")
        for line in done.stdout.splitlines()
        if line.startswith(str(folder.parent))
    }
    files = find_model_files("x", folder)
    assert (
        {"config.json", "tokenizer.json", "model.safetensors"}
        <= inside
        <= {*files.weights, *files.others}
    )


@pytest.mark.slow
def test_every_file_that_a_tokeniser_of_transformers_is_read_from_is_known():
    import importlib
    import pkgutil

    import transformers.models

    from crosslens.models.saved import model_files

    known = {
        *model_files._TOKENISERS,
        *model_files._RARE,
        *model_files._BESIDE,
        *model_files._SETTINGS,
        None,
    }
    found = set()
    for package in pkgutil.iter_modules(transformers.models.__path__):
        try:
            module = importlib.import_module(
                f"transformers.models.{package.name}.tokenization_{package.name}"
            )
        except (ImportError, NameError):  # a package of theirs is not here
            continue
        found |= set(getattr(module, "VOCAB_FILES_NAMES", {}).values())
    assert len(found) > 10 and found <= known, sorted(found - known)


@pytest.mark.parametrize(
    "content", [b"", b"12345", b"\xff" * 16, (10).to_bytes(8, "little") + b"no json..."]
)
def test_a_damaged_file_has_no_tensors_and_a_fault_of_ours_is_no_damage(
    tmp_path, monkeypatch, content
):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    files = model_files.ModelFiles(tmp_path, (path.name, "none"), None, (), ())
    assert model_files.tensor_names(files) == []

    def broken(*told):
        raise AttributeError("a fault of this library")

    monkeypatch.setattr(model_files, "safe_open", broken)
    with pytest.raises(AttributeError):
        model_files.tensor_names(files)

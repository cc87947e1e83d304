"""Loading: what transformers would give, and everything that is no whole, safe encoder refused."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
from toy_models import KINDS, PLACES, change_weights
from transformers import AutoModel

from crosslens.errors import InputError
from crosslens.models import loading
from crosslens.models.loading import encoder_fingerprint, load_encoder, resolve_encoder


def same_weights(one, other):
    """All but the pooler's, which no hidden state depends on: transformers draws it where a masked LM has none."""
    first, second = ({k: v for k, v in e.model.state_dict().items() if "pooler" not in k} for e in (one, other))
    return first.keys() == second.keys() and all(torch.equal(tensor, second[name]) for name, tensor in first.items())


@pytest.mark.parametrize("kind", [*KINDS, "ours"])
def test_it_is_what_transformers_loads(originals, kind):
    encoder = load_encoder(str(originals[kind]))
    reference = AutoModel.from_pretrained(originals[kind])
    ids = torch.arange(5, 15)[None]
    with torch.no_grad():
        expected = reference.eval()(input_ids=ids, output_hidden_states=True).hidden_states
        states = encoder.model(input_ids=ids, output_hidden_states=True).hidden_states
    assert all(torch.equal(a, b) for a, b in zip(states, expected, strict=True))
    assert encoder.layers == len(expected) and encoder.d == expected[0].shape[-1]
    assert not encoder.model.training and encoder.model.dtype == torch.float32 and encoder.tokenizer.is_fast
    assert encoder.name == kind


@pytest.mark.parametrize("kind", [*KINDS, "ours"])
def test_the_longest_input_goes_through_and_no_longer_one_is_allowed(originals, kind):
    encoder = load_encoder(str(originals[kind]))
    assert encoder.max_length == (32 if kind == "ours" else PLACES)
    ids = torch.full((1, encoder.max_length), 7)
    with torch.no_grad():
        assert encoder.model(input_ids=ids).last_hidden_state.isfinite().all()
        if kind != "bert":  # whose tokeniser allows less than its positions
            with pytest.raises((IndexError, RuntimeError)):
                encoder.model(input_ids=torch.full((1, encoder.max_length + 1), 7))


def test_half_precision_weights_are_read_as_float32(copy_of):
    folder = copy_of("bert")
    change_weights(folder, lambda weights: weights.update({name: tensor.half() for name, tensor in weights.items()}))
    assert {tensor.dtype for tensor in load_encoder(str(folder)).model.state_dict().values() if tensor.is_floating_point()} == {
        torch.float32
    }


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("config.json", "expected a model folder with config.json, got none in it; give the folder that save_pretrained wrote"),
        ("model.safetensors", "expected weights as safetensors, got no weights; give a folder with model.safetensors"),
        ("tokenizer.json", r"expected a tokeniser \(tokenizer.json\), got none in the folder; save the tokeniser beside the weights"),
    ],
)
def test_a_folder_that_lacks_a_part_is_refused(copy_of, missing, told):
    folder = copy_of("bert")
    (folder / missing).unlink()
    with pytest.raises(InputError, match=f"encoder {folder}: {told}"):
        load_encoder(str(folder))


def test_pickled_weights_are_refused_with_advice(copy_of, tmp_path):
    folder = copy_of("bert")
    (folder / "model.safetensors").unlink()

    class Harmful:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    torch.save(Harmful(), folder / "pytorch_model.bin")
    told = r"expected weights as safetensors, got only pickled weights \(pytorch_model.bin\); convert them: .*save_pretrained\(folder"
    with pytest.raises(InputError, match=told):
        load_encoder(str(folder))
    assert not (tmp_path / "executed").exists()


def test_code_in_a_folder_is_not_run(copy_of, tmp_path):
    folder = copy_of("bert")
    (folder / "modeling_x.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'executed')!r})\nclass X: pass\n")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps({**config, "model_type": "x", "auto_map": {"AutoConfig": "modeling_x.X", "AutoModel": "modeling_x.X"}})
    )
    with pytest.raises(InputError, match="expected a model that transformers loads and runs, got .*; check the folder"):
        load_encoder(str(folder))
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("name", ["no such folder", "a/b/c", "./models/x"])
def test_a_name_that_cannot_be_one_is_refused_without_asking_the_hub(name, monkeypatch):
    monkeypatch.setattr(loading, "_download", lambda _: pytest.fail("asked the hub"))
    with pytest.raises(InputError, match=f"encoder: expected a model folder or a hub name, got '{name}'; check the path"):
        load_encoder(name)


def test_a_file_is_no_encoder(originals):
    with pytest.raises(InputError, match="encoder: expected a model folder or a hub name, got '.*config.json'; check the path"):
        load_encoder(str(originals["bert"] / "config.json"))


def test_an_unknown_hub_name_is_refused_offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    told = (
        r"encoder: expected a model folder or the name of a model on the hub, got 'nobody/nothing', which could not be had \(\w+\); check"
    )
    with pytest.raises(InputError, match=told):
        load_encoder("nobody/nothing")


def test_a_hub_name_without_a_network_is_refused_and_does_not_hang(tmp_path):
    """Port 9 of this machine stands for a network that answers nobody; the process is stopped if it waits."""
    program = (
        "from crosslens.models.loading import resolve_encoder\n"
        "from crosslens.errors import InputError\n"
        "try:\n    resolve_encoder('nobody/nothing')\n"
        "except InputError as error:\n    print(error)\n"
    )
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower() and not name.startswith("HF_")}
    environment |= {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert "got 'nobody/nothing', which could not be had (" in done.stdout and done.stdout.endswith("check spelling and network\n")


@pytest.mark.parametrize(("value", "local"), [("1", True), ("0", False), ("", False), ("TRUE", True)])
def test_offline_is_what_the_hubs_variable_says(monkeypatch, originals, value, local):
    asked = {}

    def snapshot_download(name, **options):
        asked.update(options, name=name)
        return str(originals["bert"])

    monkeypatch.setattr("huggingface_hub.model_info", lambda name, timeout: None)
    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    assert load_encoder("some/bert").name == "some/bert"
    assert asked["name"] == "some/bert" and asked["local_files_only"] is local
    assert not any(pattern.endswith((".bin", ".pt", ".py", "*")) for pattern in asked["allow_patterns"])


def test_without_a_network_the_cache_decides(monkeypatch, originals):
    asked = {}
    monkeypatch.setattr("huggingface_hub.model_info", lambda name, timeout: (_ for _ in ()).throw(TimeoutError(timeout)))
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **options: asked.update(options) or str(originals["bert"]))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert load_encoder("some/bert").name == "some/bert" and asked["local_files_only"] is True


def test_incomplete_weights_are_refused(copy_of):
    folder = copy_of("bert")
    change_weights(folder, lambda weights: [weights.pop(name) for name in list(weights) if "layer.2.output" in name])
    with pytest.raises(
        InputError, match=r"expected weights for the whole model, got 4 missing \(encoder.layer.2.output.* ...\); give the whole"
    ):
        load_encoder(str(folder))


@pytest.mark.parametrize("spoil", ["cut short", "other shape"])
def test_damaged_weights_are_refused(copy_of, spoil):
    folder = copy_of("bert")
    path = folder / "model.safetensors"
    if spoil == "cut short":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        change_weights(folder, lambda weights: weights.update({"bert.embeddings.LayerNorm.weight": torch.ones(17)}))
    with pytest.raises(InputError, match="expected a model that transformers loads and runs, got .+; check the folder"):
        load_encoder(str(folder))


def test_a_random_copy_is_reproducible_and_not_the_original(originals):
    name = str(originals["bert"])
    original = load_encoder(name)
    state = torch.random.get_rng_state()
    first, again, other = (load_encoder(name, random_seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert same_weights(first, again) and not same_weights(first, other) and not same_weights(first, original)
    assert len({encoder.fingerprint for encoder in (original, first, other)}) == 3 and first.fingerprint == again.fingerprint
    assert (first.layers, first.d, first.max_length) == (original.layers, original.d, original.max_length)
    for key, tensor in first.model.state_dict().items():
        if tensor.ndim == 2:
            assert not torch.allclose(tensor, original.model.state_dict()[key], atol=1e-2), key
            assert tensor.std().item() == pytest.approx(0.02, rel=0.3), key  # BERT's initializer_range; at least 24 draws a matrix


def test_the_fingerprint_names_the_weights_the_configuration_and_the_tokeniser(copy_of):
    told = {encoder_fingerprint(copy_of("bert", "same")), encoder_fingerprint(copy_of("bert", "copied elsewhere"))}
    assert len(told) == 1
    folder = copy_of("bert", "weights")
    change_weights(folder, lambda weights: weights["bert.embeddings.LayerNorm.bias"][:1].add_(1e-3))
    told.add(encoder_fingerprint(folder))
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        folder = copy_of("bert", file)
        (folder / file).write_text((folder / file).read_text() + " ")
        told.add(encoder_fingerprint(folder))
    # a random copy has none of the weights, and shows the same numbers whatever they were
    assert encoder_fingerprint(folder.parent / "same", 1) == encoder_fingerprint(folder.parent / "weights", 1)
    assert len(told) == 5 and all(len(name) == 16 for name in told)


def test_a_folder_may_be_split_into_shards(originals, tmp_path):
    model = AutoModel.from_pretrained(originals["bert"])
    model.save_pretrained(tmp_path, max_shard_size="5KB")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(originals["bert"] / name, tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert resolve_encoder(str(tmp_path)) == tmp_path
    assert same_weights(load_encoder(str(tmp_path)), load_encoder(str(originals["bert"])))
    before = encoder_fingerprint(tmp_path)
    shard = sorted(tmp_path.glob("*.safetensors"))[-1]
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x01")
    assert encoder_fingerprint(tmp_path) != before

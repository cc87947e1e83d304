"""Loading: what transformers would give, and everything that is no whole, safe encoder refused."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
from model_families import FAMILIES, VOCABULARY, load_family, save_family
from toy_models import KINDS, PLACES, change_weights
from transformers import AutoModel, AutoModelForTextEncoding, BartConfig, BartModel
from transformers.models.bert.modeling_bert import BertModel

from crosslens import progress
from crosslens.errors import InputError
from crosslens.models.saved import locate, pretrained
from crosslens.models.saved.loading import load_encoder
from crosslens.models.saved.locate import encoder_fingerprint, resolve_encoder


def same_weights(one, other):
    """All but the pooler's, which no hidden state depends on: transformers draws it where a masked
    LM has none."""
    first, second = (
        {k: v for k, v in e.model.state_dict().items() if "pooler" not in k} for e in (one, other)
    )
    return first.keys() == second.keys() and all(
        torch.equal(tensor, second[name]) for name, tensor in first.items()
    )


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
    assert (
        not encoder.model.training
        and encoder.model.dtype == torch.float32
        and encoder.tokenizer.is_fast
    )
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
    change_weights(
        folder,
        lambda weights: weights.update({name: tensor.half() for name, tensor in weights.items()}),
    )
    assert {
        tensor.dtype
        for tensor in load_encoder(str(folder)).model.state_dict().values()
        if tensor.is_floating_point()
    } == {torch.float32}


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        (
            "config.json",
            (
                "expected a model folder with config.json, got none in it; give the folder that "
                "save_pretrained wrote"
            ),
        ),
        (
            "model.safetensors",
            "expected weights as safetensors, got no weights; give a folder with model.safetensors",
        ),
        (
            "tokenizer.json",
            (
                r"expected a tokeniser \(tokenizer.json\), got none in the folder; save the "
                r"tokeniser beside the weights"
            ),
        ),
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
    told = (
        r"expected weights as safetensors, got only pickled weights \(pytorch_model.bin\); "
        r"convert them: .*save_pretrained\(folder"
    )
    with pytest.raises(InputError, match=told):
        load_encoder(str(folder))
    assert not (tmp_path / "executed").exists()


CODE = {
    "configuration_own.py": """
from transformers import PretrainedConfig
class OwnConfig(PretrainedConfig):
    model_type = "own"
    def __init__(self, width=8, fault="none", vocab_size=20, max_position_embeddings=40, **rest):
        self.width, self.fault, self.vocab_size, self.max_position_embeddings = width, fault, vocab_size, max_position_embeddings
        super().__init__(**rest)
""",
    "modeling_own.py": """
import pathlib
import torch
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput
from .configuration_own import OwnConfig
class OwnModel(PreTrainedModel):
    config_class = OwnConfig
    def __init__(self, config):
        super().__init__(config)
        self.table = torch.nn.Embedding(config.vocab_size, config.width)
        self.post_init()
    def _init_weights(self, module):
        if isinstance(module, torch.nn.Embedding):
            torch.nn.init.normal_(module.weight)
    def forward(self, input_ids, attention_mask=None, output_hidden_states=False, **rest):
        x = self.table(input_ids)
        y = {
            "none": lambda: 2 * x,
            "averages over padding": lambda: x + x.mean(1, keepdim=True),
            "normalises over the batch": lambda: x - x.mean((0, 1)),
            "not a number": lambda: x / 0 - x / 0,
            "two widths": lambda: x[..., :4],
            "no states": lambda: x,
        }[self.config.fault]()
        return BaseModelOutput(last_hidden_state=y, hidden_states=(x, y) if self.config.fault != "no states" else None)
""",
}


@pytest.fixture(scope="module")
def code_cache(tmp_path_factory):
    """Where transformers copies the code of folders to, in place of the user's cache."""
    with pytest.MonkeyPatch.context() as patched:
        folder = str(tmp_path_factory.mktemp("modules"))
        patched.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", folder)
        patched.syspath_prepend(folder)
        yield


@pytest.fixture
def own_code(tmp_path, code_cache):
    """A folder whose model is in its own Python files, with a fault of choice."""

    def make(fault="none"):
        folder = tmp_path / fault.replace(" ", "_")
        save_family(folder, "bert")
        for file, text in CODE.items():
            (folder / file).write_text(text)
        auto_map = {
            "AutoConfig": "configuration_own.OwnConfig",
            "AutoModel": "modeling_own.OwnModel",
        }
        (folder / "config.json").write_text(
            json.dumps({"model_type": "own", "fault": fault, "auto_map": auto_map})
        )
        table = torch.randn(VOCABULARY, 8, generator=torch.Generator().manual_seed(0))
        change_weights(
            folder, lambda weights: (weights.clear(), weights.update({"table.weight": table}))
        )
        return folder

    return make


def test_code_in_a_folder_is_not_run_unless_it_is_trusted(own_code, tmp_path):
    folder = own_code()
    sign = f"pathlib.Path({str(tmp_path / 'executed')!r}).mkdir(exist_ok=True)\n"
    (folder / "modeling_own.py").write_text(CODE["modeling_own.py"] + sign)
    told = (
        f"encoder {folder}: expected a model that transformers has the code of, got one that "
        f"wants to run configuration_own.OwnConfig; "
        r"read that code, and if you trust it say --trust-remote-code \(trust_remote_code=True\)"
    )
    for refused in (load_encoder, resolve_encoder):
        with pytest.raises(InputError, match=told):
            refused(str(folder))
    assert not (tmp_path / "executed").exists()
    encoder = load_encoder(str(folder), trust_remote_code=True)
    assert (tmp_path / "executed").exists() and type(encoder.model).__name__ == "OwnModel"
    assert (
        encoder.layers,
        encoder.d,
        encoder.max_length,
        encoder.pad_id,
        encoder.padding_free,
    ) == (2, 8, 40, 0, False)
    one, other = encoder.hidden_states(torch.tensor([[5, 6]]), None)
    assert torch.equal(one[0], encoder.model.table.weight[5:7]) and torch.equal(other, 2 * one)


def test_a_random_copy_of_trusted_code_is_reproducible(own_code):
    name = str(own_code())
    original, first, again, other = (
        load_encoder(name, random_seed=seed, trust_remote_code=True) for seed in (None, 1, 1, 2)
    )
    assert (
        same_weights(first, again)
        and not same_weights(first, other)
        and not same_weights(first, original)
    )


def test_code_that_a_tokeniser_wants_is_not_run_either(copy_of):
    folder = copy_of("bert")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(
        json.dumps({**settings, "auto_map": {"AutoTokenizer": ["tokenization_x.X", None]}})
    )
    with pytest.raises(
        InputError, match="got one that wants to run tokenization_x.X; read that code"
    ):
        load_encoder(str(folder))
    with pytest.raises(
        InputError,
        match=r"expected its code \(tokenization_x.py\) in the folder, got none; copy it there",
    ):
        load_encoder(str(folder), trust_remote_code=True)


def test_code_in_another_repository_is_refused_even_when_trusted(own_code):
    folder = own_code()
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"]["AutoModel"] = "somebody/code--modeling_own.OwnModel"
    (folder / "config.json").write_text(json.dumps(config))
    told = (
        r"expected code in its own folder, got code in another repository "
        r"\(somebody/code--modeling_own.OwnModel\); copy that"
    )
    with pytest.raises(InputError, match=told):
        load_encoder(str(folder), trust_remote_code=True)


def test_the_fingerprint_covers_code_that_is_run_and_no_other(own_code, copy_of):
    folder, plain = own_code(), copy_of("bert")
    before, without = encoder_fingerprint(folder), encoder_fingerprint(plain)
    (folder / "modeling_own.py").write_text(CODE["modeling_own.py"] + "# changed\n")
    (plain / "notes.py").write_text("# nobody runs this\n")
    assert encoder_fingerprint(folder) != before and encoder_fingerprint(plain) == without
    (folder / "part").mkdir()
    between = encoder_fingerprint(folder)
    (folder / "part" / "more.py").write_text("")
    assert encoder_fingerprint(folder) != between


@pytest.mark.parametrize(
    "damaged", ["[]", "{", '{"auto_map": []}', '{"auto_map": 3}', '{"auto_map": null}']
)
def test_a_config_that_is_no_configuration_is_refused(copy_of, damaged):
    folder = copy_of("bert")
    (folder / "config.json").write_text(damaged)
    told = (
        "expected (a model that transformers loads and runs|JSON|an object), got .*; check the "
        "folder"
    )
    with pytest.raises(InputError, match=told):
        load_encoder(str(folder))


@pytest.mark.parametrize("name", ["no such folder", "a/b/c", "./models/x"])
def test_a_name_that_cannot_be_one_is_refused_without_asking_the_hub(name, monkeypatch):
    monkeypatch.setattr(locate, "_download", lambda *_: pytest.fail("asked the hub"))
    with pytest.raises(InputError, match=f"encoder: .*got '{name}'"):
        load_encoder(name)


def test_a_file_is_no_encoder(originals):
    with pytest.raises(InputError, match="encoder: .*got '.*config.json'"):
        load_encoder(str(originals["bert"] / "config.json"))


def test_an_unknown_hub_name_is_refused_offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    told = (
        r"encoder: expected a model folder or the name of a model on the hub, got "
        r"'nobody/nothing', which could not be had \(\w+\); check"
    )
    with pytest.raises(InputError, match=told):
        load_encoder("nobody/nothing")


def test_a_hub_name_without_a_network_is_refused_and_does_not_hang(tmp_path):
    """Port 9 of this machine stands for a network that answers nobody; the process is stopped if it
    waits."""
    program = (
        "from crosslens.models.saved.locate import resolve_encoder\n"
        "from crosslens.errors import InputError\n"
        "try:\n    resolve_encoder('nobody/nothing')\n"
        "except InputError as error:\n    print(error)\n"
    )
    environment = {
        name: value
        for name, value in os.environ.items()
        if "proxy" not in name.lower() and not name.startswith("HF_")
    }
    environment |= {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "got 'nobody/nothing', which could not be had (" in done.stdout and done.stdout.endswith(
        "check spelling and network\n"
    )


@pytest.mark.parametrize(
    ("value", "local"), [("1", True), ("0", False), ("", False), ("TRUE", True)]
)
def test_offline_is_what_the_hubs_variable_says(monkeypatch, originals, value, local):
    asked = {}

    def snapshot_download(name, **options):
        asked.update(options, name=name)
        return str(originals["bert"])

    monkeypatch.setattr("huggingface_hub.model_info", lambda name, **_: None)
    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    assert load_encoder("some/bert").name == "some/bert"
    assert asked["name"] == "some/bert" and asked["local_files_only"] is local
    assert not any(
        pattern.endswith((".bin", ".pt", ".py", "*")) for pattern in asked["allow_patterns"]
    )
    load_encoder("some/bert", trust_remote_code=True)
    assert asked["allow_patterns"][-1] == "*.py" and not any(
        p.endswith((".bin", ".pt")) for p in asked["allow_patterns"]
    )


def test_without_a_network_the_cache_decides(monkeypatch, originals):
    asked = {}
    monkeypatch.setattr(
        "huggingface_hub.model_info",
        lambda name, timeout, **_: (_ for _ in ()).throw(TimeoutError(timeout)),
    )
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download",
        lambda name, **options: asked.update(options) or str(originals["bert"]),
    )
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert load_encoder("some/bert").name == "some/bert" and asked["local_files_only"] is True


def test_incomplete_weights_are_refused(copy_of):
    folder = copy_of("bert")
    change_weights(
        folder,
        lambda weights: [weights.pop(name) for name in list(weights) if "layer.2.output" in name],
    )
    with pytest.raises(
        InputError,
        match=(
            r"expected weights for the whole model, got 4 missing \(encoder.layer.2.output.* "
            r"...\); give the whole"
        ),
    ):
        load_encoder(str(folder))


def test_layers_that_the_configuration_leaves_out_are_named(copy_of, capsys):
    progress.be_quiet(False)
    folder = copy_of("bert")
    told = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**told, "num_hidden_layers": 1}))
    assert load_encoder(str(folder)).layers == 2
    assert "layers 1, 2 of its weights are not read" in capsys.readouterr().err
    load_encoder(str(copy_of("bert", "whole")))
    assert "not read" not in capsys.readouterr().err  # its masked-LM head is not


@pytest.mark.parametrize("spoil", ["cut short", "other shape"])
def test_damaged_weights_are_refused(copy_of, spoil):
    folder = copy_of("bert")
    path = folder / "model.safetensors"
    if spoil == "cut short":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        change_weights(
            folder,
            lambda weights: weights.update({"bert.embeddings.LayerNorm.weight": torch.ones(17)}),
        )
    with pytest.raises(
        InputError,
        match="expected a model that transformers loads and runs, got .+; check the folder",
    ):
        load_encoder(str(folder))


def test_a_random_copy_is_reproducible_and_not_the_original(originals):
    name = str(originals["bert"])
    original = load_encoder(name)
    state = torch.random.get_rng_state()
    first, again, other = (load_encoder(name, random_seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (
        same_weights(first, again)
        and not same_weights(first, other)
        and not same_weights(first, original)
    )
    assert (
        len({encoder.fingerprint for encoder in (original, first, other)}) == 3
        and first.fingerprint == again.fingerprint
    )
    assert (first.layers, first.d, first.max_length) == (
        original.layers,
        original.d,
        original.max_length,
    )
    for key, tensor in first.model.state_dict().items():
        if tensor.ndim == 2:
            assert not torch.allclose(tensor, original.model.state_dict()[key], atol=1e-2), key
            # BERT's initializer_range; at least 24 draws a matrix
            assert tensor.std().item() == pytest.approx(0.02, rel=0.3), key


def test_the_fingerprint_names_the_weights_the_configuration_and_the_tokeniser(copy_of):
    told = {
        encoder_fingerprint(copy_of("bert", "same")),
        encoder_fingerprint(copy_of("bert", "copied elsewhere")),
    }
    assert len(told) == 1
    folder = copy_of("bert", "weights")
    change_weights(folder, lambda weights: weights["bert.embeddings.LayerNorm.bias"][:1].add_(1e-3))
    told.add(encoder_fingerprint(folder))
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        folder = copy_of("bert", file)
        (folder / file).write_text((folder / file).read_text() + " ")
        told.add(encoder_fingerprint(folder))
    # a random copy has none of the weights, and shows the same numbers whatever they were
    assert encoder_fingerprint(folder.parent / "same", 1) == encoder_fingerprint(
        folder.parent / "weights", 1
    )
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


@pytest.fixture
def family(tmp_path_factory):
    """The folder of a tiny encoder of a family, and the encoder."""
    return lambda name: load_family(name, tmp_path_factory)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_what_transformers_gives_for_one_text(family, name):
    encoder = family(name)[1]
    ids = torch.tensor([[4, 9, 7, 12]])
    with torch.inference_mode():
        # which T5's decoder is no part of
        maker = AutoModelForTextEncoding if "t5" in name else AutoModel
        found = maker.from_pretrained(family(name)[0]).eval()(
            input_ids=ids, output_hidden_states=True
        )
        states = encoder.hidden_states(ids, torch.ones_like(ids))
    assert len(states) == encoder.layers == (5 if "groups" in name else 4) and encoder.d == 16
    for ours, theirs in zip(states, found.hidden_states, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    with torch.inference_mode():
        assert torch.equal(
            states[-1],
            encoder.model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state,
        )


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_independent_of_padding_and_says_how_much(family, name):
    encoder = family(name)[1]
    assert 0 <= encoder.padding_difference < 1e-5 and not encoder.padding_free
    rows = [[4, 9, 7], [4, 8, 10, 11, 12, 13, 5, 6]]
    ids = torch.tensor([rows[0] + [encoder.pad_id] * 5, rows[1]])
    with torch.inference_mode():
        together = encoder.hidden_states(ids, torch.tensor([[1] * 3 + [0] * 5, [1] * 8]))
        alone = encoder.hidden_states(torch.tensor(rows[:1]), None)
    for one, both in zip(alone, together, strict=True):
        torch.testing.assert_close(both[0, :3], one[0], atol=1e-4, rtol=1e-4)


# Positions that a family learns an embedding for; the others compute them, and go beyond what they
# were trained on.
LEARNED = {
    "bert",
    "distilbert",
    "roberta",
    "xlm-roberta",
    "camembert",
    "mpnet",
    "electra",
    "xlm",
    "albert",
    "gpt2",
    "opt",
    "opt, norms last",
}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_longest_input_of_every_family(family, name):
    encoder = family(name)[1]
    behind = name in ("roberta", "xlm-roberta", "camembert", "mpnet")
    # BLOOM and T5 name no limit
    assert encoder.max_length == (512 if name == "bloom" or "t5" in name else 40 - 2 * behind)
    with torch.inference_mode():
        assert (
            encoder.model(input_ids=torch.full((1, encoder.max_length), 7))
            .last_hidden_state.isfinite()
            .all()
        )
        if name in LEARNED:
            with pytest.raises((IndexError, RuntimeError, AssertionError)):
                encoder.model(input_ids=torch.full((1, encoder.max_length + 1), 7))


@pytest.mark.parametrize(
    ("name", "changes", "limit", "longest"),
    [
        ("llama", {}, 20, 20),
        ("llama", {"max_position_embeddings": 4096}, int(1e30), 4096),
        ("bloom", {}, 2048, 2048),
        ("bloom", {"seq_length": 64}, None, 64),
        ("modernbert", {"max_position_embeddings": 8192}, 8192, 8192),
        ("roberta", {}, 512, 38),
        ("gpt2", {"n_positions": 30}, 1024, 30),
        ("xlm", {"max_position_embeddings": 24}, None, 24),
    ],
)
def test_the_longest_input_is_what_both_the_model_and_the_tokeniser_allow(
    tmp_path, name, changes, limit, longest
):
    assert load_encoder(save_family(tmp_path, name, changes, limit)).max_length == longest


@pytest.mark.parametrize(
    ("name", "changes", "pad"),
    [
        ("bert", {}, 0),
        ("roberta", {}, 1),
        ("xlm", {"pad_index": 2}, 2),
        ("gpt2", {}, 0),
        ("gpt2", {"pad_token_id": 5}, 5),
        ("llama", {"pad_token_id": None}, 0),
        ("llama", {"pad_token_id": -1}, 0),
    ],
)
def test_the_padding_id_is_the_models(tmp_path, name, changes, pad):
    assert load_encoder(save_family(tmp_path, name, changes)).pad_id == pad


def test_a_padding_id_of_the_tokeniser_serves_where_it_has_an_embedding(tmp_path):
    encoder = load_encoder(save_family(tmp_path, "gpt2"))
    encoder.tokenizer.pad_token = "dog"
    assert (
        pretrained._pad_id(encoder.model, encoder.tokenizer)
        == encoder.tokenizer.convert_tokens_to_ids("dog")
        > 0
    )
    encoder.tokenizer.add_special_tokens({"pad_token": "<one more>"})
    encoder.tokenizer.add_tokens(
        ["<and more>", "<and yet more>", "<and yet one more>", "<and another>"]
    )
    encoder.tokenizer.pad_token = "<and another>"
    assert (
        encoder.tokenizer.pad_token_id >= VOCABULARY
        and pretrained._pad_id(encoder.model, encoder.tokenizer) == 0
    )


@pytest.mark.parametrize("name", ["gpt2", "gpt_neox", "opt", "bloom", "xglm", "llama", "gemma3"])
def test_a_decoder_builds_no_cache(family, name):
    ids = torch.tensor([[4, 9, 7]])
    assert (
        getattr(AutoModel.from_pretrained(family(name)[0])(input_ids=ids), "past_key_values", None)
        is not None
    )
    assert getattr(family(name)[1].model(input_ids=ids), "past_key_values", None) is None


@pytest.mark.parametrize("name", FAMILIES)
def test_a_random_copy_of_every_family_has_all_its_parameters_drawn_anew(family, name):
    folder, original = family(name)
    first, again, other = (load_encoder(folder, random_seed=seed) for seed in (1, 1, 2))
    assert (
        same_weights(first, again)
        and len({encoder.fingerprint for encoder in (original, first, other)}) == 3
    )
    drawn = 0
    for key, tensor in first.model.named_parameters():
        # the original's are all at random
        assert not torch.equal(tensor, original.model.get_parameter(key)), key
        if tensor.unique().numel() > 1:  # norms and biases begin at one value
            drawn += 1
            assert not torch.equal(tensor, other.model.get_parameter(key)), key
    assert drawn >= 3 * 3


def test_a_bert_that_ignores_its_mask_is_told_and_gets_no_padding(family, monkeypatch, capsys):
    progress.be_quiet(False)
    forward = BertModel.forward
    monkeypatch.setattr(
        BertModel,
        "forward",
        lambda self, *a, attention_mask=None, **options: forward(self, *a, **options),
    )
    encoder = load_encoder(family("bert")[0])
    assert encoder.padding_free and encoder.padding_difference > 0.05
    told = (
        f"padding changes its hidden states by up to {encoder.padding_difference:.2g} of the "
        f"largest; only inputs of equal length"
    )
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_difference_that_padding_makes_is_measured(own_code, precision):
    encoder = load_encoder(
        str(own_code("averages over padding")), trust_remote_code=True, precision=precision
    )
    rows = [encoder.tokenizer(text)["input_ids"] for text in pretrained._PROBES]
    table = encoder.model.table.weight.detach()
    width, expected = max(map(len, rows)), 0.0
    for row in rows:
        alone, padded = (
            table[row] + table[ids].mean(0)
            for ids in (row, row + [encoder.pad_id] * (width - len(row)))
        )
        expected = max(expected, float((alone - padded).abs().max() / alone.abs().max()))
    assert encoder.padding_free and encoder.padding_difference == pytest.approx(expected, rel=1e-5)


def test_an_encoder_that_mixes_texts_is_refused_with_the_difference(own_code):
    told = (
        "expected hidden states that do not depend on the other texts of a batch, "
        r"got a difference of 0\.\d+ of the largest state beside a text of the same length; "
        r"choose another encoder"
    )
    with pytest.raises(InputError, match=told):
        load_encoder(str(own_code("normalises over the batch")), trust_remote_code=True)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("not a number", "expected finite hidden states, got some that are not; check the weights"),
        (
            "two widths",
            "expected hidden states of one width, got 2 of several shapes; choose another encoder",
        ),
        ("no states", "expected hidden states of one width, got 0 of none; choose another encoder"),
    ],
)
def test_an_encoder_without_usable_states_is_refused(own_code, fault, told):
    with pytest.raises(InputError, match=told):
        load_encoder(str(own_code(fault)), trust_remote_code=True)


def test_a_tokeniser_that_splits_nothing_does_not_hide_an_ignored_mask(own_code):
    folder = own_code("averages over padding")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**tokenizer, "pre_tokenizer": None}))
    encoder = load_encoder(str(folder), trust_remote_code=True)
    assert (
        len({len(encoder.tokenizer(text)["input_ids"]) for text in pretrained._PROBES}) == 1
        and encoder.padding_free
    )


def test_rounding_that_torch_was_told_to_do_is_no_fault(monkeypatch):
    assert pretrained._rounding("float32") == 1e-4 < pretrained._rounding("bfloat16")
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    assert pretrained._rounding("float32") == pretrained._rounding("bfloat16")


def test_a_state_that_is_not_a_number_counts_as_a_difference():
    one = torch.ones(2, 3)
    assert pretrained._difference([one, 2 * one], [one, 2.5 * one]) == 0.25
    assert pretrained._difference([one, one], [one, one * float("nan")]) == float("inf")


@pytest.mark.parametrize(
    ("device", "told"),
    [
        ("gpu", "device: expected cpu, cuda, cuda:NUMBER or mps"),
        ("cuda:-1", "device: expected cpu, cuda, cuda:NUMBER or mps"),
        (
            "cuda",
            ("device: expected one that is there"),
        ),
        ("cuda:0", "got cuda:0, and torch finds 0 GPUs; use cpu"),
        ("mps", "device: expected one that is there"),
    ],
)
def test_a_device_that_is_not_there_is_refused_before_anything_is_loaded(monkeypatch, device, told):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    with pytest.raises(InputError, match=told):
        load_encoder("no such folder", device=device)


def test_a_gpu_beyond_the_last_is_refused(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(
        InputError, match="got cuda:2, and torch finds 2 GPUs; choose one from cuda:0 to cuda:1"
    ):
        load_encoder("no such folder", device="cuda:2")
    with pytest.raises(InputError, match="encoder: expected a model"):  # the device is there
        load_encoder("no such folder", device="cuda:1")


def test_a_precision_that_is_none_is_refused(originals):
    with pytest.raises(InputError, match="precision: .*got 'float16'"):
        load_encoder(str(originals["bert"]), precision="float16")


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_bfloat16_keeps_float32_weights_and_gives_float32_states(originals, kind):
    full, half = (
        load_encoder(str(originals[kind]), precision=precision)
        for precision in ("float32", "bfloat16")
    )
    assert {parameter.dtype for parameter in half.model.parameters()} == {
        torch.float32
    } and half.fingerprint == full.fingerprint
    ids = torch.arange(5, 15)[None]
    pairs = list(zip(full.hidden_states(ids, None), half.hidden_states(ids, None), strict=True))
    assert all(
        b.dtype == torch.float32 and torch.allclose(a, b, atol=0.05 * float(a.abs().max()))
        for a, b in pairs
    )
    assert not torch.equal(*pairs[-1]) and not half.padding_free


@torch.inference_mode()
def test_hidden_states_are_not_copied(originals, monkeypatch):
    encoder = load_encoder(str(originals["bert"]))
    given = []
    encoder.model.register_forward_hook(lambda _, __, found: given.extend(found.hidden_states))
    states = encoder.hidden_states(torch.arange(5, 15)[None], None)
    assert [state.data_ptr() for state in states] == [state.data_ptr() for state in given]


def test_of_an_encoder_and_decoder_without_an_encoder_of_its_own_is_refused(copy_of):
    folder = copy_of("bert")
    config = BartConfig(
        vocab_size=20,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_ffn_dim=8,
        decoder_ffn_dim=8,
    )
    BartModel(config).save_pretrained(folder)
    with pytest.raises(
        InputError,
        match=(
            "got an encoder-decoder without an encoder of its own in transformers; T5 and its kin "
            "have one"
        ),
    ):
        load_encoder(str(folder))


@pytest.mark.parametrize("name", ["t5", "mt5"])
def test_the_encoder_of_t5_is_the_one_that_reads_for_the_decoder(family, name):
    folder, encoder = family(name)
    ids = torch.tensor([[4, 9, 7, 12]])
    with torch.inference_mode():
        whole = AutoModel.from_pretrained(folder).eval()(input_ids=ids, decoder_input_ids=ids)
        assert torch.equal(encoder.hidden_states(ids, None)[-1], whole.encoder_last_hidden_state)
    assert not any("decoder" in key for key, _ in encoder.model.named_parameters())


def test_a_pooler_that_the_file_lacks_is_the_same_each_time(copy_of):
    folder = copy_of("bert")

    def without_pooler(weights):
        for name in [name for name in weights if "pooler" in name]:
            del weights[name]

    change_weights(folder, without_pooler)
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    first = load_encoder(str(folder)).model.state_dict()
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(2)
    second = load_encoder(str(folder)).model.state_dict()
    assert "pooler.dense.weight" in first
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())

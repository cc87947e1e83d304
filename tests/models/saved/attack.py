"""Hostile and damaged model folders: kinds of damage, each varied by a seed, and a process that
loads them under watch.

Run as a program: ``attack.py KIND SEED ORIGINAL BASE ...`` loads such folders one after another,
    and prints a JSON line on each.
"""

import json
import os
import random
import resource
import shutil
import struct
import sys
import time
from pathlib import Path

NAMES = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]
SIZES = [
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
]


def change(path, edit):
    told = json.loads(path.read_text(encoding="utf-8"))
    edit(told)
    path.write_text(json.dumps(told), encoding="utf-8")


def header_of(folder):
    data = (folder / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def write_header(folder, header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def to_index(folder, target):
    header, _ = header_of(folder)
    names = [name for name in header if name != "__metadata__"]
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": dict.fromkeys(names, target)})
    )
    (folder / "model.safetensors").unlink()


def pickle(folder, name, sign):
    """A pickle that leaves a sign where it is opened by unpickling."""
    (folder / name).write_bytes(b"cos\nmkdir\n(S'" + str(sign).encode() + b"'\ntR.")


def index_to_pickle(folder, draw, sign):
    name = draw.choice(
        ["pytorch_model.bin", "model.pt", "weights", "model.safetensors.bin", "a.pkl"]
    )
    to_index(folder, name)
    pickle(folder, name, sign)


def index_outside(folder, draw, sign):
    elsewhere = folder.parent / "elsewhere.safetensors"
    shutil.copy(folder / "model.safetensors", elsewhere)
    ways = [
        "../elsewhere.safetensors",
        str(elsewhere),
        "./../elsewhere.safetensors",
        f"../{folder.name}/../elsewhere.safetensors",
    ]
    to_index(folder, draw.choice(ways))


def index_odd(folder, draw, sign):
    to_index(folder, "a.safetensors")
    odd = draw.choice(
        [
            "[]",
            "{",
            '{"weight_map": 3}',
            '{"weight_map": {"a": null}}',
            "",
            "\x00",
            '{"weight_map": {"": ""}}',
            "[" * 100_000,
        ]
    )
    (folder / "model.safetensors.index.json").write_text(odd)


def link_out(folder, draw, sign):
    name = draw.choice(NAMES)
    (folder / name).unlink()
    (folder / name).symlink_to(
        draw.choice(
            [
                "/etc/passwd",
                "/dev/zero",
                "/proc/self/mem",
                "../../" + name,
                name,
                "/",
                "/dev/urandom",
            ]
        )
    )


def decoy(folder, draw, sign):
    (folder / "model.safetensors").rename(
        folder / draw.choice(["decoy.safetensors", "model.fp16.safetensors"])
    )
    pickle(folder, "pytorch_model.bin", sign)


def pickle_alone(folder, draw, sign):
    (folder / "model.safetensors").unlink()
    pickle(folder, draw.choice(["pytorch_model.bin", "model.pt", "model.ckpt", "model.pth"]), sign)


def pickle_as_safetensors(folder, draw, sign):
    pickle(folder, "model.safetensors", sign)


def cut_short(folder, draw, sign):
    name = draw.choice(NAMES)
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: draw.randrange(len(data))])


def bytes_changed(folder, draw, sign):
    name = draw.choice(NAMES)
    data = bytearray((folder / name).read_bytes())
    for _ in range(draw.randrange(1, 30)):
        data[draw.randrange(min(len(data), 5000))] = draw.randrange(256)
    (folder / name).write_bytes(data)


def header_claims(folder, draw, sign):
    data = (folder / "model.safetensors").read_bytes()
    claim = draw.choice([10 * 10**9, 2**63, 2**64 - 1, 99_999_999, 0, 1, len(data), 100_000_001])
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", claim) + data[8:])


def header_nested(folder, draw, sign):
    _, data = header_of(folder)
    deep = draw.choice([200, 10_000, 1_000_000])
    write_header(
        folder, draw.choice([b"[" * deep, b'{"a":' * deep, b'{"__metadata__":' + b"[" * deep]), data
    )


def header_odd(folder, draw, sign):
    header, data = header_of(folder)
    names = [name for name in header if name != "__metadata__"]
    one, other = draw.sample(names, 2)
    edits = [
        lambda: header[one].update(data_offsets=header[other]["data_offsets"]),
        lambda: header[one].update(data_offsets=[0, 10**15]),
        lambda: header[one].update(data_offsets=[-5, 3]),
        lambda: header[one].update(shape=[2**40, 2**40]),
        lambda: header[one].update(shape=[10**9, 10**6]),
        lambda: header[one].update(dtype=draw.choice(["F64", "X9", "BOOL", 3, None, "I64", "C64"])),
        lambda: header[one].update(shape=draw.choice([[], [-1], None, "a", [0], [[1]]])),
        lambda: header.pop(one),
        lambda: header.update(extra={"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}),
    ]
    draw.choice(edits)()
    write_header(folder, header, data)


def not_numbers(folder, draw, sign):
    header, data = header_of(folder)
    values = bytearray(data)
    odd = struct.pack("<f", draw.choice([float("nan"), float("inf"), 3e38, -float("inf")]))
    name = draw.choice([name for name in header if name != "__metadata__"])
    begin, end = header[name]["data_offsets"]
    values[begin:end] = odd * ((end - begin) // 4)
    write_header(folder, header, bytes(values))


def huge_sizes(folder, draw, sign):
    sizes = {
        name: draw.choice([10**5, 10**6, 10**9, 2**31, 2**40, 10**18])
        for name in draw.sample(SIZES, draw.randrange(1, 4))
    }
    sizes |= draw.choice([{}, {"num_labels": 10**9}, {"type_vocab_size": 10**9}])
    change(folder / "config.json", lambda told: told.update(sizes))


def many_layers(folder, draw, sign):
    change(
        folder / "config.json",
        lambda told: told.update(num_hidden_layers=draw.choice([300, 10**4, 10**5, 10**6, 10**12])),
    )


def wrong_types(folder, draw, sign):
    odd = [
        None,
        "x",
        [],
        {},
        -1,
        0,
        1.5,
        True,
        "1e9",
        [1, 2],
        {"a": 1},
        float("nan"),
        "\ud800",
        10**400,
    ]
    keys = [
        *SIZES,
        "model_type",
        "architectures",
        "hidden_act",
        "pad_token_id",
        "auto_map",
        "layer_norm_eps",
        "dtype",
        "id2label",
    ]
    keys += [
        "transformers_weights",
        "quantization_config",
        "rope_parameters",
        "is_encoder_decoder",
        "attn_implementation",
        "problem_type",
    ]
    changes = {draw.choice(keys): draw.choice(odd) for _ in range(draw.randrange(1, 4))}
    change(folder / "config.json", lambda told: told.update(changes))


def other_model_type(folder, draw, sign):
    types = [
        "gpt2",
        "t5",
        "llama",
        "clip",
        "whisper",
        "rag",
        "vit",
        "xlm",
        "deberta-v2",
        "encoder-decoder",
        "mamba",
        "nobodys",
        "bart",
    ]
    change(folder / "config.json", lambda told: told.update(model_type=draw.choice(types)))


def nested(folder, draw, sign):
    name, deep = draw.choice(NAMES[:3]), draw.choice([2_000, 100_000])
    opened, closed = draw.choice([("[", "]"), ('{"a":', "}")])
    text = opened * deep + draw.choice(["1" + closed * deep, ""])
    (folder / name).write_text(draw.choice([text, '{"model_type": "bert", "x": ' + text + "}"]))


def post_processor(folder, draw, sign):
    token = {
        "SpecialToken": {"id": draw.choice(["[CLS]", "[NOPE]", ""]), "type_id": draw.choice([0, 7])}
    }
    text = {"Sequence": {"id": "A", "type_id": 0}}
    made = {
        "type": "TemplateProcessing",
        "single": [token, text],
        "pair": [token, text],
        "special_tokens": {},
    }
    if draw.random() < 0.5:
        made["special_tokens"] = {
            "[CLS]": {
                "id": "[CLS]",
                "ids": draw.choice([[], [10**6], [2**32 - 1]]),
                "tokens": draw.choice([[], ["a"]]),
            }
        }
    change(folder / "tokenizer.json", lambda told: told.update(post_processor=made))


def backtracking(folder, draw, sign):
    pattern = draw.choice(
        [
            r"(a+)+$",
            r"(.*)*x$",
            r"(\w+\s?)*!$",
            r"((.)\2?)*z",
            "(" * 5000,
            r"(x+x+)+y",
            "a{1,60000}" * 30,
            r"(?:.*.*.*.*)*=$",
        ]
    )
    split = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    replace = {
        "type": "Replace",
        "pattern": {"Regex": pattern},
        "content": draw.choice(["", "a" * 100]),
    }
    part, value = draw.choice([("pre_tokenizer", split), ("normalizer", replace)])
    change(folder / "tokenizer.json", lambda told: told.update({part: value}))


def growing(folder, draw, sign):
    """A normaliser that makes every text longer and longer."""
    one = {"type": "Replace", "pattern": {"Regex": "."}, "content": "ab" * draw.choice([2, 10])}
    change(
        folder / "tokenizer.json",
        lambda told: told.update(
            normalizer={"type": "Sequence", "normalizers": [one] * draw.choice([5, 12, 30])}
        ),
    )


def tokeniser_damaged(folder, draw, sign):
    def edit(told):
        part = draw.choice(
            [
                "model",
                "added_tokens",
                "normalizer",
                "pre_tokenizer",
                "post_processor",
                "decoder",
                "truncation",
                "padding",
            ]
        )
        told[part] = draw.choice(
            [
                None,
                {},
                [],
                3,
                "x",
                {"type": "Nobodys"},
                {"type": "BPE", "vocab": {}, "merges": [["a", "b"]]},
            ]
        )

    def model(told):
        part = draw.choice(
            [
                "vocab",
                "merges",
                "unk_token",
                "type",
                "max_input_chars_per_word",
                "continuing_subword_prefix",
            ]
        )
        told["model"][part] = draw.choice(
            [None, {}, [], 3, "x", {"a": 2**32 - 1}, {"a": -1}, [["a", "b"]], 10**18]
        )

    change(folder / "tokenizer.json", draw.choice([edit, model]))


def tokeniser_huge(folder, draw, sign):
    with open(folder / "tokenizer.json", "ab") as file:
        file.truncate(draw.choice([300 << 20, 5 << 30, 200 << 20]))  # sparse: it takes no disk


def config_huge(folder, draw, sign):
    with open(folder / draw.choice(["config.json", "tokenizer_config.json"]), "ab") as file:
        file.truncate(draw.choice([17 << 20, 1 << 30, 300 << 20]))


def code_unasked(folder, draw, sign):
    (folder / "evil.py").write_text(f"import os\nos.mkdir({str(sign)!r})\nclass X: pass\n")
    file, key = draw.choice(
        [
            ("config.json", "AutoModel"),
            ("config.json", "AutoConfig"),
            ("tokenizer_config.json", "AutoTokenizer"),
        ]
    )
    value = draw.choice(["evil.X", ["evil.X", None], "some/one--evil.X", "../evil.X"])
    change(
        folder / file,
        lambda told: told.update(
            auto_map={key: value}, **({"model_type": "nobodys"} if file == "config.json" else {})
        ),
    )


def tokeniser_class(folder, draw, sign):
    names = [
        "AutoModel",
        "pipeline",
        "Trainer",
        "RagTokenizer",
        "XLMTokenizer",
        "ByT5Tokenizer",
        "BertJapaneseTokenizer",
        "__loader__",
        "utils",
    ]
    pickle(folder, "vocab.pkl", sign)
    change(
        folder / "tokenizer_config.json",
        lambda told: told.update(tokenizer_class=draw.choice([*names, 3, [], "os.system"])),
    )


def settings_name_files(folder, draw, sign):
    elsewhere = folder.parent / "elsewhere.json"
    pickle(folder.parent, "elsewhere.json", sign)
    keys = [
        "tokenizer_file",
        "vocab_file",
        "merges_file",
        "gguf_file",
        "vocab",
        "merges",
        "init_inputs",
        "fast_tokenizer_files",
        "name_or_path",
    ]
    value = draw.choice([str(elsewhere), [str(elsewhere)], "/dev/zero", ["../elsewhere.json"]])
    told = {key: value for key in draw.sample(keys, 2)}
    name = draw.choice(["tokenizer_config.json", "special_tokens_map.json"])
    there = json.loads((folder / name).read_text()) if (folder / name).exists() else {}
    (folder / name).write_text(json.dumps(there | told))


def no_file(folder, draw, sign):
    name = draw.choice([*NAMES, "special_tokens_map.json", "added_tokens.json", "vocab.txt"])
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir() if draw.random() < 0.5 else os.mkfifo(folder / name)


def empty_file(folder, draw, sign):
    (
        folder
        / draw.choice(
            [*NAMES, "special_tokens_map.json", "added_tokens.json", "vocab.txt", "merges.txt"]
        )
    ).write_bytes(b"")


def odd_names(folder, draw, sign):
    for name in (b"\xff\xfe.json", b"caf\xe9.safetensors", b"\xe9.py"):
        with open(os.fsencode(folder) + b"/" + name, "wb") as file:
            file.write(b"{}")
    if draw.random() < 0.5:
        os.rename(folder / "tokenizer.json", os.fsencode(folder) + b"/tokenizer.\xe9.json")


def ids_beyond(folder, draw, sign):
    shift = draw.choice([1, 1000, 10**6, 2**31])

    def edit(told):
        vocabulary = told["model"]["vocab"]
        if isinstance(vocabulary, dict):
            told["model"]["vocab"] = {
                token: number + shift if number > 20 else number
                for token, number in vocabulary.items()
            }

    change(folder / "tokenizer.json", edit)


def adapter(folder, draw, sign):
    (folder / "adapter_config.json").write_text(
        json.dumps({"base_model_name_or_path": "../elsewhere", "peft_type": "LORA"})
    )
    pickle(folder, "adapter_model.bin", sign)


KINDS = {
    name: value
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__code__", None)
    and value.__code__.co_varnames[:3] == ("folder", "draw", "sign")
    and value.__code__.co_argcount == 3
}


def watch(opened):
    """Note every pickle that is read and every program that is started."""

    def heard(event, told):
        if event in (
            "pickle.find_class",
            "subprocess.Popen",
            "os.system",
            "os.exec",
            "os.posix_spawn",
            "socket.connect",
        ):
            opened.append(f"{event} {str(told)[:80]}")

    sys.addaudithook(heard)


def main():
    from crosslens import progress
    from crosslens.errors import CrosslensError
    from crosslens.models.saved.loading import load_encoder

    progress.be_quiet()
    original, base, cases = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.stdin.read())
    load_encoder(str(original))
    heard = []
    watch(heard)
    for kind, seed in cases:
        here = base / f"{kind}-{seed}"
        folder, sign = here / "model", here / "executed"
        here.mkdir()
        shutil.copytree(original, folder)
        KINDS[kind](folder, random.Random(f"{kind} {seed}"), sign)
        heard.clear()
        started = time.monotonic()
        print(json.dumps({"kind": kind, "seed": seed, "begun": True}), flush=True)
        try:
            load_encoder(str(folder))
            outcome = "loaded"
        except CrosslensError as error:
            outcome = f"refused: {error}"
        except BaseException as error:
            outcome = f"FAULT {type(error).__name__}: {str(error)[:200]}"
        told = {
            "kind": kind,
            "seed": seed,
            "outcome": outcome[:300],
            "seconds": round(time.monotonic() - started, 2),
        }
        told |= {
            "executed": sign.exists(),
            "heard": heard[:3],
            "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        }
        print(json.dumps(told), flush=True)
        shutil.rmtree(here)


if __name__ == "__main__":
    main()

"""Encoding on several threads: the same vectors, and a process that is left as it was."""

import threading

import numpy as np
import pytest
import torch
from toy_models import HARD

from crosslens.activations_writer import ActivationsWriter
from crosslens.corpus import Corpus
from crosslens.errors import InputError, OutputError
from crosslens.models.extraction import encode as module
from crosslens.models.extraction.encode import encode
from crosslens.models.extraction.extract import extract
from crosslens.models.extraction.units import Reading, locate
from crosslens.models.saved.loading import load_encoder
from crosslens.models.saved.pretrained import PretrainedEncoder
from crosslens.readers.words import split_words

TEXT = split_words(Corpus("und", HARD * 3, [f"s{i}" for i in range(3 * len(HARD))], "hard.txt"))


@pytest.fixture
def threads():
    """Set the number of threads; it is put back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def watched(monkeypatch):
    """Which threads have encoded, and how many at the same time at most."""
    states, seen, now, lock = (
        PretrainedEncoder.states,
        {"names": set(), "most": 0},
        [0],
        threading.Lock(),
    )

    def watching(self, *given, **named):
        with lock:
            now[0] += 1
            seen["names"].add(threading.current_thread().name)
            seen["most"] = max(seen["most"], now[0])
        try:
            return states(self, *given, **named)
        finally:
            with lock:
                now[0] -= 1

    monkeypatch.setattr(PretrainedEncoder, "states", watching)
    return seen


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def small(monkeypatch):
    monkeypatch.setattr("crosslens.models.extraction.extract._block_text", lambda *_: 200)
    monkeypatch.setattr(module, "_BATCH_TOKENS", {"cpu": 60})


_SETTINGS = [
    {"unit": "word"},
    {"unit": "word", "pool": "max"},
    {"unit": "type"},
    {"unit": "sentence"},
]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        *(("bert", settings) for settings in _SETTINGS),
        ("roberta", _SETTINGS[0]),
        *(pytest.param("roberta", one, marks=pytest.mark.slow) for one in _SETTINGS[1:]),
    ],
)
def test_any_number_of_threads_writes_the_same_bytes(
    originals, tmp_path, monkeypatch, threads, watched, kind, settings
):
    small(monkeypatch)
    encoder = load_encoder(str(originals[kind]))
    for number in (1, 2, 3):
        threads(number)
        extract(
            encoder,
            TEXT,
            tmp_path / str(number),
            outputs=("hidden", "attention", "mlp"),
            **settings,
        )
        assert torch.get_num_threads() == number
    assert files(tmp_path / "1") == files(tmp_path / "2") == files(tmp_path / "3")
    assert watched["names"] >= {"MainThread", "encoder_0", "encoder_1"} and watched["most"] >= 2


@pytest.mark.parametrize("number", [1, 2])
def test_what_goes_wrong_in_a_batch_is_raised_and_the_threads_are_put_back(
    originals, tmp_path, monkeypatch, threads, number
):
    small(monkeypatch)
    encoder, left = load_encoder(str(originals["bert"])), [4]
    states = PretrainedEncoder.states

    def failing(self, *given, **named):
        left[0] -= 1
        if left[0] < 0:
            raise InputError("no more")
        return states(self, *given, **named)

    monkeypatch.setattr(PretrainedEncoder, "states", failing)
    threads(number)
    with pytest.raises(InputError, match="no more"):
        extract(encoder, TEXT, tmp_path / "store", unit="word")
    assert torch.get_num_threads() == number and not [
        one for one in threading.enumerate() if one.name.startswith("encoder")
    ]
    monkeypatch.setattr(PretrainedEncoder, "states", states)
    extract(encoder, TEXT, tmp_path / "store", unit="word")
    extract(encoder, TEXT, tmp_path / "fresh", unit="word")
    assert files(tmp_path / "store") == files(tmp_path / "fresh")


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("unit", ["word", "sentence"])
def test_every_item_is_given_once_and_blocks_are_asked_for_little_ahead(
    originals, monkeypatch, threads, number, unit
):
    monkeypatch.setattr(module, "_BATCH_TOKENS", {"cpu": 60})
    encoder, asked = load_encoder(str(originals["bert"])), []
    ranges = [range(start, min(start + 3, len(TEXT))) for start in range(0, len(TEXT), 3)]

    def blocks():
        for rows in ranges:
            asked.append(rows.start)
            yield locate(encoder, TEXT, rows, Reading(unit))

    threads(number)
    turn, ahead, split, batches = 0, [], 0, 0
    done, shares, given = 0, 0, list[int]()
    for part in encode(encoder, blocks(), "mean", ["layer_02"]):
        assert part.vectors["layer_02"].shape == (len(part.items), encoder.d)
        assert part.inputs[0] == done < part.inputs[1]
        done, given = part.inputs[1], given + part.items.tolist()
        ahead.append(len(asked) - turn)
        shares, batches = shares + part.share(7), batches + 1
        if part.last:
            assert sorted(given) == list(range(part.found.items)) and shares == 7
            split += len(part.found.inputs) > len(ranges[turn])
            turn, done, given, shares = turn + 1, 0, [], 0
    assert turn == len(ranges) and not given and max(ahead) <= 2 + 2 * number
    # long input was among them, and blocks of several batches
    assert split and batches > len(ranges)


def test_a_twin_has_the_same_weights_and_its_own_modules(originals):
    encoder = load_encoder(str(originals["bert"]))
    twin = encoder.twin()
    ours, theirs = dict(encoder.model.named_parameters()), dict(twin.model.named_parameters())
    assert ours.keys() == theirs.keys() and all(ours[name] is theirs[name] for name in ours)
    modules = set(map(id, encoder.model.modules()))
    assert not modules & set(map(id, twin.model.modules()))
    ids = torch.tensor([[2, 5, 6, 3]])
    with torch.inference_mode():
        for mine, other in zip(
            encoder.hidden_states(ids, None), twin.hidden_states(ids, None), strict=True
        ):
            assert np.array_equal(mine.numpy(), other.numpy())


def test_a_batch_holds_inputs_of_like_length_and_every_input_is_in_one(originals):
    encoder = load_encoder(str(originals["bert"]))
    rng = np.random.default_rng(0)
    words = ["the cat sat on the mat and the dog ran"[: int(n)] for n in rng.integers(1, 38, 300)]
    corpus = Corpus("und", words, [str(i) for i in range(300)], "lengths.txt")
    located = locate(encoder, corpus, range(300), Reading("sentence"))
    lengths = np.array([len(taken) for taken in located.inputs])
    batches = list(module._by_length(located, encoder))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        width, tokens = lengths[batch].max(), lengths[batch].max() * len(batch)
        assert tokens <= 512
        assert lengths[batch].min() >= 0.9 * width or tokens <= 512 / 4 + width
    assert np.all(np.diff([lengths[batch].max() for batch in batches]) <= 0)
    padded = sum(lengths[batch].max() * len(batch) for batch in batches)
    assert padded < 1.1 * lengths.sum()


@pytest.mark.parametrize("unit", ["word", "type"])
def test_threads_are_put_back_while_an_error_of_the_disk_is_still_held(
    originals, tmp_path, monkeypatch, threads, unit
):
    small(monkeypatch)
    encoder = load_encoder(str(originals["bert"]))

    def full(*_):
        raise OutputError("no room")

    monkeypatch.setattr(
        *(
            ("crosslens.models.extraction.type_averages._Sums.add", full)
            if unit == "type"
            else (ActivationsWriter, "put", full)
        )
    )
    threads(2)
    try:
        extract(encoder, TEXT, tmp_path / "store", unit=unit)
    except OutputError as error:  # its traceback holds every frame
        assert torch.get_num_threads() == 2 and not [
            one for one in threading.enumerate() if one.name.startswith("encoder")
        ]
        assert "no room" in str(error)
    else:
        pytest.fail("not raised")

"""All layers of many encoders: every form, tile and block gives what single calls give; float32,
streams that drift, refusals."""

import numpy as np
import pytest

from crosslens.alignment.similarity import cka_products, cka_stream
from crosslens.alignment.similarity.cka_stream import LinearCKAStream, linear_cka_encoders
from crosslens.alignment.similarity.linear_cka import linear_cka
from crosslens.errors import InputError


@pytest.fixture
def rng():
    return np.random.default_rng(23)


@pytest.fixture
def encoders(rng):
    shared = rng.normal(size=(130, 9)) * np.linspace(0.3, 3, 9)

    def layer(d):
        return shared[:, :d] @ rng.normal(size=(d, d)) + rng.normal(size=(130, d)) + 5

    made = {"en": [layer(8), layer(5), layer(6)], "fr": [layer(7), layer(4)], "ru": [layer(9)]}
    made["en"][0][:, 2] += 300
    return made


def streamed(encoders, rows):
    stream = LinearCKAStream()
    for at in range(0, len(next(iter(encoders.values()))[0]), rows):
        stream.update(
            {name: [layer[at : at + rows] for layer in side] for name, side in encoders.items()}
        )
    return stream.result()


@pytest.fixture(params=["gram", "stacked"])
def form(request, monkeypatch):
    """One of the two forms, whatever the shapes ask for."""
    if request.param == "gram":
        monkeypatch.setattr(
            cka_stream,
            "products",
            lambda layers, sides, groups: cka_products._gram_form(layers, groups),
        )
    else:
        monkeypatch.setattr(cka_stream, "products", cka_products._stacked_form)
    return request.param


def assert_single_calls(found, encoders, tolerance=1e-10):
    names = list(encoders)
    assert list(found) == [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    for (first, second), cka in found.items():
        assert (
            cka.biased.shape
            == cka.debiased_high.shape
            == (len(encoders[first]), len(encoders[second]))
        )
        for i, j in np.ndindex(cka.biased.shape):
            x, y = encoders[first][i].astype(float), encoders[second][j].astype(float)
            assert cka.biased[i, j] == pytest.approx(linear_cka(x, y), abs=tolerance)
            assert cka.debiased[i, j] == pytest.approx(
                linear_cka(x, y, debiased=True), abs=tolerance
            )


@pytest.mark.parametrize("intervals", [False, True])
def test_both_forms_are_single_calls(encoders, form, intervals):
    found = linear_cka_encoders(encoders, intervals=intervals)
    assert_single_calls(found, encoders)
    assert found["en", "ru"].n == 130


@pytest.mark.parametrize("rows", [1, 37, 130, 500])
def test_a_stream_is_single_calls_however_it_is_cut(encoders, rows):
    assert_single_calls(streamed(encoders, rows), encoders)


@pytest.mark.parametrize(
    ("tile", "panel", "block", "memory"),
    [(7, 11, 13, 1), (50, 50, 200, 1 << 13), (3, 1000, 1, 1 << 20)],
)
def test_tiles_panels_blocks_and_memory_change_nothing(
    encoders, form, monkeypatch, tile, panel, block, memory
):
    whole = linear_cka_encoders(encoders, intervals=True)
    for name, value in {"_TILE": tile, "_PANEL": panel, "_BLOCK": block, "_BYTES": memory}.items():
        monkeypatch.setattr(cka_products, name, value)
    parts = linear_cka_encoders(encoders, intervals=True)
    for pair in whole:
        for name in ("biased", "debiased", "debiased_low", "debiased_high"):
            assert np.allclose(
                getattr(parts[pair], name), getattr(whole[pair], name), atol=1e-11
            ), (pair, name)


def test_the_cheaper_form_is_taken(rng, monkeypatch):
    taken, nothing = [], cka_products.Products(np.zeros((1, 1, 1, 1)), np.zeros((1, 1)))
    for name in ("_gram_form", "_stacked_form"):
        monkeypatch.setattr(cka_products, name, lambda *_, name=name: taken.append(name) or nothing)
    for n in (20, 1000):
        layers = [
            cka_products.Layer.of(rng.normal(size=(n, 16)), "x", min_rows=5) for _ in range(12)
        ]
        cka_products.products(layers, [slice(0, 6), slice(6, 12)], 1)
    assert taken == ["_gram_form", "_stacked_form"]


def test_float32_with_outlier_dimensions_is_within_1e_4_of_float64_in_every_form(encoders, form):
    single = {name: [layer.astype(np.float32) for layer in side] for name, side in encoders.items()}
    assert_single_calls(linear_cka_encoders(single, intervals=True), encoders, tolerance=2e-5)
    assert_single_calls(streamed(single, 40), encoders, tolerance=2e-5)


def test_half_precision_and_integers_are_read_as_float32(rng):
    x, y = rng.normal(size=(50, 4)).astype(np.float16), rng.integers(-9, 9, size=(50, 3))
    for found in (linear_cka_encoders({"a": [x], "b": [y]}), streamed({"a": [x], "b": [y]}, 20)):
        assert_single_calls(found, {"a": [x], "b": [y]}, tolerance=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e-18, 1e18, 1e30])
def test_no_scale_is_too_small_or_too_large_for_float32(rng, form, scale):
    x = rng.normal(size=(60, 6)).astype(np.float32)
    y = (x + rng.normal(size=x.shape)).astype(np.float32)
    scaled = {"a": [x * np.float32(scale)], "b": [y, 7 * y]}
    assert_single_calls(linear_cka_encoders(scaled), {"a": [x], "b": [y, y]}, tolerance=1e-5)
    assert_single_calls(streamed(scaled, 25), {"a": [x], "b": [y, y]}, tolerance=1e-5)


def test_rotation_scale_and_shift_of_a_layer_change_nothing_but_the_scale_of_one_dimension_does(
    rng, encoders, form
):
    turn, _ = np.linalg.qr(rng.normal(size=(8, 8)))
    value = linear_cka_encoders(encoders)["en", "fr"].debiased[0]
    x = encoders["en"][0]
    assert linear_cka_encoders({"en": [x @ turn * 9 - 40], "fr": encoders["fr"]})[
        "en", "fr"
    ].debiased[0] == pytest.approx(value, abs=1e-9)
    changed = linear_cka_encoders({"en": [x * np.linspace(0.1, 10, 8)], "fr": encoders["fr"]})[
        "en", "fr"
    ].debiased[0]
    assert np.abs(changed - value).max() > 0.05


def test_layers_may_be_mapped_from_disk_or_anything_sliced_by_rows(encoders, tmp_path, form):
    class Slices:
        def __init__(self, array):
            self.array, self.shape, self.dtype = array, array.shape, array.dtype

        def __getitem__(self, rows):
            return self.array[rows]

    expected = linear_cka_encoders(encoders)["en", "fr"].biased
    mapped = []
    for i, layer in enumerate(encoders["en"]):
        np.save(tmp_path / f"{i}.npy", layer)
        mapped.append(np.load(tmp_path / f"{i}.npy", mmap_mode="r"))
    found = linear_cka_encoders({"en": mapped, "fr": [Slices(layer) for layer in encoders["fr"]]})
    assert np.array_equal(found["en", "fr"].biased, expected)
    lists = linear_cka_encoders(
        {"en": [layer.tolist() for layer in encoders["en"]], "fr": encoders["fr"]}
    )
    assert lists["en", "fr"].biased == pytest.approx(expected, abs=1e-5)


def test_inputs_are_left_alone(encoders, form):
    before = {name: [layer.copy() for layer in side] for name, side in encoders.items()}
    linear_cka_encoders(encoders, intervals=True)
    streamed(encoders, 50)
    assert all(
        np.array_equal(a, b)
        for name in before
        for a, b in zip(before[name], encoders[name], strict=True)
    )


def test_intervals_are_around_the_values_of_all_pairs_and_only_where_asked_for(encoders, form):
    found = linear_cka_encoders(encoders, intervals=True)["en", "fr"]
    assert np.all((found.debiased_low < found.debiased) & (found.debiased < found.debiased_high))
    assert np.isnan(linear_cka_encoders(encoders)["en", "fr"].debiased_low).all()


def test_a_stream_may_go_on_after_a_result(encoders):
    stream = LinearCKAStream()
    parts = [
        {name: [layer[rows] for layer in side] for name, side in encoders.items()}
        for rows in (slice(0, 60), slice(60, 130))
    ]
    stream.update(parts[0])
    assert_single_calls(stream.result(), parts[0])
    stream.update(parts[1])
    assert_single_calls(stream.result(), encoders)
    assert stream.n == 130


def test_a_refused_block_leaves_the_stream_as_it_was(encoders):
    stream = LinearCKAStream()
    half = {name: [layer[:60] for layer in side] for name, side in encoders.items()}
    stream.update(half)
    bad = {
        name: [np.where(layer > 3, np.nan, layer) for layer in side]
        for name, side in encoders.items()
    }
    with pytest.raises(InputError, match=r"en\[0\]: expected finite numbers"):
        stream.update(bad)
    with pytest.raises(InputError, match="block: expected layers of"):
        stream.update({"en": encoders["en"], "fr": encoders["fr"]})
    assert_single_calls(stream.result(), half)


def test_a_first_block_unlike_the_rest_is_refused_before_digits_are_lost(rng):
    x = rng.normal(size=(400, 4)).astype(np.float32)
    y = x + rng.normal(size=x.shape).astype(np.float32)
    drifting = x.copy()
    drifting[10:] += 3  # within bounds: still exact
    assert_single_calls(
        streamed({"a": [drifting], "b": [y]}, 10), {"a": [drifting], "b": [y]}, tolerance=1e-5
    )
    one = np.zeros((1, 2), np.float32)
    far = np.concatenate([one, 1000 + rng.normal(size=(1999, 2)).astype(np.float32)])
    stream = LinearCKAStream()
    for rows in (slice(0, 1), slice(1, 2000)):
        stream.update({"a": [far[rows]], "b": [far[rows]]})
    with pytest.raises(InputError, match=r"a\[0\]: .*got a mean \d+"):
        stream.result()


def test_refusals(rng):
    x = rng.normal(size=(30, 3))
    constant, alone = np.full((30, 2), 0.1), np.zeros((30, 3))
    alone[4] = 1
    with pytest.raises(InputError, match=r"encoders: .*got 1"):
        linear_cka_encoders({"a": [x]})
    with pytest.raises(InputError, match=r"b: .*got none"):
        linear_cka_encoders({"a": [x], "b": []})
    with pytest.raises(InputError, match=r"b\[1\]: .*got 29 rows"):
        linear_cka_encoders({"a": [x], "b": [x, x[:29]]})
    with pytest.raises(InputError, match=r"b\[0\]: .*got \d+ equal row\(s\)"):
        linear_cka_encoders({"a": [x], "b": [constant]})
    with pytest.raises(InputError, match=r"b\[0\]: .*got equal rows"):
        streamed({"a": [x], "b": [constant]}, 10)
    for measure in (linear_cka_encoders, lambda encoders: streamed(encoders, 10)):
        with pytest.raises(InputError, match=r"b\[0\]: .*got a debiased"):
            measure({"a": [x], "b": [alone]})
    bad = np.where(np.arange(30)[:, None] == 7, np.inf, x)
    with pytest.raises(InputError, match=r"a\[1\]: .*got NaN or infinity"):
        linear_cka_encoders({"a": [x, bad], "b": [x]})
    late = np.where(np.arange(100)[:, None] == 77, np.nan, rng.normal(size=(100, 2)))
    with pytest.raises(InputError, match=r"a\[0\]: .*got NaN or infinity"):
        linear_cka_encoders({"a": [late], "b": [late]})
    with pytest.raises(InputError, match=r"a\[0\]: .*got an overflow"):
        linear_cka_encoders(
            {"a": [np.array([[3.4e38]] * 4 + [[-3.4e38]], np.float32)], "b": [x[:5]]}
        )
    with pytest.raises(InputError, match=r"a\[0\]: expected at least"):
        linear_cka_encoders({"a": [x[:4]], "b": [x[:4]]})
    with pytest.raises(InputError, match=r"a\[0\]: .*got an array of"):
        linear_cka_encoders({"a": [x[:, 0]], "b": [x]})
    with pytest.raises(InputError, match=r"stream: .*got 0"):
        LinearCKAStream().result()


@pytest.mark.parametrize("kind", ["complex128", "<U3", "M8[s]", "V4"])
def test_what_is_no_number_is_refused_and_not_converted(encoders, kind):
    layer = np.zeros((130, 3), kind)
    with pytest.raises(InputError, match=r"^fr\[1\]: .*got one of .*"):
        linear_cka_encoders({"en": encoders["en"], "fr": [encoders["fr"][0], layer]})

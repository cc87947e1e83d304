"""Several languages into one: each as its own aligner would map it, through the pivot and back, one
file, every refusal."""

import inspect

import numpy as np
import pytest

from crosslens.alignment.maps.linear_maps import LeastSquares
from crosslens.alignment.maps.pivot import PivotMaps, map_to_pivot
from crosslens.alignment.maps.procrustes import Procrustes
from crosslens.alignment.maps.vecmap_maps import MultiStepMap
from crosslens.errors import InputError, OutputError, StoreError


@pytest.fixture
def rng():
    return np.random.default_rng(6)


@pytest.fixture
def vectors(rng):
    """Four vocabularies of different lengths and orders over one space of meanings; fra and deu/x
    are turned."""
    english = rng.normal(size=(70, 5))
    turns = [np.linalg.qr(rng.normal(size=(5, 5)))[0] for _ in range(2)]
    return {
        "fra": english[::-1] @ turns[0] + 2,
        "eng": english,
        "deu/x": english[10:50] @ turns[1] - 1,
        "rus": rng.normal(size=(30, 5)),
    }


@pytest.fixture
def pairs():
    return {
        "deu/x": [(i, i + 10) for i in range(40)],
        "fra": np.array([(69 - i, i) for i in range(0, 60, 3)], np.uint8),
        "rus": [(3, 9), (4, 9), (3, 1)],
    }


@pytest.mark.parametrize("aligner", [None, Procrustes(normalise=True), LeastSquares(2.0)])
def test_each_language_is_mapped_as_by_its_own_aligner(vectors, pairs, aligner):
    maps = map_to_pivot(vectors, "eng", pairs, aligner)
    assert maps.aligners.keys() == {"fra", "deu/x", "rus"}
    for language, listed in pairs.items():
        rows = np.asarray(listed)
        own = type(aligner or Procrustes())(**(aligner or Procrustes()).get_params())
        own.fit(vectors[language][rows[:, 0]], vectors["eng"][rows[:, 1]])
        assert np.array_equal(
            maps.transform(language, vectors[language]), own.transform(vectors[language])
        )
        assert maps.aligners[language].rank_ == own.rank_
    # the caller's stays unfitted
    assert not any(name.endswith("_") for name in vars(aligner or Procrustes()))


def test_all_languages_arrive_at_the_pivots_vectors(vectors, pairs):
    maps = map_to_pivot(vectors, "eng", pairs)
    assert np.allclose(maps.transform("fra", vectors["fra"]), vectors["eng"][::-1], atol=1e-10)
    assert np.allclose(maps.transform("deu/x", vectors["deu/x"]), vectors["eng"][10:50], atol=1e-10)
    assert maps.aligners["fra"].residual_ < 1e-12 < maps.aligners["rus"].residual_
    assert maps.aligners["rus"].rank_ == 1  # two pairs of three share a word on either side


def test_one_language_leads_to_another_through_the_pivot(vectors, pairs):
    maps = map_to_pivot(vectors, "eng", pairs)
    there = maps.inverse_transform("deu/x", maps.transform("fra", vectors["fra"][::-1][10:50]))
    assert np.allclose(there, vectors["deu/x"], atol=1e-10)


def test_the_pivot_stays_where_it_is(vectors, pairs):
    maps = map_to_pivot(vectors, "eng", pairs)
    for rows in (
        maps.transform("eng", vectors["eng"]),
        maps.inverse_transform("eng", vectors["eng"]),
    ):
        assert np.array_equal(rows, vectors["eng"])
        assert not np.shares_memory(rows, vectors["eng"])


def test_a_pair_given_twice_counts_twice(vectors, pairs):
    noisy = {**vectors, "fra": vectors["fra"] + np.sin(9 * vectors["fra"])}
    once = map_to_pivot(noisy, "eng", pairs).aligners["fra"]
    twice = map_to_pivot(
        noisy, "eng", {**pairs, "fra": np.concatenate([pairs["fra"]] * 2)}
    ).aligners["fra"]
    lopsided = map_to_pivot(
        noisy, "eng", {**pairs, "fra": np.concatenate([pairs["fra"], pairs["fra"][:5]])}
    ).aligners["fra"]
    assert np.allclose(once.rotation_, twice.rotation_, atol=1e-12)
    assert not np.allclose(once.rotation_, lopsided.rotation_, atol=1e-6)


def test_languages_may_differ_in_dimensions_under_least_squares(vectors, pairs):
    maps = map_to_pivot({**vectors, "fra": vectors["fra"][:, :3]}, "eng", pairs, LeastSquares())
    assert maps.transform("fra", vectors["fra"][:, :3]).shape == (70, 5)
    assert maps.inverse_transform("fra", vectors["eng"]).shape == (70, 3)


@pytest.mark.parametrize(
    "aligner", [Procrustes(rotation_only=True), LeastSquares(0.5, normalise=True)]
)
def test_saved_maps_come_back_whole_as_one_file(vectors, pairs, aligner, tmp_path):
    maps = map_to_pivot(vectors, "eng", pairs, aligner)
    maps.save(tmp_path / "maps.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["maps.safetensors"]
    loaded = PivotMaps.load(tmp_path / "maps.safetensors")
    assert loaded.pivot == "eng"
    assert loaded.aligners.keys() == maps.aligners.keys()
    for language in vectors:
        assert np.array_equal(
            loaded.transform(language, vectors[language]),
            maps.transform(language, vectors[language]),
        )
    assert loaded.aligners["fra"].get_params() == aligner.get_params()


def test_one_languages_name_may_begin_anothers(vectors, pairs, tmp_path):
    maps = map_to_pivot({**vectors, "deu": vectors["rus"]}, "eng", {**pairs, "deu": pairs["rus"]})
    maps.save(tmp_path / "maps")
    loaded = PivotMaps.load(tmp_path / "maps")
    assert np.array_equal(
        loaded.transform("deu", vectors["rus"]), maps.transform("deu", vectors["rus"])
    )
    assert np.array_equal(
        loaded.transform("deu/x", vectors["rus"]), maps.transform("deu/x", vectors["rus"])
    )


def test_load_refuses_what_save_did_not_write(vectors, pairs, tmp_path):
    with pytest.raises(InputError, match=r"path: .*got .*nowhere.*no"):
        PivotMaps.load(tmp_path / "nowhere")
    maps = map_to_pivot(vectors, "eng", pairs)
    maps.save(tmp_path / "maps")
    whole = (tmp_path / "maps").read_bytes()
    maps.aligners["fra"].save(tmp_path / "single")
    changed = {
        "cut": whole[:-9],
        "text": b"hello",
        "other": whole.replace(b"Procrustes", b"Procrustez"),
        "gone": whole.replace(b"rank_", b"tank_"),
    }
    for name, content in changed.items():
        (tmp_path / name).write_bytes(content)
    for name in (*changed, "single"):
        with pytest.raises(StoreError, match="path: expected"):
            PivotMaps.load(tmp_path / name)
    with pytest.raises(StoreError, match=r"path: .*got .*PivotMaps"):
        Procrustes.load(tmp_path / "maps")
    with pytest.raises(OutputError, match="path: expected"):
        maps.save(tmp_path / "no" / "maps")


def test_refusals(vectors, pairs):
    with pytest.raises(InputError, match=r"vectors: .*got deu/x, eng"):
        map_to_pivot(vectors, "spa", pairs)
    with pytest.raises(InputError, match=r"vectors: .*got eng"):
        map_to_pivot({"eng": vectors["eng"]}, "eng", {})
    for others in ({**pairs, "spa": [(0, 0)]}, {**pairs, "eng": [(0, 0)]}, {"fra": pairs["fra"]}):
        with pytest.raises(InputError, match=r"pairs: .*got .* in only"):
            map_to_pivot(vectors, "eng", others)
    for listed, message in (
        ([], r"at least one pair, got none; give pairs whose words are in both vocabularies"),
        (np.zeros((0, 2), int), r"at least one pair, got none"),
        (
            [(0, 1, 2)],
            (
                r"whole numbers of shape \(p, 2\), got int64 of shape \(1, 3\); give a row of the "
                r"language and a row of the pivot"
            ),
        ),
        ([(0.0, 1.0)], r"whole numbers of shape \(p, 2\), got float64 of shape \(1, 2\)"),
        ([(0, 1), (2,)], r"whole numbers of shape \(p, 2\), got rows of different lengths"),
        (
            [(0, 0), (70, 0)],
            r"rows of the language from 0 to 69, got 70 in pair 1; leave out words",
        ),
        ([(0, 0), (0, 3), (1, -1)], r"rows of the pivot from 0 to 69, got -1 in pair 2"),
    ):
        with pytest.raises(InputError, match=r"pairs\['fra'\]: expected " + message):
            map_to_pivot(vectors, "eng", {**pairs, "fra": listed})
    # unwrapped: in the tests the annotation would refuse it first
    with pytest.raises(InputError, match=r"aligner: .*got MultiStepMap"):
        inspect.unwrap(map_to_pivot)(vectors, "eng", pairs, MultiStepMap())
    with pytest.raises(InputError, match=r"vectors\['fra'\]: .*got NaN or infinity"):
        map_to_pivot(
            {**vectors, "fra": np.where(np.arange(70)[:, None] == 3, np.nan, vectors["fra"])},
            "eng",
            pairs,
        )
    with pytest.raises(InputError, match=r"^fra \(X\) to eng \(Y\): Y: .*got 5 columns"):
        map_to_pivot({**vectors, "fra": vectors["fra"][:, :3]}, "eng", pairs)
    with pytest.raises(InputError, match=r"^rus \(X\) to eng \(Y\): X: .*got 1 equal row\(s\)"):
        map_to_pivot(vectors, "eng", {**pairs, "rus": [(0, 0)]})
    maps = map_to_pivot(vectors, "eng", pairs)
    with pytest.raises(InputError, match=r"language: .*got 'spa'"):
        maps.transform("spa", vectors["fra"])
    with pytest.raises(InputError, match=r"Y: .*got 4 columns"):
        maps.inverse_transform("eng", vectors["fra"][:, :4])
    with pytest.raises(InputError, match=r"X: .*got 4 columns"):
        maps.transform("fra", vectors["fra"][:, :4])

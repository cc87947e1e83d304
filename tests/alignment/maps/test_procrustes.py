"""Procrustes: identities, scipy as the reference, what is stored, and every refusal."""

import json

import numpy as np
import pytest
import scipy.linalg
from safetensors.numpy import save as to_safetensors
from scipy.spatial.transform import Rotation

from crosslens.alignment.maps.procrustes import Procrustes, orthogonal_procrustes
from crosslens.errors import InputError, OutputError, StoreError


def random_rotation(d, rng):
    q, r = np.linalg.qr(rng.normal(size=(d, d)))
    return q * np.sign(np.diag(r))


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def test_the_map_is_orthogonal_even_between_unrelated_sets(rng):
    w = orthogonal_procrustes(rng.normal(size=(40, 9)), rng.normal(size=(40, 9)))
    assert np.allclose(w.T @ w, np.eye(9), atol=1e-12)


# float32: products carry ~1e-7 each
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-5)])
def test_a_random_rotation_is_recovered(rng, dtype, tolerance):
    turn = random_rotation(20, rng)
    x = rng.normal(size=(200, 20))
    w = orthogonal_procrustes(x.astype(dtype), (x @ turn).astype(dtype))
    assert w.dtype == dtype
    assert np.abs(w - turn).max() < tolerance


def test_it_is_scipys_map(rng):
    x, y = rng.normal(size=(60, 12)), rng.normal(size=(60, 12))
    assert np.allclose(
        orthogonal_procrustes(x, y), scipy.linalg.orthogonal_procrustes(x, y)[0], atol=1e-10
    )


def test_blocks_of_rows_change_nothing(rng, monkeypatch):
    x, y = rng.normal(size=(60, 5)), rng.normal(size=(60, 5))
    whole = Procrustes().fit(x, y)
    monkeypatch.setattr("crosslens.alignment.maps.procrustes._BLOCK", 7)
    parts = Procrustes().fit(x, y)
    assert np.allclose(parts.rotation_, whole.rotation_, atol=1e-12)
    assert parts.residual_ == pytest.approx(whole.residual_, rel=1e-12)


def test_no_other_rotation_fits_better(rng):
    x, y = rng.normal(size=(30, 6)), rng.normal(size=(30, 6))
    best = np.linalg.norm(x @ orthogonal_procrustes(x, y) - y)
    others = [np.linalg.norm(x @ random_rotation(6, rng) - y) for _ in range(50)]
    assert best < min(others)


def test_rotation_only_is_scipys_rotation_whether_or_not_a_mirror_would_fit_better(rng):
    for mirror in (1, -1):
        x = rng.normal(size=(40, 3))
        y = x @ random_rotation(3, rng) * [1, 1, mirror] + 0.3 * rng.normal(size=(40, 3))
        w = orthogonal_procrustes(x, y, rotation_only=True)
        assert np.allclose(w, Rotation.align_vectors(y, x)[0].as_matrix().T, atol=1e-10)
        assert np.linalg.det(w) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("d", [2, 6])
def test_no_other_rotation_fits_better_than_the_best_one_and_a_mirror_may(rng, d):
    x = rng.normal(size=(30, d))
    y = x * np.where(np.arange(d) == 1, -1, 1) + 0.1 * rng.normal(size=(30, d))
    w = orthogonal_procrustes(x, y, rotation_only=True)
    assert np.linalg.slogdet(w)[0] == 1
    turns = [random_rotation(d, rng) for _ in range(200)]
    for turn in turns:
        turn[:, 0] *= np.linalg.slogdet(turn)[0]
    nearby = [w @ scipy.linalg.expm(0.1 * (turn - turn.T)) for turn in turns]
    best = np.linalg.norm(x @ w - y)
    assert best < min(np.linalg.norm(x @ other - y) for other in (*turns, *nearby))
    assert np.linalg.norm(x @ orthogonal_procrustes(x, y) - y) < best


def test_rotation_only_changes_nothing_where_the_best_map_is_a_rotation(rng):
    x = rng.normal(size=(30, 5))
    turn = random_rotation(5, rng)
    turn[:, 0] *= np.linalg.slogdet(turn)[0]
    assert np.array_equal(
        orthogonal_procrustes(x, x @ turn, rotation_only=True), orthogonal_procrustes(x, x @ turn)
    )


def test_a_rotation_only_aligner_tells_its_determinant_and_a_residual_that_can_only_be_larger(rng):
    x = rng.normal(size=(30, 5))
    y = x * [1, 1, -1, 1, 1] + 4
    free, turned = Procrustes().fit(x, y), Procrustes(rotation_only=True).fit(x, y)
    assert (free.determinant_, turned.determinant_) == (-1, 1)
    assert free.residual_ < 1e-12 < 0.1 < turned.residual_
    assert turned.rank_ == 5
    assert np.allclose(turned.inverse_transform(turned.transform(x)), x, atol=1e-12)
    one = Procrustes(rotation_only=True).fit([[1.0], [2.0]], [[2.0], [1.0]])
    assert one.rotation_.tolist() == [[1.0]]  # on a line there is nothing to turn


def test_lists_and_integers_will_do():
    assert np.allclose(orthogonal_procrustes([[1, 0], [0, 1]], [[0, 1], [1, 0]]), [[0, 1], [1, 0]])


def test_fit_on_a_shifted_rotated_copy_is_perfect_and_can_be_undone(rng):
    turn = random_rotation(8, rng)
    x = rng.normal(size=(50, 8)) + 4
    y = (x - 1) @ turn + 30
    aligner = Procrustes().fit(x, y)
    assert aligner.residual_ < 1e-12
    assert np.allclose(aligner.transform(x), y, atol=1e-10)
    assert np.allclose(aligner.inverse_transform(y), x, atol=1e-10)
    assert aligner.rank_ == 8
    assert aligner.n_features_in_ == 8


def test_without_centring_a_shift_is_not_learnt(rng):
    x = rng.normal(size=(50, 8))
    aligner = Procrustes(centre=False).fit(x, x + 10)
    assert aligner.residual_ > 0.1
    assert not aligner.mean_x_.any()
    assert not aligner.mean_y_.any()


def test_means_of_fit_are_replayed_on_new_rows(rng):
    x, y = rng.normal(size=(50, 4)) + 5, rng.normal(size=(50, 4)) - 5
    aligner = Procrustes().fit(x, y)
    one = aligner.transform(x[:1])
    assert np.allclose(one, (x[:1] - x.mean(axis=0)) @ aligner.rotation_ + y.mean(axis=0))
    assert np.allclose(one, aligner.transform(x)[:1])


def test_normalise_makes_row_lengths_irrelevant(rng):
    x, y = rng.normal(size=(50, 4)), rng.normal(size=(50, 4))
    lengths = rng.uniform(1, 9, size=(50, 1))
    plain, scaled = (
        Procrustes(normalise=True).fit(x, y),
        Procrustes(normalise=True).fit(x * lengths, y / lengths),
    )
    assert np.allclose(plain.rotation_, scaled.rotation_, atol=1e-10)
    assert np.allclose(plain.transform(x), plain.transform(x * lengths), atol=1e-10)
    assert np.allclose(plain.inverse_transform(y), plain.inverse_transform(y * lengths), atol=1e-10)
    assert not np.allclose(
        Procrustes().fit(x, y).rotation_,
        Procrustes().fit(x * lengths, y / lengths).rotation_,
        atol=1e-3,
    )


def test_residual_is_that_of_the_training_pairs(rng):
    x, y = rng.normal(size=(50, 4)), rng.normal(size=(50, 4))
    aligner = Procrustes().fit(x, y)
    target = y - y.mean(axis=0)
    expected = np.linalg.norm((x - x.mean(axis=0)) @ aligner.rotation_ - target) / np.linalg.norm(
        target
    )
    assert aligner.residual_ == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("sign", [1, -1])
def test_determinant_tells_a_reflection(rng, sign):
    turn = random_rotation(5, rng)
    turn[:, 0] *= sign * np.linalg.slogdet(turn)[0]
    x = rng.normal(size=(30, 5))
    assert Procrustes().fit(x, x @ turn).determinant_ == sign


def test_fewer_pairs_than_dimensions_show_in_the_rank(rng):
    x = rng.normal(size=(7, 20)).astype(np.float32)
    y = (x @ random_rotation(20, rng)).astype(np.float32)
    aligner = Procrustes().fit(x, y)
    assert aligner.rank_ == 6  # seven pairs, one spent on the mean
    assert aligner.residual_ < 1e-5
    assert np.allclose(aligner.rotation_ @ aligner.rotation_.T, np.eye(20), atol=1e-5)


def test_outlier_dimensions_do_not_cost_float32_its_precision(rng):
    x = rng.normal(size=(400, 16))
    x[:, 3] += 300
    y = x @ random_rotation(16, rng)
    low, high = Procrustes().fit(x.astype(np.float32), y.astype(np.float32)), Procrustes().fit(x, y)
    assert low.transform(x.astype(np.float32)).dtype == np.float32
    # the inputs themselves are rounded to 300 * 6e-8 = 2e-5
    assert np.abs(low.rotation_ - high.rotation_).max() < 1e-4
    assert low.residual_ < 1e-4


def test_a_penalty_is_pairs_of_unit_vectors_with_themselves(rng):
    """Scipy's solution of the stacked problem; at its ends plain Procrustes and no rotation."""
    x, y = rng.normal(size=(15, 12)), rng.normal(size=(15, 12))
    weight = np.sqrt(0.7 * np.linalg.svd(x.T @ y, compute_uv=False).mean()) * np.eye(12)
    stacked = scipy.linalg.orthogonal_procrustes(np.vstack([x, weight]), np.vstack([y, weight]))[0]
    aligner = Procrustes(centre=False, shrinkage=0.7).fit(x, y)
    assert np.allclose(aligner.rotation_, stacked, atol=1e-10) and aligner.shrinkage_ == 0.7
    # whatever the units
    assert np.allclose(
        Procrustes(centre=False, shrinkage=0.7).fit(1000 * x, y).rotation_, stacked, atol=1e-10
    )
    assert np.array_equal(
        Procrustes(shrinkage=0).fit(x, y).rotation_, Procrustes().fit(x, y).rotation_
    )
    assert np.allclose(Procrustes(shrinkage=1e9).fit(x, y).rotation_, np.eye(12), atol=1e-6)
    turned = Procrustes(rotation_only=True, shrinkage=0.2).fit(x, y)
    assert turned.determinant_ == 1 and np.allclose(
        turned.rotation_ @ turned.rotation_.T, np.eye(12), atol=1e-10
    )
    assert Procrustes(shrinkage=0.7).fit(x, y).rank_ == Procrustes().fit(x, y).rank_


def test_directions_that_no_pair_tells_of_are_left_as_they_are(rng):
    x, y = rng.normal(size=(5, 20)), rng.normal(size=(5, 20))
    aligner = Procrustes(centre=False, shrinkage=0.5).fit(x, y)
    elsewhere = scipy.linalg.null_space(np.vstack([x, y])).T
    assert len(elsewhere) == 10 and np.allclose(
        elsewhere @ aligner.rotation_, elsewhere, atol=1e-10
    )
    assert aligner.rank_ == 5


def test_shrinkage_is_chosen_on_rows_that_were_not_learnt_from(rng):
    """Two slightly turned spaces and few pairs: shrunk; a full turn and many pairs: not. The other
    rows are found better."""
    d = 40
    turn = scipy.linalg.expm(0.03 * np.subtract(*(lambda a: (a, a.T))(rng.normal(size=(d, d)))))
    x = rng.normal(size=(330, d))
    y = x @ turn + rng.normal(size=(330, d))
    few, plain = Procrustes(shrinkage="auto").fit(x[:30], y[:30]), Procrustes().fit(x[:30], y[:30])
    assert few.shrinkage_ > 0 and few.score(x[30:], y[30:]) > plain.score(x[30:], y[30:]) + 0.1
    far = x @ random_rotation(d, rng)
    many = Procrustes(shrinkage="auto").fit(x, far)
    assert many.shrinkage_ == 0 and np.array_equal(
        many.rotation_, Procrustes().fit(x, far).rotation_
    )


@pytest.mark.parametrize("given", [-0.1, float("nan"), float("inf"), "best", True])
def test_a_shrinkage_that_is_none_is_refused(rng, given):
    x = rng.normal(size=(10, 4))
    with pytest.raises(
        InputError,
        match=('shrinkage: expected None, "auto" or a finite number, 0 or above'),
    ):
        Procrustes(shrinkage=given).fit(x, x)


def test_a_shrinkage_is_not_chosen_by_five_pairs(rng):
    x = rng.normal(size=(5, 4))
    with pytest.raises(InputError, match=r"X: .*got 5"):
        Procrustes(shrinkage="auto").fit(x, x)


@pytest.mark.parametrize("shrinkage", [None, "auto"])
def test_a_saved_aligner_comes_back_whole(rng, tmp_path, shrinkage):
    x, y = (rng.normal(size=(30, 5)).astype(np.float32) for _ in range(2))
    aligner = Procrustes(normalise=True, shrinkage=shrinkage).fit(x, y)
    aligner.save(tmp_path / "map.safetensors")
    loaded = Procrustes.load(tmp_path / "map.safetensors")
    assert loaded.get_params() == aligner.get_params()
    assert vars(loaded).keys() == vars(aligner).keys()
    for name, value in vars(aligner).items():
        assert np.array_equal(getattr(loaded, name), value), name
        assert type(getattr(loaded, name)) is type(value), name
    assert [path.name for path in tmp_path.iterdir()] == ["map.safetensors"]


def test_a_file_from_before_rotation_only_still_loads(rng, tmp_path):
    x = rng.normal(size=(30, 5)).astype(np.float32)
    aligner = Procrustes(centre=False).fit(x, x[:, ::-1])
    told = {"class": "Procrustes", "centre": False, "normalise": False}
    told |= {
        name: getattr(aligner, name)
        for name in ("determinant_", "n_features_in_", "rank_", "residual_")
    }
    tensors = {name: getattr(aligner, name) for name in ("mean_x_", "mean_y_", "rotation_")}
    (tmp_path / "old").write_bytes(
        to_safetensors(tensors, metadata={"crosslens": json.dumps(told)})
    )
    loaded = Procrustes.load(tmp_path / "old")
    assert loaded.get_params() == {
        "centre": False,
        "normalise": False,
        "rotation_only": False,
        "shrinkage": None,
    }
    assert vars(loaded).keys() == vars(aligner).keys()
    assert np.array_equal(loaded.transform(x), aligner.transform(x))


def test_load_refuses_what_save_did_not_write(rng, tmp_path):
    with pytest.raises(InputError, match=r"path: .*got .*nowhere.*no"):
        Procrustes.load(tmp_path / "nowhere")
    x = rng.normal(size=(30, 5))
    Procrustes().fit(x, x).save(tmp_path / "map")
    whole = (tmp_path / "map").read_bytes()
    broken = {
        "cut": whole[:-9],
        "text": b"hello",
        "empty": b"",
        "other": whole.replace(b"Procrustes", b"Procrustez"),
    }
    broken |= {
        "unknown": whole.replace(b"normalise", b"normalize"),
        "lacking": whole.replace(b"rank_", b"tank_"),
    }
    broken |= {
        "foreign": to_safetensors({"x": x}),
        "list": to_safetensors({"x": x}, metadata={"crosslens": "[1]"}),
    }
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(StoreError, match=r"^path.*: expected"):
            Procrustes.load(tmp_path / name)


def test_save_refuses_a_place_that_is_not_there_and_an_aligner_that_learnt_nothing(rng, tmp_path):
    x = rng.normal(size=(30, 5))
    with pytest.raises(OutputError, match="path: expected"):
        Procrustes().fit(x, x).save(tmp_path / "no" / "map")
    with pytest.raises(InputError, match=r"Procrustes: .*got one without"):
        Procrustes().save(tmp_path / "map")


def test_refusals(rng, monkeypatch):
    x = rng.normal(size=(10, 4))
    with pytest.raises(InputError, match=r"y: .*got 3 columns"):
        orthogonal_procrustes(x, x[:, :3])
    with pytest.raises(InputError, match="Y: expected as many"):
        Procrustes().fit(x, x[:, :3])
    with pytest.raises(InputError, match=r"y: .*got 9 rows"):
        orthogonal_procrustes(x, x[:9])
    with pytest.raises(InputError, match=r"x: .*got a cross-product"):
        orthogonal_procrustes(np.zeros((3, 2)), np.ones((3, 2)))
    with pytest.raises(InputError, match=r"X: .*got 3 equal row\(s\)"):
        Procrustes().fit(np.full((3, 2), 0.1), rng.normal(size=(3, 2)))
    with pytest.raises(InputError, match=r"Y: .*got 3 equal row\(s\)"):
        Procrustes().fit(rng.normal(size=(3, 2)), np.full((3, 2), 0.1))
    with pytest.raises(InputError, match=r"X: .*got 1 row\(s\)"):
        Procrustes(normalise=True).fit(np.where(np.arange(10)[:, None] == 2, 0, x), x)
    with pytest.raises(InputError, match=r"x: .*got an overflow"):
        orthogonal_procrustes(np.full((2, 2), 1e200), np.full((2, 2), 1e200))
    for scale, got in ((1e-200, "underflow"), (1e200, "overflow")):
        with pytest.raises(InputError, match=rf"Y: .*got an {got}"):
            Procrustes().fit(x, x * scale)
    with pytest.raises(InputError, match=r"Y: .*got 3 columns"):
        Procrustes().fit(x, x).inverse_transform(x[:, :3])
    with pytest.raises(InputError, match="Procrustes: expected a fitted"):
        Procrustes().transform(x)


def test_float32_sees_the_directions_that_float64_sees(rng):
    turn = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    x = (rng.normal(size=(6000, 12)) * np.logspace(0, -3, 12) @ turn + 3).astype(np.float32)
    y = (x @ turn.T + 1e-5 * rng.normal(size=x.shape)).astype(np.float32)
    x[:, 0] *= 1000
    low, high = Procrustes().fit(x, y), Procrustes().fit(x.astype(float), y.astype(float))
    assert low.rank_ == high.rank_ == 12
    assert np.abs(low.rotation_ - high.rotation_).max() < 1e-4
    few = Procrustes().fit(x[:9] + np.float32(300), y[:9])
    assert few.rank_ == Procrustes().fit(x[:9].astype(float) + 300, y[:9].astype(float)).rank_ == 8


def test_a_decomposition_that_fails_is_an_error_and_no_number(rng, monkeypatch):
    def fail(_, full_matrices):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(np.linalg, "svd", fail)
    x = rng.normal(size=(10, 4))
    message = (
        r"x: expected a matrix with a singular value decomposition, got SVD did not "
        r"converge; rescale"
    )
    with pytest.raises(InputError, match=message):
        orthogonal_procrustes(x, x)

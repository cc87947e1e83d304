"""Names of the parts of a run, which become names of files."""

import pytest

from crosslens.files import fingerprint
from crosslens.run.folder import RunFolder
from crosslens.score import Score


def test_a_part_of_long_names_is_kept_and_found_again(tmp_path):
    run = RunFolder(tmp_path)
    score = Score(encoder="e", task="t", quantity="mrr", value=1.0, n=1, seed=0)
    names = [f"retrieval.{'н' * 99}-{'м' * count}.random_encoder" for count in (98, 99)]
    assert [run.part(name, lambda: [score]) for name in names] == [[score], [score]]
    assert run.part(names[0], lambda: pytest.fail("it was measured before")) == [score]
    assert len(list((tmp_path / "parts").iterdir())) == 2


@pytest.mark.parametrize("name", ["../../x", "/x", "..", "a/b", "eng.-deu..encoder", ""])
def test_a_part_is_never_written_elsewhere(tmp_path, name):
    (tmp_path / "run").mkdir()
    RunFolder(tmp_path / "run").part(name, list)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert [path.name for path in (tmp_path / "run").rglob("*") if path.is_file()] == [f"{fingerprint(name)}.jsonl"]

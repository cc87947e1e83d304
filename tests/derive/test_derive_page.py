"""The table of docs/derive.md: every transformation, and what it really makes of the sentence."""

import re
from pathlib import Path

from crosslens.derive.registry import TRANSFORMATIONS, transformation
from crosslens.derive.transformation import Sentence

PAGE = Path(__file__).parents[2] / "docs" / "derive.md"
WORDS = "The captain sails home , before the storm , and nobody waits .".split()
VERB = "Mood=Ind|Number=Sing|Person=3|Tense=Pres|VerbForm=Fin"
FEATS = [VERB if word in ("sails", "waits") else "_" for word in WORDS]
LEMMAS = [{"sails": "sail", "waits": "wait"}.get(word, word) for word in WORDS]
SHOWN = [*TRANSFORMATIONS, "transliteration+inversion"]


def shown(name: str) -> str:
    sentence = Sentence(WORDS, {"feats": FEATS, "lemma": LEMMAS})
    return " ".join(transformation(name).derive(sentence, 0, 1).tokens)


def row(name: str) -> str:
    return f"| `{name}` | {shown(name)} |"


def test_the_table_shows_what_each_transformation_makes():
    section = PAGE.read_text(encoding="utf-8").split("\n## Transformations\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `[^-|][^|]*` \| .* \|$", section, re.MULTILINE)
    assert rows == [row(name) for name in SHOWN]

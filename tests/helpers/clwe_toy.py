"""Texts and settings of a CLWE that takes a second or two."""

from pathlib import Path

from monotrans_toy import SMALL
from toy_texts import two_languages, write_lines

ENGLISH, DUTCH = two_languages(160)
SETTINGS = {**SMALL, "dimensions": 12, "skipgram.epochs": 2}


def write_texts(folder: Path) -> dict[str, str]:
    """English; Dutch with three of its words; German without any. Settings that name the first two."""
    dutch = [
        line.replace("hond", "dog").replace("zon", "sun").replace("grot", "big") for line in DUTCH
    ]
    write_lines(folder / "eng.txt", ENGLISH[:120])
    write_lines(folder / "nld.txt", dutch[40:])
    write_lines(folder / "deu.txt", DUTCH[20:])
    return {**SETTINGS, "source": f"eng:{folder}/eng.txt", "target": f"nld:{folder}/nld.txt"}

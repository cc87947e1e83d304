"""Copies of data sets of the hub, in the layouts that they have there, with the items of a folder of
official files."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

SPLITS = {"train": "train", "dev": "validation", "test": "test"}
_WORDS = ("tokens", "lemmas", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")


def make_copies(folder, official):
    """Davlan/sib200, nyu-mll/blimp, aps/super_glue and commul/universal_dependencies."""
    _sib(folder / "Davlan" / "sib200", official / "sib200" / "sib200.tsv")
    _wic(folder / "aps" / "super_glue" / "wic", official / "wic")
    _treebanks(folder / "commul" / "universal_dependencies", official / "ud")
    pairs = [json.loads(line) for line in open(official / "blimp" / "agreement.jsonl")]
    rows = [{**pair, "pair_id": int(pair["pairID"]), "field": "syntax"} for pair in pairs]
    for row in rows:
        del row["pairID"]
    blimp = folder / "nyu-mll" / "blimp"
    parquet(blimp / "agreement" / "train-00000-of-00001.parquet", rows)
    card(blimp, {"agreement": {"train": "agreement/train-*"}})
    return folder


_TEXT = pa.list_(pa.string())
_MWT = pa.struct([(name, pa.string()) for name in ("id", "form", "feats", "misc")])
_TREEBANK = pa.schema(
    [
        ("sent_id", pa.string()),
        ("text", pa.string()),
        *((name, pa.list_(pa.uint16()) if name == "head" else _TEXT) for name in _WORDS),
        ("mwt", pa.list_(_MWT)),
    ]
)


def parquet(path, rows, schema=None):
    """A file of these records."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)


def card(folder, configurations):
    """A data set's README, which says where the splits of its configurations are."""
    lines = ["---", "configs:"]
    for name, splits in configurations.items():
        lines += [f"- config_name: {name}", "  data_files:"]
        for split, path in splits.items():
            lines += [f"  - split: {split}", f"    path: {path}"]
    (folder / "README.md").write_text("\n".join([*lines, "---", "# A data set", ""]))


def table(path, header, rows):
    """A file with tabs between its columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(row) for row in [header, *rows]]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _sib(folder, file):
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    languages = sorted({row[1] for row in rows})
    for language in languages:
        for part in SPLITS:
            mine = [[row[2], row[3], row[4]] for row in rows if row[:2] == [part, language]]
            table(
                folder / "data" / language / f"{part}.tsv", ["index_id", "category", "text"], mine
            )
    splits = {
        name: {SPLITS[part]: f"data/{name}/{part}.tsv" for part in SPLITS} for name in languages
    }
    card(folder, splits)


def _wic(folder, official):
    for part, split in SPLITS.items():
        lines = (official / f"{part}.data.txt").read_text().splitlines()
        answers = (official / f"{part}.gold.txt").read_text().splitlines()
        rows = []
        for number, (line, answer) in enumerate(zip(lines, answers, strict=True)):
            word, _, places, first, second = line.split("\t")
            starts = [
                len(" ".join(sentence.split(" ")[: int(place)])) + (place != "0")
                for place, sentence in zip(places.split("-"), (first, second), strict=True)
            ]
            row = {
                "word": f"{word} {number % 9}",
                "sentence1": first,
                "sentence2": second,
                "idx": number,
            }
            for side, start in enumerate(starts, 1):
                row |= {f"start{side}": start, f"end{side}": start + len(word)}
            rows.append(row | {"label": -1 if part == "test" else int(answer == "T")})
        parquet(folder / split / "0000.parquet", rows)


def _treebanks(folder, official):
    configurations = {}
    for file in sorted(official.glob("*.conllu")):
        name, _, part = file.name.removesuffix(".conllu").split("-")
        blocks = file.read_text(encoding="utf-8").strip().split("\n\n")
        parquet(
            folder / "parquet" / name / f"{part}.parquet",
            [record(one) for one in blocks],
            _TREEBANK,
        )
        configurations.setdefault(name, {})[part] = f"parquet/{name}/{part}.parquet"
    card(folder, configurations)


def record(block):
    """A sentence of CoNLL-U as the hub has it."""
    lines = block.splitlines()
    found = dict(line[2:].split(" = ", 1) for line in lines if line.startswith("# "))
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    words = [cells[1:] for cells in rows if cells[0].isdigit()]
    columns = {name: [cells[i] for cells in words] for i, name in enumerate(_WORDS)}
    for name in ("xpos", "feats", "deps", "misc"):
        columns[name] = [None if cell == "_" else cell for cell in columns[name]]
    columns["head"] = [int(cell) for cell in columns["head"]]
    mwt = [
        {"id": cells[0], "form": cells[1], "feats": None, "misc": None}
        for cells in rows
        if "-" in cells[0]
    ]
    return {"sent_id": found["sent_id"], "text": found["text"], **columns, "mwt": mwt}

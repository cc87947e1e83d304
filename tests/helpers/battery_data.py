"""A folder with every data set that a battery reads, made of a few words: what tests of batteries
share."""

import json

from tests_run_helpers import first_lines

LANGUAGES = {"eng_Latn": "eng", "fra_Latn": "fra", "rus_Cyrl": "rus"}
PARTS = {"train": 24, "dev": 9, "test": 12}
NOUNS = ("house", "water", "king", "land", "day", "city")
VERBS = ("sees", "takes", "gives", "calls")


def make_data(folder):
    """All data sets, under the names that they are published with."""
    for name in ("wic", "scws", "sib200", "ud", "marvin_linzen", "blimp"):
        (folder / name).mkdir(parents=True)
    for part, n in PARTS.items():
        write(folder / "wic" / f"{part}.data.txt", [wic_line(part, i) for i in range(2 * n)])
        write(folder / "wic" / f"{part}.gold.txt", ["T" if i % 2 else "F" for i in range(2 * n)])
        write(
            folder / "ud" / f"en_ewt-ud-{part}.conllu", [tree(f"{part}-{i}", i) for i in range(n)]
        )
    write(folder / "scws" / "ratings.txt", [scws_line(i) for i in range(14)])
    write(
        folder / "sib200" / "sib200.tsv", ["split\tlanguage\tindex_id\ttopic\ttext", *sib_lines()]
    )
    write(
        folder / "marvin_linzen" / "pairs.tsv",
        ["template\tcase\tgrammatical\tungrammatical\textra", *agreement_lines()],
    )
    write(folder / "blimp" / "agreement.jsonl", [json.dumps(blimp_pair(i)) for i in range(6)])
    return folder


def write(path, lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def wic_line(part, i):
    noun, other = NOUNS[i % 6], NOUNS[(i + 1) % 6]
    return f"{noun}\tN\t1-2\tThe {noun} {VERBS[i % 4]} {other} {i} .\tA old {noun} of {part} {i} ."


def scws_line(i):
    contexts = [
        f"the <b> {NOUNS[i % 6]} </b> {VERBS[i % 4]} .",
        f"a {VERBS[i % 3]} <b> {NOUNS[(i * i) % 5]} </b> {i} .",
    ]
    return "\t".join(
        [
            str(i + 1),
            NOUNS[i % 6],
            "n",
            NOUNS[(i * i) % 5],
            "n",
            *contexts,
            *[str((7 * i) % 10)] * 11,
        ]
    )


def sib_lines():
    lines = []
    for code, language in LANGUAGES.items():
        texts = first_lines(language, sum(PARTS.values()))
        parts = [part for part, n in PARTS.items() for _ in range(n)]
        lines += [
            f"{part}\t{code}\t{i}\t{('faith', 'travel')[i % 2]}\t{text}"
            for i, (part, text) in enumerate(zip(parts, texts, strict=True))
        ]
    return lines


def tree(name, i):
    """``The house sees old waters of days .``: a tree that is no chain."""
    nouns, plural = [NOUNS[(i + k) % 6] for k in range(3)], "s" if i % 2 else ""
    rows = [
        ("The", "DET", "_", 2, "det"),
        (nouns[0] + plural, "NOUN", f"Number={'Plur' if plural else 'Sing'}", 3, "nsubj"),
        (VERBS[i % 4], "VERB", "_", 0, "root"),
        ("old", "ADJ", "_", 5, "amod"),
        (nouns[1] + "s", "NOUN", "Number=Plur", 3, "obj"),
        ("of", "ADP", "_", 7, "case"),
        (nouns[2], "NOUN", "Number=Sing", 5, "nmod"),
        (".", "PUNCT", "_", 3, "punct"),
    ]
    text = " ".join(form for form, *_ in rows)
    lines = [
        f"{k}\t{form}\t{form}\t{upos}\t_\t{feats}\t{head}\t{relation}\t_\t_"
        for k, (form, upos, feats, head, relation) in enumerate(rows, 1)
    ]
    return "\n".join([f"# sent_id = {name}", f"# text = {text}", *lines]) + "\n"


def agreement_lines():
    """Pairs that differ in words of one piece, but for the last."""
    forms = [(noun, wrong) for noun in NOUNS for wrong in ("of", "in")][:-1] + [("king", "waters")]
    return [
        f"{('simple_agrmt', 'prep_anim')[i % 2]}\tsing\tthe {noun} is old\tthe {noun} {wrong} old\t"
        for i, (noun, wrong) in enumerate(forms)
    ]


def blimp_pair(i):
    return {
        "sentence_good": f"The {NOUNS[i]} is here.",
        "sentence_bad": f"The {NOUNS[i]} are here.",
        "UID": "agreement",
        "pairID": str(i),
    }


def add_treebanks(folder):
    """A French treebank with dev and test, and a Russian one with test alone."""
    write(folder / "ud" / "fr_gsd-ud-dev.conllu", [foreign(f"dev-{i}", i) for i in range(6)])
    write(folder / "ud" / "fr_gsd-ud-test.conllu", [foreign(f"test-{i}", i) for i in range(10)])
    write(folder / "ud" / "ru_pud-ud-test.conllu", [foreign(f"pud-{i}", i + 3) for i in range(8)])


def foreign(name, i):
    """A tree with other forms."""
    return tree(name, i).replace("house", "maison").replace("The\t", "La\t").replace("The ", "La ")

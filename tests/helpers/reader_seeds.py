"""Every reader of the package with a small valid input, for the fuzzer."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crosslens.activation_place import read_blocks
from crosslens.activations import Activations
from crosslens.activations_writer import ActivationsWriter
from crosslens.alignment.maps.fitted import read_tensors
from crosslens.alignment.maps.induction import SelfLearningResult, self_learning
from crosslens.alignment.maps.linear_maps import LeastSquares
from crosslens.alignment.maps.pivot import PivotMaps, map_to_pivot
from crosslens.alignment.maps.procrustes import Procrustes
from crosslens.alignment.maps.vecmap_maps import MultiStepMap
from crosslens.alignment.normalisation import IterativeNormalisation
from crosslens.alignment.words.links import read_pharaoh
from crosslens.asked import read_asked
from crosslens.derive.order_files import read_word_order
from crosslens.examples import Example, read_examples, write_examples
from crosslens.files import check_folder, read_json, write_json
from crosslens.outcomes import Outcomes, read_outcomes, write_outcomes
from crosslens.readers.dictionary import read_dictionary
from crosslens.readers.fasttext import read_fasttext_bin, train_skipgram
from crosslens.readers.labelled_text import read_labelled_text, read_table, read_wili
from crosslens.readers.minimal_pairs import read_minimal_pairs
from crosslens.readers.plain import open_text, read_lines, read_text, read_tsv
from crosslens.readers.questions import read_questions
from crosslens.readers.scws import read_scws
from crosslens.readers.sentence_pairs import read_sentence_pairs
from crosslens.readers.static_vectors import read_vec
from crosslens.readers.tagged_words import read_tagged_words
from crosslens.readers.treebank import trees, word_labels
from crosslens.readers.wic import read_wic, read_wic_spans
from crosslens.readers.words import read_conllu, read_words
from crosslens.report.folders.emergence import load_emergence
from crosslens.report.folders.probes import load_probe_runs
from crosslens.report.folders.study import load_study
from crosslens.report.folders.study_transfer import load_study_transfer
from crosslens.report.folders.training import load_training
from crosslens.report.folders.transfer import load_transfer
from crosslens.report.pages.page import render_report
from crosslens.score import Score, read_scores, write_scores


@dataclass(frozen=True)
class Reader:
    """A reader under test.

    Attributes
    ----------
    names: the public names that it stands for.
    make: writes a valid input into a folder.
    read: reads what is in the folder, to the end.
    share: how many cases it is given, relative to others.
    """

    names: tuple[str, ...]
    make: Callable[[Path], Any]
    read: Callable[[Path], Any]
    share: float = 1.0


def _file(name: str, content: str | bytes) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).write_bytes(
        content.encode() if isinstance(content, str) else content
    )


def _files(**contents: str) -> Callable[[Path], Any]:
    return lambda folder: [
        (folder / name.replace("__", ".")).write_text(content) for name, content in contents.items()
    ]


_ROW = "{0}\t{1}\t{1}\tNOUN\tN\tNumber=Sing\t{2}\t{3}\t_\t_\n"
CONLLU = (
    "# sent_id = a\n# text = du pain\n1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n"
    + _ROW.format(1, "de", 3, "case")
    + _ROW.format(2, "le", 3, "det")
    + _ROW.format(3, "pain", 0, "root")
    + "\n"
    + "# text = oui\n"
    + _ROW.format(1, "oui", 0, "root")
    + "1.1\tnon\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
)
TEXT = "The dog sleeps.\nA cat é 日本 eats.\nThree birds fly away.\n"
WORDS = (
    '{"text": "Don\'t go", "words": ["Do", "n\'t", "go"], "id": "x"}\n{"text": "a b", "spans": '
    "[[0, 1], [2, 3]]}\n"
)
SCWS = (
    "\t".join(
        [
            "1",
            "bank",
            "n",
            "shore",
            "n",
            "the <b> bank </b> .",
            "a <b> shore </b>",
            "7.5",
            *["7.5"] * 10,
        ]
    )
    + "\n"
)
RECIPE = (
    'name = "toy"\nsteps = 10\nseed = 3\n[[sources]]\nname = "s"\n[sources.texts]\neng = '
    '"e.txt"\nfra = "f.txt"\n'
    "[masking]\nrate = 0.2\n[encoder]\nlayers = 2\nhidden_size = 32\nheads = 2\n"
)


def _store(folder: Path, name: str = "store") -> ActivationsWriter:
    writer = ActivationsWriter(
        folder / name, {"a": 1}, arrays=["layer_00", "layer_01"], d=3, dtype="float32"
    )
    with writer.plan() as plan:
        plan.add(
            {
                "id": ["a", "b", "c", "d"],
                "text": [0, 0, 1, 1],
                "head": ["2", "0", "0", "1"],
                "upos": ["DET", "NOUN", "X", "PUNCT"],
            }
        )
        plan.end_block(at=3)
    for block in writer.left:
        writer.write(block, dict.fromkeys(("layer_00", "layer_01"), np.arange(12).reshape(4, 3)))
    return writer


def _whole_store(folder: Path) -> None:
    _store(folder).finish(language="eng", unit="word", encoder="toy", truncated=0)


def _read_store(folder: Path) -> None:
    store = Activations(folder / "store")
    store.layer(0).sum()
    columns = store.index()
    word_labels(columns, "upos")
    trees(columns)
    store.verify()


def _resume(folder: Path) -> None:
    read_blocks(folder / "store.partial")
    with ActivationsWriter(
        folder / "store", {"a": 1}, arrays=["layer_00", "layer_01"], d=3, dtype="float32"
    ) as writer:
        for block in writer.left:
            writer.write(
                block,
                dict.fromkeys(("layer_00", "layer_01"), np.arange(3 * len(block)).reshape(-1, 3)),
            )
        writer.finish()


def _half_store(folder: Path) -> None:
    with _store(folder):
        pass


_X = np.random.default_rng(0).normal(size=(40, 4))
_Y = _X @ np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]


def _map(kind: Any) -> Reader:
    def read(folder: Path) -> None:
        loaded = kind.load(folder / "map")
        mapped = loaded.transform(_X)
        if hasattr(loaded, "inverse_transform"):
            loaded.inverse_transform(mapped)

    return Reader((), lambda folder: kind().fit(_X, _Y).save(folder / "map"), read)


_PAIRS = {"fra": [(i, i) for i in range(30)]}
_LEARNT = {"vocabulary": 30, "k": 3, "patience": 2}


def _scores(folder: Path, kind: str, **config: Any) -> None:
    write_json(
        folder / "config.json",
        {
            "kind": kind,
            "settings": {"seed": 0, "languages": ["eng", "fra"], "encoders": {"*": "toy"}},
            **config,
        },
    )
    common = {
        "n": 50,
        "source": "eng",
        "target": "fra",
        "encoder": "toy",
        "low": 0.1,
        "high": 0.9,
        "seed": 0,
    }
    scores = []
    for layer in (0, 1):
        for condition in (
            "unaligned",
            "procrustes",
            "random_encoder",
            None,
            "shuffled_items",
            "half",
        ):
            where = {**common, "layer": layer, "condition": condition}
            scores.append(
                Score(
                    quantity="precision_at_1",
                    value=0.5,
                    task="sentence_retrieval",
                    details={"part": "held_out"},
                    **where,
                )
            )
            scores.append(
                Score(
                    quantity="linear_cka", value=0.5, other_layer=layer, task="similarity", **where
                )
            )
            details = {
                "f1": {"a": 0.5},
                "confusion": {"labels": ["a", "b"], "counts": [[1, 2], [3, 4]]},
                "part": "dev",
            }
            scores.append(
                Score(quantity="accuracy", value=0.5, task="upos", details=details, **where)
            )
    write_scores(scores, folder / "scores.jsonl")


def _study(folder: Path) -> None:
    _scores(
        folder,
        "study",
        data={"n": 50, "texts": {"eng": {"file": "e.txt", "sentences": 50, "sha256": "0" * 64}}},
        notes=["x"],
    )


def _examples(folder: Path) -> None:
    place: dict[str, Any] = {"task": "t", "encoder": "e", "source": "eng", "target": "fra"}
    some = [
        Example(**place, seed=0, item=k, texts=["Le chat", "dort"], marks=[(3, 7)] * k, gold=["A"],
                predicted=["B", "C"])
        for k in range(2)
    ]  # fmt: skip
    write_examples(some, folder / "examples.jsonl")


def _transfer(folder: Path) -> None:
    _examples(folder)
    write_json(
        folder / "config.json",
        {
            "kind": "transfer",
            "settings": {
                "encoders": {"e": "0"},
                "train": ["eng"],
                "preset": "default",
                "values": {"t": {"epochs": 2}},
            },
            "sources": {"t": {"epochs": "chosen here"}},
            "cards": {"t": {"title": "T", "kind": "tag"}},
            "data": {
                "tasks": {
                    "t": {
                        "splits": {"eng": "sampled"},
                        "left_out_of_test": {"fra": 2},
                        "no_data_in": ["deu"],
                    }
                }
            },
        },
    )
    told: dict[str, Any] = {
        "task": "t",
        "encoder": "e",
        "source": "eng",
        "quantity": "accuracy",
        "n": 9,
    }
    seeds = {"part": "test", "over_seeds": {"seeds": [0], "values": [0.5]}}
    epochs = {"part": "dev", "setting": 0, "epochs": {"1": {"dev": 0.1}, "2": {"dev": 0.2}}}
    scores = [
        Score(**told, value=0.5, low=0.4, high=0.6, target=t, details=seeds) for t in ("eng", "fra")
    ]
    scores += [Score(**told, value=0.3, target="fra", condition="majority", details=seeds)]
    scores += [Score(**told, value=0.2, target="eng", seed=0, details=epochs)]
    write_scores(scores, folder / "scores.jsonl")


def _study_transfer(folder: Path) -> None:
    told = {"name": "s", "paper": "deshpande", "published": {"a": "inversion"}}
    told["alignment"] = {"a": 0.5, "b": 0.1, "c": 0.2}
    write_json(
        folder / "config.json",
        {"kind": "study_transfer", "study": told, "asked": {"study": "x", "seeds": 1}},
    )
    details = {"part": "test", "seeds": [0], "values": [0.5]}
    scores = []
    for name in ("a", "b", "c"):
        common: dict[str, Any] = {"task": "upos", "encoder": name, "source": "eng", "n": 9}
        for target, condition in (("eng", None), ("eng-x", None), ("eng-x", "in_language")):
            fields = {**common, "target": target, "condition": condition, "details": details}
            scores.append(Score(quantity="accuracy", value=0.5, low=0.4, high=0.6, **fields))
        fields = {**common, "target": "eng-x", "condition": "zero_shot_less_in_language"}
        scores.append(Score(quantity="accuracy_difference", value=-0.1, details=details, **fields))
    write_scores(scores, folder / "scores.jsonl")


def _training(folder: Path) -> None:
    settings = {
        "name": "toy",
        "steps": 100,
        "seed": 0,
        "sources": [{"name": "s", "texts": {"eng": "e", "fra": "f"}}],
    }
    write_json(folder / "config.json", {"kind": "train", "settings": settings})
    write_json(
        folder / "data.json",
        {"streams": {"s.eng": {"items": 3}}, "held_out": {"s.eng": 3, "s.eng-fra": 3}},
    )
    lines: list[dict[str, Any]] = [
        {"step": i, "tokens": 10 * i, "loss": 3.0, "seconds": i, "tokens_per_second": 9}
        for i in range(1, 4)
    ]
    lines.append(
        {
            "step": 3,
            "tokens": 30,
            "seconds": 3.0,
            "perplexity": {"eng": 9.0},
            "retrieval": {"s.eng-fra": [0.5, 0.25]},
        }
    )
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _emergence(folder: Path) -> None:
    _scores(folder, "emergence")
    (folder / "half").mkdir()
    line = {
        "step": 3,
        "tokens": 30,
        "seconds": 3.0,
        "perplexity": {"eng": 9.0},
        "alignment": {"eng>fra": {"value": 0.5, "n": 9}},
    }
    (folder / "half" / "log.jsonl").write_text(
        json.dumps({"step": 1, "tokens": 1, "loss": 2.0}) + "\n" + json.dumps(line) + "\n"
    )


def _fasttext(folder: Path) -> None:
    (folder.parent / "tokens.txt").write_text(
        "the dog eats the cat and the cat eats the dog\n" * 20
    )
    train_skipgram(
        folder.parent / "tokens.txt", folder / "v.bin", d=4, epochs=1, min_count=1, buckets=50
    )


def _outcomes(folder: Path) -> None:
    names, right = np.array(["a", "b"]), np.array([1.0, 0.0])
    write_outcomes(
        [
            Outcomes(
                task="t",
                quantity="accuracy",
                layer=0,
                item=np.arange(2),
                item_id=names,
                group=names,
                outcome=right,
                gold=names,
            )
        ],
        folder / "outcomes.parquet",
    )


READERS: dict[str, Reader] = {
    "text": Reader(
        ("read_text", "read_lines"),
        _file("a.txt", TEXT),
        lambda f: (read_text(f / "a.txt", "eng").fingerprint, read_lines(f / "a.txt")),
    ),
    "text on disk": Reader(
        ("open_text",),
        _file("a.txt", TEXT),
        lambda f: list(open_text(f / "a.txt", "eng").sentences),
    ),
    "tsv": Reader(
        ("read_tsv",), _file("a.tsv", "0\tone\n1\ttwo\n"), lambda f: read_tsv(f / "a.tsv", "eng")
    ),
    "conllu": Reader(
        ("read_conllu",),
        _file("a.conllu", CONLLU),
        lambda f: read_conllu(f / "a.conllu", "fra").fingerprint,
    ),
    "words": Reader(
        ("read_words",),
        _file("a.jsonl", WORDS),
        lambda f: read_words(f / "a.jsonl", "eng").fingerprint,
    ),
    "pairs": Reader(
        ("read_minimal_pairs",),
        _file(
            "a.jsonl",
            (
                '{"good": "a b", "bad": "a c", "id": 3}\n{"sentence_good": "x", "sentence_bad": '
                '"y", "UID": "u"}\n'
            ),
        ),
        lambda f: read_minimal_pairs(f / "a.jsonl"),
    ),
    "pairs, Marvin & Linzen": Reader(
        (),
        _file(
            "a.tsv",
            "template\tcase\tgrammatical\tungrammatical\textra\nsimple_agrmt\tsing\ta b\ta c\t\n",
        ),
        lambda f: read_minimal_pairs(f / "a.tsv"),
    ),
    "pairs, MultiBLiMP": Reader(
        (),
        _file("a.csv", 'sen,wrong_sen,phenomenon,lang\n"a b, c",a c,SV-#,fra\n'),
        lambda f: read_minimal_pairs(f / "a.csv"),
    ),
    "wic": Reader(
        ("read_wic",),
        _files(d="bank\tN\t2-0\tThe river bank .\tBanks lend .\n", g="T\n"),
        lambda f: read_wic(f / "d", f / "g").corpora(),
    ),
    "wic spans": Reader(
        ("read_wic_spans",),
        _file("a.tsv", "行\tN\t2\t3\t1\t2\t我去行\t不行\tF\n"),
        lambda f: read_wic_spans(f / "a.tsv", "zho").corpora(),
    ),
    "scws": Reader(
        ("read_scws",), _file("r.txt", SCWS), lambda f: read_scws(f / "r.txt").corpora()
    ),
    "labelled": Reader(
        ("read_labelled_text",),
        _file("a.tsv", "eng\ta dog\nfra\tun chien\n"),
        lambda f: read_labelled_text(f / "a.tsv").corpus("eng"),
    ),
    "sentence pairs": Reader(
        ("read_sentence_pairs",),
        _file("a.tsv", "language\tlabel\tpremise\thypo\nen\tneutral\tIt rains.\tIt is wet.\n"),
        lambda f: read_sentence_pairs(f / "a.tsv", "en").corpora("eng"),
    ),
    "questions": Reader(
        ("read_questions",),
        _file(
            "a.json",
            '{"data": [{"title": "Ada", "paragraphs": [{"context": "Ada é 日本 Rome", "qas": [{"id": "a", '
            '"question": "Who?", "answers": [{"text": "日本", "answer_start": 6}]}]}]}]}',
        ),
        lambda f: [one.place for one in read_questions(f / "a.json")],
    ),
    "word order": Reader(
        ("read_word_order",),
        _file(
            "o.json",
            '{"word_order": 1, "language": "fra", "model": "log-linear", "models": {"N": {"symbols": '
            '["@NOUN", "ADJ"], "codes": [5, 1152921504606846976], "weights": [0.5, -1.25], "nodes": 3}}}\n',
        ),
        lambda f: read_word_order(f / "o.json", parts="N").models["N"].weights.tolist(),
    ),
    "tagged words": Reader(
        ("read_tagged_words",),
        _file(
            "a.iob2", "# sent_id = a\n# text = Ada’s\n1\tAda\tB-PER\t-\n2\t’s\tO\t-\n\nen:I\tO\n"
        ),
        lambda f: read_tagged_words(f / "a.iob2", "eng"),
    ),
    "table": Reader(
        ("read_table",),
        _file("a.tsv", "split\tlanguage\ttext\ntrain\teng\ta dog\ntest\tfra\tun chien\n"),
        lambda f: read_table(f / "a.tsv", "language"),
    ),
    "wili": Reader(
        ("read_wili",),
        _files(x_train__txt="a\nb\n", y_train__txt="e\nf\n", x_test__txt="c\n", y_test__txt="e\n"),
        read_wili,
    ),
    "dictionary": Reader(
        ("read_dictionary",),
        _file("d.txt", "dog\tchien\t0.5\ncat\tchat\t1\n"),
        lambda f: read_dictionary(f / "d.txt").translations(),
    ),
    "vectors": Reader(
        ("read_vec",),
        _file("v.vec", "3 2\na 1 2\nb 3 4.5\nc -1e3 2\n"),
        lambda f: read_vec(f / "v.vec"),
    ),
    "vectors without a header": Reader(
        (),
        _file("v.txt", "a 1 2\n. . . 3 4.5\nc -1e3 2\n"),
        lambda f: read_vec(f / "v.txt", errors="replace"),
    ),
    "fasttext": Reader(
        ("read_fasttext_bin",),
        _fasttext,
        lambda f: (read_fasttext_bin(f / "v.bin"), read_fasttext_bin(f / "v.bin", words=["dogs"])),
    ),
    "links": Reader(
        ("read_pharaoh",), _file("l", "0-0 1p2\n\n2-1\n"), lambda f: read_pharaoh(f / "l")
    ),
    "scores": Reader(
        ("read_scores",),
        _study,
        lambda f: [score.as_json() for score in read_scores(f / "scores.jsonl")],
    ),
    "outcomes": Reader(
        ("read_outcomes",), _outcomes, lambda f: read_outcomes(f / "outcomes.parquet")
    ),
    "json": Reader(
        ("read_json",),
        _file(
            "config.json", '{"kind": "study", "settings": {"a": [1, 2.5, null], "b": {"c": "d"}}}'
        ),
        lambda f: (
            read_json(f / "config.json"),
            check_folder(f, "study", {"a": [1, 2.5, None], "b": {"c": "d"}}),
        ),
    ),
    "what was asked": Reader(
        ("read_asked",),
        _file("asked.toml", 'encoders = ["e"]\ntexts = {eng = "a.txt"}\nseed = 1\n'),
        lambda f: read_asked(f / "asked.toml", "study"),
    ),
    "store": Reader((), _whole_store, _read_store),
    "half-written store": Reader(("read_blocks",), _half_store, _resume),
    "study": Reader(("load_study",), _study, load_study),
    "training": Reader(("load_training",), _training, load_training),
    "emergence": Reader(("load_emergence",), _emergence, load_emergence),
    "probes": Reader(
        ("load_probe_runs",),
        lambda f: _scores(f, "probe", data={"tasks": {"upos": {}}}),
        lambda f: load_probe_runs([f]),
    ),
    "examples": Reader(
        ("read_examples",), _examples, lambda f: read_examples(f / "examples.jsonl")
    ),
    "transfer": Reader(("load_transfer",), _transfer, load_transfer),
    "page of a transfer": Reader((), _transfer, render_report, 0.02),
    "study_transfer": Reader(("load_study_transfer",), _study_transfer, load_study_transfer),
    "page of a study's transfer": Reader((), _study_transfer, render_report, 0.02),
    "page of a study": Reader((), _study, render_report, 0.02),
    "page of a training": Reader((), _training, render_report, 0.02),
    "page of probes": Reader(
        (), lambda f: _scores(f, "probe", data={"tasks": {"upos": {}}}), render_report, 0.02
    ),
    "Procrustes": _map(Procrustes),
    "LeastSquares": _map(LeastSquares),
    "MultiStepMap": _map(MultiStepMap),
    "IterativeNormalisation": _map(IterativeNormalisation),
    "tensors": Reader(
        ("read_tensors",),
        lambda f: Procrustes().fit(_X, _Y).save(f / "map"),
        lambda f: read_tensors(f / "map", "x"),
    ),
    "pivot": Reader(
        (),
        lambda f: map_to_pivot({"eng": _X, "fra": _Y}, "eng", _PAIRS).save(f / "maps"),
        lambda f: (
            maps := PivotMaps.load(f / "maps"),
            [maps.transform(code, _X) for code in maps.aligners],
        ),
    ),
    "learnt maps": Reader(
        (),
        lambda f: self_learning(_X, _Y, [(i, i) for i in range(9)], **_LEARNT).save(f / "maps"),
        lambda f: SelfLearningResult.load(f / "maps").transform_x(_X),
    ),
    "state of learning": Reader(
        (),
        lambda f: self_learning(_X, _Y, [(i, i) for i in range(9)], **_LEARNT, state=f / "state"),
        lambda f: self_learning(_X, _Y, [(i, i) for i in range(9)], **_LEARNT, state=f / "state"),
        0.3,
    ),
}

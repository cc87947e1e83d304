"""Runs for papers: what the files hold, that they agree with the scores, and what is cited."""

import csv
import dataclasses
import json
import math
import re
from pathlib import Path

import pytest
from ground_tools import snapshot
from synthetic_training import make_training

import crosslens as cl
from crosslens.cli.main import main
from crosslens.errors import InputError, OutputError
from crosslens.probes.tasks.catalogue import cards
from crosslens.report import citations as cited
from crosslens.report.citations import SOFTWARE, citations, entries
from crosslens.report.export import csv_text, export_run, latex_text, markdown_text
from crosslens.report.figures import layer_figure
from crosslens.score import QUANTITIES, Score, write_scores

ODD = "a_b & c|d 50 % #1 {x} \\ ~^"


def retrieval(layer, value, **told):
    fields = {
        "quantity": "precision_at_1",
        "task": "sentence_retrieval",
        "n": 40,
        "low": value / 2,
        "high": min(1.0, 2 * value),
    }
    details = {"part": "held_out", "hits": [1, 0]}
    return Score(
        **{
            **fields,
            "layer": layer,
            "value": value,
            "encoder": ODD,
            "seed": 0,
            "details": details,
            **told,
        }
    )


SCORES = [
    *(
        retrieval(layer, (layer + 1) / 8 + shift, condition=condition, source=a, target=b)
        for condition, shift in (("unaligned", 0.0), ("procrustes", 0.1))
        for a, b in (("eng", "fra"), ("fra", "eng"))
        for layer in range(3)
    ),
    retrieval(
        3,
        math.nan,
        condition="procrustes",
        source="eng",
        target="fra",
        low=None,
        high=None,
        details={"reason": "collapsed"},
    ),
    *(
        Score(
            quantity="linear_cka",
            value=0.1 * (i + 2 * j),
            n=40,
            layer=i,
            other_layer=j,
            task="similarity",
            encoder=ODD,
        )
        for i in range(2)
        for j in range(2)
    ),
]


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"kind": "align", "settings": {"seed": 0}}))
    write_scores(SCORES, folder / "scores.jsonl")
    return folder


def test_the_csv_has_every_measurement_at_full_precision():
    rows = list(csv.DictReader(csv_text(SCORES).splitlines()))
    assert len(rows) == len(SCORES) and "hits" not in rows[0]
    for row, score in zip(rows, SCORES, strict=True):
        assert (
            row["value"] == ("" if math.isnan(score.value) else repr(score.value))
            and row["encoder"] == ODD
        )
        assert [row[name] for name in ("layer", "n", "source", "condition")] == [
            "" if value is None else str(value)
            for value in (score.layer, score.n, score.source, score.condition)
        ]
        assert row["part"] == (score.details or {}).get("part", "")


def test_a_detail_that_is_called_like_a_field_has_a_column_of_its_own():
    (row,) = csv.DictReader(
        csv_text([Score(quantity="r2", value=-0.5, n=3, details={"value": 7, "n": 9})]).splitlines()
    )
    assert (row["value"], row["details_value"], row["n"], row["details_n"]) == (
        "-0.5",
        "7",
        "3",
        "9",
    )


def test_tables_have_a_row_for_each_condition_and_a_column_for_each_layer():
    first, second = markdown_text(SCORES).split("\n\n**")
    lines = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in first.splitlines()[2:]
    ]
    head, body = lines[0], lines[2:]
    # what was not measured has no part, and so a row of its own
    assert head[-4:] == ["0", "1", "2", "3"] and len(body) == 5
    values = {tuple(row[:-4]): row[-4:] for row in body}
    cells = ["12.5 [6.2, 25.0]", "25.0 [12.5, 50.0]", "37.5 [18.8, 75.0]", ""]
    expected = {
        ("eng", "fra", "unaligned", "held_out"): cells,
        ("eng", "fra", "procrustes", ""): ["", "", "", "–"],
    }
    assert (
        head[:4] == ["source", "target", "condition", "part"] and expected.items() <= values.items()
    )
    # what all rows share is said once
    assert "P@1 (%)" in first and "n = 40; 95 % intervals in brackets" in first
    assert "a_b & c" in first
    # the same layer
    assert [line for line in second.splitlines() if line.startswith("| 0")] == [
        "| 0 | 1 |",
        "| 0.000 | 0.300 |",
    ]


def test_there_is_one_table_for_a_task_which_says_n_and_leaves_out_what_layers_were_chosen_by():
    told = {"task": "wic", "layer": 0}
    scores = [
        Score(
            quantity="accuracy",
            value=0.5,
            n=20,
            low=0.25,
            high=0.75,
            details={"part": "test"},
            **told,
        ),
        Score(quantity="accuracy", value=0.9, n=70, details={"part": "dev"}, **told),
        Score(quantity="macro_f1", value=0.25, n=19, details={"part": "test"}, **told),
    ]
    (table,) = markdown_text(scores).split("\n\n**")
    assert table.splitlines()[2:] == [
        "| measure | n | 0 |",
        "|---|---|---:|",
        "| Accuracy (%) | 20 | 50.0 [25.0, 75.0] |",
        "| Macro F1 (mean F1 over classes) | 19 | 0.250 |",
    ]
    assert "n = 19–20" in table and "1 further measurements are in scores.csv" in table
    assert "| 0 |" in markdown_text(scores[1:2])  # where there is nothing else it is shown
    assert r"\shortstack[r]{50.0\\{\tiny [25.0, 75.0]}}" in latex_text(scores)


def test_latex_is_balanced_and_escaped():
    text = latex_text(
        [
            *SCORES,
            *(
                Score(quantity="accuracy", value=0.5, n=9, layer=0, task="t", encoder=name)
                for name in (ODD, "b")
            ),
        ]
    )
    assert (
        text.count("\\begin{tabular}")
        == text.count("\\end{tabular}")
        == text.count("\\toprule")
        == 3
    )
    for table in text.split("\\begin{table}")[1:]:
        (columns,) = re.findall(r"\\begin{tabular}{([lr]+)}", table)
        rows = [line for line in table.splitlines() if line.endswith("\\\\")]
        assert {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows} == {len(columns)}
        assert not re.search(r"(?<!\\)[%#]|(?<!\\)_", re.sub(r"\\label{.*}", "", table))
    assert (
        r"a\_b \& c|d 50 \% \#1 \{x\} \textbackslash{} \textasciitilde{}\textasciicircum{}" in text
    )


def test_every_quantity_can_be_tabulated():
    for name in QUANTITIES:
        one = [Score(quantity=name, value=0.5, n=2, task="x")]
        assert "all" in markdown_text(one) and "\\midrule" in latex_text(one)


def test_a_run_is_exported_to_a_folder_of_its_own_with_the_same_bytes_again(run, tmp_path, capsys):
    assert main(["export", str(run), "--out", str(tmp_path / "out")]) == 0
    assert "each as PDF, SVG and PNG" in capsys.readouterr().out
    first = snapshot(tmp_path / "out")
    figures = {path.name for path in (tmp_path / "out" / "figures").iterdir()}
    assert figures >= {f"sentence_retrieval.{kind}" for kind in ("pdf", "svg", "png")}
    starts = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}
    for kind, start in starts.items():
        assert (
            (tmp_path / "out" / "figures" / f"sentence_retrieval.{kind}")
            .read_bytes()
            .startswith(start)
        )
    export_run(run, tmp_path / "out")
    assert snapshot(tmp_path / "out") == first


def test_figures_of_an_earlier_export_that_this_run_has_not_are_removed(run, tmp_path):
    out = tmp_path / "out"
    export_run(run, out)
    (out / "figures" / "mine.pdf").write_text("a figure of the user's")
    some = [score for score in SCORES if score.task != "sentence_retrieval"]
    assert 0 < len(some) < len(SCORES)
    write_scores(some, run / "scores.jsonl")
    told = export_run(run, out)
    there = {path for path in out.rglob("*") if path.is_file()}
    assert there - {*told} == {out / "figures" / "mine.pdf"}


def test_other_folders_are_refused(run, tmp_path, capsys):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    before = snapshot(tmp_path)
    with pytest.raises(OutputError, match="mine: expected a new folder"):
        export_run(run, mine)
    with pytest.raises(OutputError, match="expected a new folder"):
        export_run(run, mine / "thesis.tex")
    with pytest.raises(InputError, match="expected the folder of a run, with config.json"):
        export_run(mine, tmp_path / "out")
    assert (
        main(["cite", str(mine)]) == 2 and "expected a folder of a run" in capsys.readouterr().err
    )
    assert snapshot(tmp_path) == before


def test_a_training_is_exported_by_its_validations(tmp_path):
    make_training(tmp_path / "run")
    files = {path.name: path for path in export_run(tmp_path / "run", tmp_path / "out")}
    rows = list(csv.DictReader(files["scores.csv"].read_text("utf-8").splitlines()))
    lines = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    validations = [one for line in lines if "perplexity" in (one := json.loads(line))]
    told = {(row["step"], row["source"]): row for row in rows if row["quantity"] == "perplexity"}
    for one in validations:
        for language, value in one["perplexity"].items():
            assert float(told[str(one["step"]), language]["value"]) == value
    assert {row["n"] for row in rows} != {"0"} and "sentence_retrieval.pdf" in files
    last = markdown_text([]) + files["tables.md"].read_text("utf-8")
    assert f"{next(iter(validations[-1]['perplexity'].values())):.3f} |" in last
    (tmp_path / "run" / "log.jsonl").write_text("")
    with pytest.raises(InputError, match="run: expected a training"):
        export_run(tmp_path / "run", tmp_path / "other")


def test_a_run_that_calls_something_else_seeds_is_exported_whole(run, tmp_path):
    """A CLWE's settings say under ``seeds`` what its dictionary begins with."""
    config = {"kind": "clwe", "settings": {"seeds": "identical", "skipgram": {}}}
    (run / "config.json").write_text(json.dumps(config))
    told = {"quantity": "perplexity", "n": 40, "source": "eng", "encoder": "bert", "seed": 0}
    write_scores([Score(**told, value=24.5)], run / "scores.jsonl")
    files = {path.name: path for path in export_run(run, tmp_path / "out")}
    assert "| 24.500 |" in files["tables.md"].read_text("utf-8")
    assert "24.500" in files["tables.tex"].read_text("utf-8")


def test_what_rounds_to_zero_has_no_sign():
    score = Score(
        quantity="debiased_linear_cka", value=-0.0002, low=-0.0004, high=0.1, n=40, layer=0
    )
    assert "| 0.000 [0.000, 0.100] |" in markdown_text([score])


def test_validations_of_a_training_have_its_seed(tmp_path):
    folder = make_training(tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    for seed in (0, 3):  # 0 is the default
        config["settings"]["seed"] = seed
        (folder / "config.json").write_text(json.dumps(config))
        files = {path.name: path for path in export_run(folder, tmp_path / f"out-{seed}")}
        rows = list(csv.DictReader(files["scores.csv"].read_text("utf-8").splitlines()))
        assert {row["seed"] for row in rows} == {str(seed)}


def test_conditions_of_a_runs_own_are_drawn_too(run, tmp_path):
    told = {"quantity": "precision_at_1", "n": 40, "task": "sentence_retrieval"}
    scores = [
        Score(**told, value=0.1 * layer, layer=layer, source=a, target=b, condition=condition)
        for condition in ("shared", "separate")
        for a, b in (("eng", "eng-x"), ("eng-x", "eng"))
        for layer in (0, 1)
    ]
    write_scores(scores, run / "scores.jsonl")
    figures = [path for path in export_run(run, tmp_path / "out") if path.suffix == ".png"]
    assert [path.name for path in figures] == ["sentence_retrieval.png"]


def test_conditions_of_a_controlled_study_have_a_line_each_of_means_over_seeds():
    told = {"quantity": "precision_at_1", "n": 40, "task": "sentence_retrieval", "layer": 0}
    told |= {"source": "eng", "target": "eng-x", "condition": "unaligned"}
    scores = []
    for place, name in enumerate(("default", "sep-emb")):
        for seed, value in enumerate((0.2, 0.4, 0.6)):
            for layer in (0, 1):
                value = value + 0.1 * place + 0.01 * layer
                more = {"value": value, "layer": layer, "encoder": name, "seed": seed}
                parts = [{"part": part} for part in ("train", "held_out")]
                scores += [Score(**(told | more), details=part) for part in parts]
    means = [
        dataclasses.replace(s, value=s.value + 0.25, seed=None)
        for s in scores
        if (s.seed, s.details) == (0, {"part": "held_out"})
    ]
    mapped = [dataclasses.replace(s, value=0.9, condition="procrustes") for s in means]
    for some, expected in ((scores + means + mapped, (0.45, 0.55)), (scores, (0.4, 0.5))):
        figure = layer_figure(some)
        axes = figure.axes[0]
        assert [one.get_text() for one in axes.get_legend().get_texts()] == ["default", "sep-emb"]
        drawn = {
            round(float(line.get_ydata()[0]), 6)
            for line in axes.get_lines()
            if len(line.get_ydata())
        }
        assert drawn == set(expected)
        assert ("means over seeds" in said(figure)) == (some is not scores)


def test_a_study_of_one_condition_is_drawn_by_its_means_over_seeds():
    told = {"quantity": "precision_at_1", "n": 9, "task": "sentence_retrieval"}
    told |= {"encoder": "default", "source": "eng", "details": {"part": "held_out"}}
    ways = {"unaligned": 0.0, "random_encoder": 0.1}
    scores = [
        Score(**told, target="fra", condition=way, layer=layer, seed=seed, value=value + more)
        for way, more in ways.items()
        for layer in (0, 1)
        for seed, value in ((0, 0.2), (1, 0.6), (None, 0.4))
    ]
    figure = layer_figure(scores)
    drawn = {round(float(line.get_ydata()[0]), 6) for line in figure.axes[0].get_lines()}
    assert {0.4, 0.5} <= drawn and not drawn & {0.2, 0.3, 0.6, 0.7}
    assert "means over seeds" in said(figure)


def said(figure):
    return " ".join(text.get_text() for text in figure.texts).replace("\n", " ")


def keys(found):
    return [entry.partition("{")[2].partition(",")[0] for entry in found]


def test_every_paper_is_cited_by_something_and_is_whole():
    text = cited._PAPERS.read_text(encoding="utf-8")
    there = entries(text)
    assert "".join(text.split()) == "".join("".join(there).split()) and len(
        set(keys(there))
    ) == len(there)
    assert {name for _, names in cited._CITED for name in names} == set(keys(there))
    for entry in [
        *there,
        SOFTWARE,
        *(part for card in cards().values() for part in entries(card["citation"])),
    ]:
        assert entry.count("{") == entry.count("}") and all(
            f"{name} = " in entry for name in ("author", "title")
        ), entry
        assert entry is SOFTWARE or re.search(r"year = {(19|20)\d\d}", entry), entry


def test_patterns_name_quantities_that_there_are():
    told = [pattern for pattern, _ in cited._CITED if pattern.startswith("quantity:")]
    for pattern in told:
        assert any(re.fullmatch(pattern, f"quantity:{name}") for name in QUANTITIES), pattern


def test_the_library_is_cited_as_its_own_file_says():
    own = (Path(__file__).parents[2] / "CITATION.cff").read_text(encoding="utf-8")
    version = re.search(r"^version: (.+)$", own, re.MULTILINE)[1]
    assert (
        f"version = {{{version}}}" in SOFTWARE
        and "The crosslens maintainers" in own
        and "The crosslens maintainers" in SOFTWARE
    )
    titles = [title.lower() for title in re.findall(r'^    title: "(.+)"$', own, re.MULTILINE)]
    plain = cited._PAPERS.read_text(encoding="utf-8").replace("{", "").replace("}", "").lower()
    assert titles and all(title in plain for title in titles)


@pytest.mark.parametrize(
    ("config", "scores", "expected"),
    [
        ({"kind": "align", "settings": {"by": "margin_ratio"}}, [], ["artetxe2019margin"]),
        (
            {"kind": "align", "settings": {"method": "self-learning", "by": "csls"}},
            [],
            ["conneau2018word", "artetxe2018robust"],
        ),
        (
            {"kind": "compare", "settings": {"also": "svcca,rsa"}},
            [],
            ["raghu2017svcca", "kriegeskorte2008representational"],
        ),
        (
            {
                "kind": "train",
                "settings": {
                    "tlm_share": 0.5,
                    "vocabulary": {"kind": "bpe"},
                    "optimisation": {"optimiser": "lamb"},
                },
            },
            [],
            ["devlin2019bert", "conneau2019crosslingual", "sennrich2016neural", "you2020large"],
        ),
        (
            {"kind": "mapped_transfer", "settings": {"features": "transformer"}},
            [],
            ["conneau2020emerging"],
        ),
        ({"kind": "monotrans"}, [], ["devlin2019bert", "artetxe2020cross"]),
        (
            {"kind": "monotrans", "settings": {"step-2/fra": {"encoder": {"adapters": 64}}}},
            [],
            ["devlin2019bert", "artetxe2020cross", "houlsby2019parameter"],
        ),
        ({"settings": {"step-1": {"encoder": {"adapters": 0}}}}, [], []),
        (
            {
                "kind": "controlled",
                "settings": {
                    "study": "conneau-sharing",
                    "conditions": {
                        "x": {"recipe": {"optimisation": {"optimiser": "lamb"}}},
                        "y": {"recipe": {"derived": {"eng-x": {"by": "token-hop+inversion"}}}},
                    },
                },
            },
            [],
            [
                "conneau2020emerging",
                "devlin2019bert",
                "deshpande2022when",
                "kallini2024mission",
                "you2020large",
            ],
        ),
        ({"kind": "transplant", "settings": {"by": "translation"}}, [], ["minixhofer2022wechsel"]),
        ({"kind": "transplant", "settings": {"by": "retokenised"}}, [], ["gee2022fast"]),
        ({"kind": "transplant", "settings": {"by": "similarity"}}, [], ["dobler2023focus"]),
        ({"kind": "transplant", "settings": {"by": "factorised"}}, [], ["liu2024ofa"]),
        ({"kind": "transplant", "settings": {"by": "random"}}, [], []),
        (
            {"kind": "transfer", "settings": {"crf": True}},
            [Score(quantity="las", value=0.5, n=9)],
            ["dozat2017deep", "lafferty2001conditional"],
        ),
        (
            {"kind": "clwe"},
            [],
            ["devlin2019bert", "artetxe2020cross", "artetxe2018robust", "bojanowski2017enriching"],
        ),
        (
            {"kind": "transfer", "settings": {"features": "mix+bilstm"}},
            [],
            ["wu2019beto", "peters2018deep"],
        ),
        (
            {"kind": "study"},
            SCORES,
            ["conneau2020emerging", "schonemann1966procrustes", "kornblith2019similarity"],
        ),
        (
            {
                "kind": "probe",
                "settings": "?",
                "cards": {"x": {"citation": "@misc{mine, year = {1}}"}, "y": 3},
            },
            [],
            ["mine"],
        ),
    ],
)
def test_what_a_run_used_is_cited(config, scores, expected):
    assert keys(citations(config, scores)) == ["crosslens", *expected]


def test_how_a_vocabulary_was_begun_is_cited(tmp_path):
    (tmp_path / "transplant.json").write_text('{"by": "retokenised"}')
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert keys(cl.Run(tmp_path).citations()) == ["crosslens", "gee2022fast"]


def test_tasks_of_the_catalogue_are_cited_where_a_run_keeps_no_cards(tmp_path, capsys):
    for name, tasks in (("a", ["wic", "my_own"]), ("b", ["wic", "scws"])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(
            json.dumps({"kind": "probe", "settings": {"tasks": tasks}})
        )
    assert main(["cite", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert keys(entries(capsys.readouterr().out)) == [
        "crosslens",
        "pilehvar2019wic",
        "huang2012scws",
    ]

"""What the command line says of itself: help, what may have been meant, lists, completion; and
interrupts that Python would swallow."""

import json
import os
import subprocess
import sys
from importlib import metadata

import pytest
from typed import typed

from crosslens.cli import listing
from crosslens.cli.main import build_parser, main
from crosslens.cli.output import format_table
from crosslens.score import QUANTITIES


def test_no_verb_is_answered_by_the_help(capsys):
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err == build_parser().format_help()


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (["trian"], "train"),
        (["extrakt", "--encoder", "x"], "extract"),
        (["study", "--enocder", "x"], "--encoder"),
        (["study", "--encoder", "x", "--txt=eng=a"], "--text"),
        (["probe", "--random_control"], "--random-control"),
    ],
)
def test_what_was_mistyped_is_asked_after(capsys, line, meant):
    with pytest.raises(SystemExit) as ended:
        main(line)
    message = capsys.readouterr().err
    assert (
        ended.value.code == 2 and f"did you mean {meant}?" in message and message.count("\n") == 1
    )


@pytest.mark.parametrize("line", [["study", "--help"], ["study", "--enc", "x", "--he"]])
def test_beginnings_of_options_are_options(capsys, line):
    with pytest.raises(SystemExit) as ended:
        main(line)
    assert ended.value.code == 0 and capsys.readouterr().out.startswith("usage: crosslens study")


def test_every_verb_s_help_fits_eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    (verbs,) = (action.choices for action in build_parser()._actions if action.dest == "verb")
    for verb in verbs.values():
        assert max(map(len, verb.format_help().splitlines())) <= 80, verb.prog


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_lists_fit_the_terminal_and_name_everything(capsys, monkeypatch, columns):
    from crosslens.probes.tasks.catalogue import task_names

    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= columns or " " not in line.strip() for line in lines)
    for name in (*task_names(), *QUANTITIES, "quickstart", "emergence"):
        assert any(line.startswith(f"  {name}: ") for line in lines), name


def test_lists_as_json_say_where_data_is(capsys, tmp_path):
    (tmp_path / "multiblimp" / "abk").mkdir(parents=True)
    (tmp_path / "multiblimp" / "abk" / "data.tsv").write_text("sen\twrong_sen\n")
    assert typed("list --json", "--data", str(tmp_path)) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert list(found) == ["tasks", "recipes", "transformations", "measures"]
    assert (
        found["tasks"]["multiblimp"]["there_in"] == ["abk"]
        and found["tasks"]["upos"]["there_in"] == []
    )
    assert "@" in found["tasks"]["wic"]["citation"] and found["measures"]["r2"]["low"] is None
    assert main(["list", "recipe"]) == 2 and "did you mean recipes?" in capsys.readouterr().err


def test_the_list_says_of_every_task_in_which_languages_a_folder_has_it(capsys, tmp_path):
    def there_in():
        assert typed("list tasks --json", "--data", str(tmp_path)) == 0
        cards = json.loads(capsys.readouterr().out)["tasks"]
        return {name: card["there_in"] for name, card in cards.items() if card["there_in"]}

    assert there_in() == {"minimal_pairs": ["eng"]}  # which are made where there is no file
    for name in (
        "scws/ratings.txt",
        "blimp/x.jsonl",
        "ud/fr_gsd-ud-test.conllu",
        "wic/dev.gold.txt",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    rows = [f"train\t{name}\t{i}\ttravel\ta b" for i in (1, 2) for name in ("fra_Latn", "zho_Hans")]
    (tmp_path / "sib200").mkdir()
    table = "\n".join(["split\tlanguage\tindex_id\ttopic\ttext", *rows])
    (tmp_path / "sib200/sib200.tsv").write_text(table)
    found = there_in()
    assert found["scws"] == found["blimp"] == ["eng"] and found["upos"] == ["fra"]
    assert found["language_id"] == found["topic"] == ["fra", "zho"]
    assert "wic" not in found  # of which one of six files is there
    assert main(["list", "--data", str(tmp_path / "nowhere")]) == 2
    assert "--data: expected a folder" in capsys.readouterr().err


def test_the_doctor_names_absent_extras_with_the_command_that_brings_them(capsys, monkeypatch):
    monkeypatch.setattr(
        metadata,
        "requires",
        lambda _: [
            "numpy>=2",
            "nowhere-a>=1; extra == 'far'",
            "numpy; extra == 'near'",
            "x; extra == 'test'",
        ],
    )
    monkeypatch.setattr(listing, "format_table", lambda rows: format_table(rows, 1000))
    assert main(["doctor"]) == 0
    rows = dict(
        line.split(None, 1)
        if not line.lstrip().startswith("extra")
        else line.strip().split("  ", 1)
        for line in capsys.readouterr().out.splitlines()
    )
    assert (
        rows["extra far"] == "absent (nowhere-a); pip install -c constraints.txt '.[far]' brings it"
    )
    assert rows["extra near"].startswith("numpy ") and "extra test" not in rows


def test_a_shell_is_told_what_could_come_next_without_torch(tmp_path):
    pytest.importorskip("argcomplete", reason="the extra completion")
    found = tmp_path / "found"
    line = "crosslens study --tr"
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    code = (
        "import sys, os\nos._exit = lambda status: (print(status, 'torch' in sys.modules), "
        "sys.stdout.flush(), sys.exit(0))\n"
    )
    code += "from crosslens.cli.main import main; sys.argv[0] = 'crosslens'; main()"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "_ARGCOMPLETE_STDOUT_FILENAME": str(found), "_ARGCOMPLETE_IFS": "\n"},
        capture_output=True,
        text=True,
    )
    assert run.stdout == "0 False\n", run.stderr
    assert found.read_text().split() == ["--train-fraction", "--trust-remote-code"]


# Ctrl-C while a destructor runs: Python prints such an exception and goes on.
SWALLOWED = """
import os, signal, sys, time
from crosslens.cli import main, process
class Held:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass
def doctor(_):
    Held()
    time.sleep(600)
    print("went on")
main._VERBS["doctor"] = (doctor, *main._VERBS["doctor"][1:])
sys.argv = ["crosslens", "doctor"]
process.run()
"""


@pytest.mark.slow
def test_an_interrupt_within_a_destructor_stops_the_command():
    run = subprocess.run(
        [sys.executable, "-c", SWALLOWED], capture_output=True, text=True, timeout=60
    )
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "crosslens: stopped\n")


# The same while a pool of threads is given work: its locks would stay taken, and its threads wait.
POOLED = """
import concurrent.futures, os, signal, sys, time
from crosslens.cli import main, process
class Pool(concurrent.futures.ThreadPoolExecutor):
    def _adjust_thread_count(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass
        super()._adjust_thread_count()
        print("given", flush=True)
def doctor(_):
    with Pool(1) as pool:
        pool.submit(abs, 1)
        time.sleep(600)
    print("went on")
main._VERBS["doctor"] = (doctor, *main._VERBS["doctor"][1:])
sys.argv = ["crosslens", "doctor"]
process.run()
"""


def test_an_interrupt_while_work_is_handed_to_threads_waits_for_their_locks():
    run = subprocess.run([sys.executable, "-c", POOLED], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (130, "given\n", "crosslens: stopped\n")


def test_other_exceptions_of_destructors_are_still_told():
    code = SWALLOWED.replace(
        "os.kill(os.getpid(), signal.SIGINT)", "raise ValueError('x')"
    ).replace("time.sleep(600)", "pass")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (0, "went on\n") and "ValueError: x" in run.stderr

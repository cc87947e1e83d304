"""Tables line up, and become blocks where the terminal is narrow."""

import pytest

from crosslens.cli.output import format_table

ROWS = [("layer", "direction", "P@1"), ("0", "fra → eng", "12.5"), ("10", "eng → fra", "9.0")]


def test_columns_line_up_and_no_line_ends_in_spaces():
    assert format_table(ROWS, width=80).splitlines() == [
        "layer  direction  P@1",
        "    0  fra → eng  12.5",
        "   10  eng → fra  9.0",
    ]


def test_a_narrow_terminal_gets_blocks_with_every_cell():
    assert (
        format_table(ROWS, width=20)
        == "layer: 0\ndirection: fra → eng\nP@1: 12.5\n\nlayer: 10\ndirection: eng → fra\nP@1: 9.0"
    )


def test_a_narrow_terminal_gets_a_line_for_each_row_of_two_columns():
    rows = [("what", "found"), ("python", "3.11"), ("threads", "2 (all cores)")]
    assert format_table(rows, width=12) == "python: 3.11\nthreads: 2 (all cores)"


@pytest.mark.parametrize(("width", "lines"), [(22, 3), (21, 7)])
def test_the_table_is_kept_as_long_as_it_fits(width, lines):
    text = format_table(ROWS, width=width)
    assert len(text.splitlines()) == lines
    assert max(map(len, text.splitlines())) <= width


def test_the_terminal_s_width_is_asked_for(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    assert format_table(ROWS) == format_table(ROWS, width=20)
    monkeypatch.setenv("COLUMNS", "200")
    assert format_table(ROWS) == format_table(ROWS, width=200)


def test_a_head_alone_is_a_line():
    assert format_table([("a", "b")], width=80) == "a  b"
    assert format_table([("a",), ("b",)], width=80) == "a\nb"

"""Relations of a parsing task: how often each is right, and what it is taken for."""

import collections

from crosslens.outcomes import Outcomes
from crosslens.report.folders.transfer import Transfer
from crosslens.report.parts.layout import table
from crosslens.report.parts.wording import language, plural, text

__all__ = ["relation_tables"]

_MOST, _LANGUAGES = 15, 12
_ALL_WORDS = "conll18"  # counts every word, whatever the headline leaves out


def relation_tables(run: Transfer, task: str) -> str:
    """A table of the most frequent relations for each test language, of the first seed and encoder;
    empty where the task has no trees."""
    if run.section("cards", task).get("kind") != "tree":
        return ""
    wanted = {"quantity": "las", "method": _ALL_WORDS}
    found = {
        target: next(iter(seeds.values()))
        for target, seeds in run.answered(task, run.systems()[0], **wanted).items()
    }
    return "".join(
        _relations(target, one)
        for target, one in list(found.items())[:_LANGUAGES]
        if one.gold is not None and one.predicted is not None
    )


def _relations(target: str, one: Outcomes) -> str:
    assert one.gold is not None and one.predicted is not None
    words, heads, both = (collections.Counter[str]() for _ in range(3))
    taken: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for gold, predicted in zip(one.gold.tolist(), one.predicted.tolist(), strict=True):
        for mine, theirs in zip(gold.split(), predicted.split(), strict=True):
            (head, _, name), (other, _, called) = mine.partition(":"), theirs.partition(":")
            words[name] += 1
            heads[name] += head == other
            both[name] += mine == theirs
            if name != called:
                taken[name][called] += 1
    rows = []
    for name, n in sorted(words.items(), key=lambda item: (-item[1], item[0]))[:_MOST]:
        wrong = sorted(taken[name].items(), key=lambda item: (-item[1], item[0]))[:2]
        told = ", ".join(f"{text(other)} {count / n:.3f}" for other, count in wrong) or "–"
        rows.append([text(name), f"{n:,}", f"{heads[name] / n:.3f}", f"{both[name] / n:.3f}", told])
    caption = (
        f"{language(target)}: the most frequent of {plural(len(words), 'relation')}, every word counted, "
        f"seed {one.seed}."
    )
    return table(caption, ["Relation", "n", "Head right", "Head and relation", "Taken for"], rows)

"""What somebody may have meant who mistyped a verb or an option."""

import argparse
import difflib
from collections.abc import Iterable, Sequence

__all__ = ["check_spelling", "meant"]


def meant(word: str, known: Iterable[str]) -> str | None:
    """A question after the most alike of the known words; None where none is alike.

    >>> meant("stduy", ["study", "train"]), meant("x", ["study"])
    ('did you mean study?', None)
    """
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else None


def check_spelling(
    parser: argparse.ArgumentParser, verbs: dict[str, argparse.ArgumentParser], line: Sequence[str]
) -> None:
    """End with a refusal that asks after what was meant, where the verb or an option is none but
    looks like one.

    What looks like nothing is left to the parser. An unambiguous beginning of an option is that
    option.
    """
    place = next((i for i, word in enumerate(line) if not word.startswith("-")), None)
    if place is None:
        return
    verb = verbs.get(line[place])
    if verb is None:
        question = meant(line[place], verbs)
        if question:
            parser.error(f"no verb is called {line[place]!r}: {question}")
        return
    known = [name for action in verb._actions for name in action.option_strings]
    for word in line[place + 1 :]:
        name = word.partition("=")[0]
        if word == "--":
            return
        if (
            name.startswith("--")
            and " " not in word
            and not any(one.startswith(name) for one in known)
        ):
            question = meant(name, known)
            if question:
                verb.error(f"no option is called {name}: {question}")

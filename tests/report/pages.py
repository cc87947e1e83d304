"""Pages taken apart, for the tests of the report."""

import re
from html.parser import HTMLParser

VOID = {"meta", "br", "img", "link", "input", "hr", "wbr"}


class Page(HTMLParser):
    """A page taken apart: tags with attributes, text outside style sheet and script, and whether
    tags are balanced."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(source)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"}.intersection(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words).replace("\xa0", " "))

    def all(self, name: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.tags if tag == name]

"""A Sphinx extension: the project's docstrings as reStructuredText, signatures as they are written,
and names that are linked.

A section of a docstring (``Parameters`` over a line of hyphens) holds entries ``name: text``,
continued on indented lines.
"""

import ast
import collections
import dataclasses
import functools
import importlib
import inspect
import re
import sys
import textwrap
from typing import Any

from docutils import nodes
from reference_pages import home, modules
from sphinx.addnodes import desc_signature, pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from crosslens import errors

_EXCEPTIONS = {name: f"crosslens.errors.{name}" for name in errors.__all__}
_ENTRIES = {"Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns"}
_SECTION = re.compile(r"^-{4,}$")
_ENTRY = re.compile(r"((?:\*{0,2}[\w.]+(?:\[\w+\])?)(?:, \*{0,2}[\w.]+)*)(?: \(([^)]*)\))?: (?=\S)")
_LITERAL = re.compile(r"(``.+?``|:\w+(?::\w+)?:`[^`]+`|\*\*[\w\\]+\*\*|\*\w+\*)", re.DOTALL)
_COLUMNS = re.compile(r"(\S.*?) {2,}(\S.*)$")
_MARKS = re.compile(r"(?<!^)\*|^\*(?! )|[|`]", re.MULTILINE)
_BEFORE, _AFTER = "-:/'\"<([{", "-.,:;!?/'\")]}>\\"
_UNDERSCORE = re.compile(r"(?<=\w)_(?!\w)")


def rewritten(lines: list[str]) -> list[str]:
    """A docstring's lines as reStructuredText.

    >>> rewritten(["Short.", "", "Parameters", "----------", "x, y: shape (n, d);", "    rows are items."])[2:]
    [':Parameters:', '    - **x**, **y** – shape (n, d);', '      rows are items.', '']
    """
    parts: list[tuple[str, list[str]]] = [("", [])]
    for place, line in enumerate(lines):
        if place + 1 < len(lines) and _SECTION.match(lines[place + 1].strip()) and line.strip():
            parts.append((line.strip(), []))
        elif not (_SECTION.match(line.strip()) and place and parts[-1][1] == []):
            parts[-1][1].append(line)
    made: list[str] = []
    for title, text in parts:
        text, example = _before_example(text) if title else (text, [])
        made += _section(title, text) if title else _escaped(text)
        made += [".. rubric:: Example", "", *example, ""] if example else []
    return made


def _before_example(text: list[str]) -> tuple[list[str], list[str]]:
    """What stands before the first line that begins with ``>>>``, and the rest."""
    start = next((place for place, line in enumerate(text) if line.startswith(">>>")), len(text))
    return text[:start], text[start:]


def _section(title: str, text: list[str]) -> list[str]:
    if title not in _ENTRIES:
        return [f".. rubric:: {title}", "", *_escaped(text), ""]
    made = [f":{title}:"]
    for entry in _entries(text):
        first, *rest = entry
        found = _ENTRY.match(first)
        if found:
            names = ", ".join(_name(name, title) for name in found[1].split(", "))
            kind = f" ({found[2]})" if found[2] else ""
            first = f"{names}{kind} – {first[found.end() :]}"
        rest = textwrap.dedent("\n".join(rest)).split("\n") if rest else []
        made += [
            f"    - {line}" if place == 0 else f"      {line}".rstrip()
            for place, line in enumerate(_escaped([first, *rest]))
        ]
    return [*made, ""]


def _entries(text: list[str]) -> list[list[str]]:
    """Lines of a section, cut before each entry: a line that is not indented and has a name, or is
    the first."""
    entries: list[list[str]] = []
    for line in text:
        if line and not line[0].isspace() and (not entries or _ENTRY.match(line)):
            entries.append([line])
        elif entries:
            entries[-1].append(line)
    for entry in entries:
        while not entry[-1].strip():
            entry.pop()
    return entries


def _name(name: str, title: str) -> str:
    if title in ("Raises", "Warns"):
        return f":py:exc:`~{_EXCEPTIONS[name]}`" if name in _EXCEPTIONS else f"``{name}``"
    return "**" + name.replace("*", r"\*").replace("_", r"\_") + "**"


def _escaped(lines: list[str]) -> list[str]:
    """Plain text as reStructuredText: examples stay, indented tables become lists, and what would
    be markup is text."""
    made: list[str] = []
    for block in _blocks(lines):
        indent = min((len(line) - len(line.lstrip()) for line in block if line.strip()), default=0)
        if block[0].startswith(">>>"):
            made += block
        elif indent >= 2 and (indent >= 4 or any(_COLUMNS.match(line.strip()) for line in block)):
            made += ["", *_tabular([line[indent:] for line in block]), ""]
        else:
            made += _plain("\n".join(block)).split("\n")
    return made


def _blocks(lines: list[str]) -> list[list[str]]:
    """Lines cut into paragraphs and the blank lines between them; indented paragraphs that follow
    one another are one."""
    blocks: list[list[str]] = []
    for line in lines:
        if blocks and bool(line.strip()) == bool(blocks[-1][-1].strip()):
            blocks[-1].append(line)
        elif line.startswith("    ") and len(blocks) > 1 and blocks[-2][-1].startswith("    "):
            blank = blocks.pop()
            blocks[-1] += [*blank, line]
        else:
            blocks.append([line])
    return blocks


def _tabular(lines: list[str]) -> list[str]:
    """A table of names and what they are, set with spaces, as a list; anything else that is
    indented, as it stands."""
    if not any(_COLUMNS.match(line) for line in lines):
        return ["::", "", *(f"    {line}" for line in lines)]
    made = []
    for line in lines:
        found = _COLUMNS.match(line)
        if found:
            made.append(f"- ``{found[1].replace('``', '')}`` – {_plain(found[2])}")
        elif line.startswith("  "):
            made.append(f"  {_plain(line.strip())}")
        else:
            made += ["", f"{_plain(line)}", ""]
    return made


def _plain(text: str) -> str:
    """Text in which only literals and roles are markup; a trailing underscore, as in ``rotation_``,
    makes no link."""
    parts = _LITERAL.split(text)
    for place in range(0, len(parts), 2):
        part = _UNDERSCORE.sub(r"\\_", _MARKS.sub(r"\\\g<0>", parts[place]))
        before = r"\ " if place and part and not part[0].isspace() and part[0] not in _AFTER else ""
        after = (
            r"\ "
            if place + 1 < len(parts)
            and part
            and not part[-1].isspace()
            and part[-1] not in _BEFORE
            else ""
        )
        parts[place] = before + part + after
    return "".join(parts)


def _signature(obj: Any) -> tuple[str, str] | None:
    """Arguments and result as they are written, which is how people read ``ArrayLike`` and
    ``Float[np.ndarray, "n d"]``."""
    if (
        dataclasses.is_dataclass(obj)
        and isinstance(obj, type)
        and "__init__" not in (_parsed(obj) or {})
    ):
        return _fields(obj), ""
    node: Any = (_parsed(obj) or {}).get("__init__") if isinstance(obj, type) else _node(obj)
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    arguments = node.args
    both = arguments.posonlyargs or arguments.args
    if both and both[0].arg in ("self", "cls"):
        both.pop(0)
    given = node.returns if node.name != "__init__" else None
    quoted = isinstance(given, ast.Constant) and isinstance(given.value, str)
    return f"({ast.unparse(arguments)})", "" if given is None else str(
        given.value
    ) if quoted else ast.unparse(given)  # type: ignore[attr-defined]


def _node(obj: Any) -> ast.stmt | None:
    """The statement that defines a class or function; None where there is no source of it."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(obj))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        return None


def _parsed(cls: type) -> dict[str, ast.stmt] | None:
    """Name -> statement of what a class's body defines or annotates."""
    node = _node(cls)
    if not isinstance(node, ast.ClassDef):
        return None
    names = ((part.target if isinstance(part, ast.AnnAssign) else part, part) for part in node.body)
    return {getattr(name, "id", None) or getattr(name, "name", ""): part for name, part in names}


def _fields(cls: type) -> str:
    """The arguments of a data class, each as the class that declares it writes it."""
    bodies = [_parsed(base) or {} for base in cls.__mro__ if dataclasses.is_dataclass(base)]
    told, keyword = [], False
    for field in dataclasses.fields(cls):
        node = next((body[field.name] for body in bodies if field.name in body), None)
        if not field.init or not isinstance(node, ast.AnnAssign):
            continue
        if field.kw_only and not keyword:
            keyword = True
            told.append("*")
        told.append(f"{field.name}: {ast.unparse(node.annotation)}{_default(node.value)}")
    return f"({', '.join(told)})"


def _default(value: ast.expr | None) -> str:
    if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("field"):
        given = {word.arg: word.value for word in value.keywords}
        value = given.get("default") or (
            ast.Call(given["default_factory"], [], []) if "default_factory" in given else None
        )
    return "" if value is None else f" = {ast.unparse(value)}"


def _process_signature(
    app: Sphinx,
    what: str,
    name: str,
    obj: Any,
    options: Any,
    signature: str | None,
    result: str | None,
) -> tuple[str, str] | None:
    return _signature(obj) if what in ("class", "exception", "function", "method") else None


def _process_docstring(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    lines[:] = rewritten(lines)


def _skip_member(
    app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """What is inherited from other libraries is described by them."""
    owner = getattr(obj, "fget", None) or getattr(obj, "func", None) or obj
    return None if str(getattr(owner, "__module__", "crosslens")).startswith("crosslens") else True


def _name_targets(app: Sphinx, doctree: nodes.document) -> None:
    """Names in a signature are those of its module, where another module has a class of that name,
    too."""
    for signature in doctree.findall(desc_signature):
        for link in list(signature.findall(pending_xref)):
            if target := home(_found(str(signature.get("module")), str(link["reftarget"]))):
                link["reftarget"] = target
            else:
                link.replace_self(link.children)


def _found(module: str, name: str) -> Any:
    """What a dotted name stands for in a module; None where it stands for nothing."""
    value: Any = sys.modules.get(module)
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def _resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element
) -> nodes.Element | None:
    """A name is looked up as Python does it, in the module that mentions it; then among all public
    names.

    What instances alone have (``rotation_``, say) is described with its class; what other libraries
    have is not linked.
    """
    module, target, page = str(node.get("py:module")), str(node["reftarget"]), str(node["refdoc"])
    owner = target.rpartition(".")[0] or str(node.get("py:class"))
    for where in (
        home(_found(module, target)),
        _exported().get(target),
        home(_found(module, owner)),
        _exported().get(owner),
    ):
        if made := _linked(app, page, where, content):
            return made
    other = target.partition(".")[0]
    return (
        nodes.inline("", "", content)
        if other != "crosslens" and other != target and other in sys.modules
        else None
    )


def _linked(
    app: Sphinx, page: str, target: str | None, content: nodes.Element
) -> nodes.Element | None:
    domain = app.env.domains.python_domain
    entry = domain.objects.get(target or "")
    if entry is None:
        return None
    made = nodes.reference("", "", content, internal=True, reftitle=target)
    made["refuri"] = app.builder.get_relative_uri(page, entry.docname) + f"#{entry.node_id}"
    return made


@functools.cache
def _exported() -> dict[str, str]:
    """Public names -> where they are written: in full; and alone, where one thing has the name or a
    package passes it on."""
    found, alone, passed = {}, collections.defaultdict(set), {}
    for name in modules():
        module = importlib.import_module(name)
        found[name] = name
        for key in getattr(module, "__all__", []):
            where = home(getattr(module, key)) or f"{name}.{key}"
            found[f"{name}.{key}"] = where
            alone[key].add(where)
            if hasattr(module, "__path__"):
                passed[key] = where
    return found | {key: where.pop() for key, where in alone.items() if len(where) == 1} | passed


def _link_literals(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Names in the guides' code type are linked with the reference, so that the guides need no
    markup of their own."""
    if page.startswith("reference/"):
        return
    for literal in list(doctree.findall(nodes.literal)):
        target = _exported().get(re.sub(r"^cl\.", "crosslens.", literal.astext().partition("(")[0]))
        if target is None or isinstance(literal.parent, nodes.reference):
            continue
        made = _linked(app, page, target, literal.deepcopy())
        if made is not None:
            literal.replace_self(made)


def setup(app: Sphinx) -> dict[str, Any]:
    """Join Sphinx."""
    app.connect("autodoc-process-signature", _process_signature)
    app.connect("autodoc-process-docstring", _process_docstring)
    app.connect("autodoc-skip-member", _skip_member)
    app.connect("doctree-read", _name_targets)
    app.connect("missing-reference", _resolve)
    app.connect("doctree-resolved", _link_literals)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

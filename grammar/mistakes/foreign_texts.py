"""Foreign texts: what others write that is no lexeme here, by regular expressions.

Patterns between slashes, comments, times and numbers with signs in them, queries of Prometheus, and
placeholders. Helm, Go, shells, Terraform and Jinja fill in `{{ .Values.zone }}`, `${ZONE}`,
`$(POOL)` and `<% x %>` before anybody reads the text. Here nobody does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from grammar.messages import catalogue, habits
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.mistakes.misplaced import Misplaced, with_edit
from grammar.mistakes.rewrites import WrittenPart
from grammar.tree.source import Span

_PLACEHOLDER = re.compile(
    r"\{\{-?\s*(?P<braces>[^{}\n]*?)\s*-?\}\}|\$\{(?P<shell>[^{}\n]*)\}|\$\((?P<make>\w+)\)"
    r"|\$(?P<plain>[A-Za-z_]\w*)|<%[=-]?(?P<page>[^%\n]*)%>|\{%-?(?P<block>[^%{}\n]*)%\}"
)
_OWN = frozenset({"pod", "node", "now", "peer", "namespaceObject", "data"})
_CONTROL = frozenset(
    "if else end range with define include template block endif for endfor".split()
)
_PATH = re.compile(r"\.?[A-Za-z_][\w.]*")


@dataclass(frozen=True, slots=True)
class ForeignText:
    """A foreign text by a regular expression; only what is in its group `cut` is replaced."""

    wrong: str
    instead: str
    hint: str = ""
    amount: bool = False


_READ = r"(?P<a>[a-z]\w*(?:\.\w+|\[[^\]\n]*\])*)"
_SLASHED = r"/(?P<e>(?:\\.|[^/\n\\])+)/[gu]*(?![a-z])"
_IS_COMMENT = "write a comment behind `#` or `//`, up to the end of the line"
TEXTS = (
    ForeignText(
        rf"{_READ}\s*(?P<n>!?)(?:[=~]+|like|matches|regexp)\s*{_SLASHED}",
        "{n}{a}.matches({e:text})",
    ),
    ForeignText(rf"{_SLASHED}\.(?:test|match|exec)\({_READ}\)", "{a}.matches({e:text})"),
    ForeignText(rf"(?<=[(,]){_SLASHED}", "{e:text}"),
    ForeignText(rf"{_READ}\s*//\s*(?P<o>\"[^\"\n]*\")", "{a:optional}.orValue({o})"),
    ForeignText(r"[\w)\]]\s*(?P<cut>//)\s*[\d(a-z]", "/", "write `/`: `//` begins a comment"),
    ForeignText(r"\d+(?:_\d+)+", "{all:digits_alone}"),
    ForeignText(r"\d+[smhd](?:\d+[smhd])+", '"{all}"', amount=True),
    ForeignText(r"(?<![\w.\"'])[A-Za-z]+(?:-[A-Za-z]+)*-\d\w*", '"{all}"'),
    ForeignText(r"(?P<cut>\?\.)\w+\.(?:orValue|value|hasValue)\b", ".?"),
    ForeignText(r"[a-z]\w*(?:[.?]+\w+|\?*\.?\[[^\]\n]*\])+", "{all:unmarked}"),
    ForeignText(r"/\*[\s\S]*?\*/", "", _IS_COMMENT),
    ForeignText(r"\{\{-?\s*\.?(?P<a>(?:node|pod)\b[^{}\n]*?)\s*-?\}\}", "{a}"),
    ForeignText(r"---+|```+\w*", "", "leave it out: policies and tests stand one behind another"),
)
_QUERY = re.compile(
    r"\b(?:avg|sum|max|min|count|topk|bottomk|quantile|stddev)\s*(?:by|without)\s*\("
    r"|(?<=[\w)}])\[\d+[smhd](?::\d*[smhd]?)?\]"
    r"|(?<![\w.\"])[a-z]\w*\{\s*[a-z]\w*\s*(?:=~?|!=|!~)\s*\""
    r"|(?<![\w.\"])(?:kube|node|container|machine|kubelet|DCGM_FI)_\w+\s*(?:[{\[(<>]|==)"
)


def of_texts(place: Misplaced) -> Iterator[Diagnostic]:
    """What the regular expressions find around the place where the parser stopped."""
    text, stop = place.source.text, place.item.start or len(place.source.text)
    start = text.rfind("\n", 0, stop) + 1
    yield from _of_others(place, text[start:].partition("\n")[0], start)
    start = text.rfind("\n", 0, max(0, text.rfind("{", 0, place.previous.end))) + 1
    for row in TEXTS:
        for found in re.compile(row.wrong).finditer(text, start):
            if found.start() > stop:
                break
            cut = "cut" if "cut" in found.groupdict() else 0
            span = Span(*found.span(cut))
            parts = {name: WrittenPart(part) for name, part in found.groupdict("").items()}
            try:
                made = row.instead.format_map(parts | {"all": WrittenPart(found[0])})
            except ValueError:
                continue
            wrong = catalogue.unexpected(found[cut], (), span)
            if row.amount:
                wrong = catalogue.bare_amount(found[cut], span)
            yield with_edit(wrong, Fix(span, made), row.hint)


def _of_others(place: Misplaced, line: str, start: int) -> Iterator[Diagnostic]:
    """A query of Prometheus, or a placeholder of another program, in the line of the error."""
    at = place.item.start
    query = None if re.match(r"\s*(?:limit|spread|share)\b", line) else _QUERY.search(line)
    if query is not None and place.item.kind != "end":
        said = query[0].rstrip(" {[(<>=") or query[0]
        begin = start + query.start()
        wrong = catalogue.unexpected(said, (), Span(begin, begin + len(said)))
        yield replace(wrong, hint=habits.OF_PROMETHEUS)
    for found in _PLACEHOLDER.finditer(line):
        first = start + found.start()
        inner = next(filter(None, found.groups()), "")
        root = _PATH.match(inner.strip())
        is_own = root is not None and root[0].strip(".").partition(".")[0] in _OWN
        if not is_own and first <= at < start + found.end():
            before = place.lexemes[place.lexemes.at(first) - 1].text
            kind = "int" if before in ("weight", "most", "least", "exactly") else "string"
            span = Span(first, start + found.end())
            yield catalogue.placeholder(found[0], span, _hint_of(inner, kind))


def _hint_of(inner: str, kind: str = "string") -> str:
    """The hint at a placeholder, by its contents."""
    if inner.startswith("/*"):
        return "leave it out: a comment stands behind `#`"
    words = _PATH.findall(inner.partition(":-")[0])
    paths = [w for w in words if "." in w] or [w for w in words if w not in _CONTROL]
    if not paths:
        return "fill it in before: nothing here reads templates"
    path = re.sub(
        r"^(?:request\.object|object|input)\.(?:metadata\.(?=labels|annotations|name))?",
        "pod.",
        paths[0].lstrip("."),
    )
    if path.partition(".")[0] in _OWN:
        return f"write `{path}`, without quotes or braces around it"
    name = path.rpartition(".")[2].lower()
    default = "…" if kind == "int" else '"…"'
    return (
        "fill it in before, or declare a parameter behind the name of the policy,"
        f" `({name}: {kind} = {default})`, and write `{name}`"
    )

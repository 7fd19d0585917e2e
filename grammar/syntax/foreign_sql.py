"""Foreign SQL: queries over nodes, `CASE` and counted rows, as clauses of this language.

`grammar.syntax.foreign_clauses` asks here with the words of an item, and with its body.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator


def _cases(text: str) -> Iterator[str]:
    """`CASE WHEN a THEN b ELSE c END` of SQL."""
    found = re.search(r"(?i)\bcase\s+(.*?)\bwhen\s+(.+?)\s+else\s+(.+?)\s+end\b", text)
    if found is None:
        return
    subject, made = found[1].strip(), ""
    for branch in re.split(r"(?i)\s+when\s+", found[2]):
        test, then, value = (
            re.split(r"(?i)(\bthen\b)", branch, maxsplit=1) if " " in branch else ("",) * 3
        )
        if not then:
            return
        made += f"{subject} == {test.strip()} ? " if subject else f"{test.strip()} ? "
        made += f"{value.strip()} : "
    head = text[: found.start()]
    if head.rstrip().endswith("{"):
        head = f"{head}{'value' if text.startswith('score') else 'require'} "
    made = re.sub(r"(?<![=!<>])=(?!=)", "==", made)
    yield f"{head}{made}{found[3]}{text[found.end() :]}"


# The columns that a table of nodes or pods is thought to have.
_COLUMNS = {
    "node": frozenset({"zone", "region", "name", "ready", "age"}),
    "peer": frozenset({"namespace", "name", "priority", "age", "phase", "uid"}),
}
_TABLES = {"nodes": "node", "node": "node", "pods": "peer", "pod": "peer", "peers": "peer"}
_AMOUNT = re.compile(r"(?<![\w.\"])(free|available|allocatable|requested)_?(cpu|memory|mem)\b")
_COLUMN = re.compile(
    r"(?<![\w.\"])(?:[a-z]\.)?(?P<labels>labels?\.)?(?P<name>[A-Za-z_]\w*)"
    r"(?=\s*(?:[=!<>]|(?:not\s+)?(?:in|like|is)\b|\)|\Z|&&|\|\|))(?!\s*\()"
)
_WORDS = frozenset({"and", "or", "not", "in", "like", "is", "null", "true", "false"})


def _condition(text: str, owner: str) -> str:
    """What stands behind `where`, as a condition on the nodes or on the counted pods."""
    made = re.sub(r"'([^']*)'", r'"\1"', text.strip())
    made = re.sub(r"\b[a-z]\.(?=labels\[)", f"{owner}.", made)
    made = re.sub(r"(?i)\bis\s+not\s+null\b", "!= null", made)
    made = re.sub(r"(?i)\bis\s+null\b", "== null", made)
    made = re.sub(r"(?i)\band\b", "&&", made)
    made = re.sub(r"(?i)\bor\b", "||", made)
    made = re.sub(r"(?i)\bnot\s+(?!in\b|like\b)", "!", made).replace("<>", "!=")
    made = re.sub(r"(?<![=!<>])=(?!=)", "==", made)
    made = re.sub(r"(?i)\bin\s*\(([^()]*)\)", r"in [\1]", made)
    made = _AMOUNT.sub(_amount, made)

    def column(found: re.Match[str]) -> str:
        name = found["name"]
        if name.lower() in _WORDS or (name in ("node", "pod", "peer") and not found["labels"]):
            return found[0]
        if name.lower() in _COLUMNS[owner] and not found["labels"]:
            return f"{owner}.{name.lower()}"
        return f'{owner}.labels["{name}"]'

    return _COLUMN.sub(column, made)


def _amount(found: re.Match[str]) -> str:
    held = "free" if found[1] == "available" else found[1]
    return f'node.{held}["{"memory" if found[2] == "mem" else found[2]}"]'


_QUERY = (
    r"\(?\s*select\s+(?P<what>[^()]*?(?:\([^()]*\))?)\s+from\s+(?:node\.)?(?P<table>\w+)"
    r"(?:\s+(?:as\s+)?(?!where\b|group\b)\w+)?"
)
_GROUPED = r"(?:\s+group\s+by\s+(?P<by>\w+)\s+having\s+count\(\s*\*?\s*\))?"
_COUNTED = re.compile(
    rf"(?i)\A{_QUERY}(?:\s+where\s+(?P<where>.+?))?{_GROUPED}\s*\)?\s*(?P<sign><=|<|==?|>=|>)\s*(?P<number>\d+)\s*\Z"
)
_EXISTS = re.compile(rf"(?i)\A(?P<no>not\s+)?exists\s*{_QUERY}\s+where\s+(?P<where>.+?)\s*\)?\s*\Z")
_WITHIN = re.compile(
    rf"(?i)\A[\w.]+\s+(?P<no>not\s+)?in\s*{_QUERY}\s+where\s+(?P<where>.+?)\s*\)\s*\Z"
)
_BOUNDS = {"<=": ("at most", 0), "<": ("at most", -1), ">=": ("at least", 0), ">": ("at least", 1)}


def _subqueries(body: str) -> Iterator[str]:
    """`node.name in (select …)`, `exists (select …)` and `(select count(*) …) < 3`."""
    found = _COUNTED.match(body) or _EXISTS.match(body) or _WITHIN.match(body)
    owner = _TABLES.get(found["table"].lower()) if found is not None else None
    if found is None or owner is None:
        return
    where = _condition(found["where"], owner) if found["where"] else "true"
    if found.re is _COUNTED and owner == "peer":
        kind, more = _BOUNDS.get(found["sign"], ("", 0))
        counted = "" if where == "true" else f"pods where {where} "
        per = "domain node.zone" if (found["by"] or "").lower() == "zone" else "node"
        if kind:
            bound = f"{kind} {int(found['number']) + more} strict"
            yield f'limit "pods" {{ {counted}per {per} {bound} }}'
    elif found.re in (_EXISTS, _WITHIN) and owner == "peer":
        bound = "at most 0" if found["no"] else "at least 1"
        yield f'limit "pods" {{ pods where {where} per node {bound} strict }}'
    elif owner == "node" and found.re is not _COUNTED:
        yield f'filter "nodes" {{ require {f"!({where})" if found["no"] else where} }}'


def _select(body: str) -> Iterator[str]:
    """`SELECT … FROM nodes WHERE … ORDER BY …` of SQL."""
    if not re.match(
        r"(?i)(?:select\b.*?\bfrom\s+nodes?\b|where\b|(?:order|sort) by (?!node\.))", body
    ):
        return
    found = re.search(r"(?i)\bwhere\s+(.+?)(?:\s+(?:order|limit|group)\b.*)?\Z", body)
    order = re.search(r"(?i)\b(?:order|sort)\s+by\s+([\w.]+)(?:\s+(asc|desc)\w*)?\s*(,?)", body)
    made = []
    if found is not None:
        made.append(f'filter "nodes" {{ require {_condition(found[1], "node")} }}')
    if order is not None and not order[3]:
        read = re.sub(r"(?i)\A(?=(?:cpu|mem|memory)\Z)", "free_", order[1]).lower()
        read = re.sub(r"\A(cpu|memory)_?usage\Z", r'node.usage["\1"]', _AMOUNT.sub(_amount, read))
        read = re.sub(r"\A(zone|region|name|age)\Z", r"node.\1", read)
        sign = "" if (order[2] or "asc").lower() == "desc" else "-"
        made.append(f'score "order" weight {sign}10 {{ value {read} range minmax }}')
    if made:
        yield " ".join(made)


def _counted_rows(text: str) -> Iterator[str]:
    """`(SELECT COUNT(*) FROM node.pods WHERE a) < 10` of SQL."""
    found = re.search(r"(?i)\(?select count\( ?\* ?\) from ([\w.]+)(?: where ([^()]+))?\)?", text)
    if found is not None and "." in found[1]:
        items = f"{found[1]}.filter(x, x.{found[2].strip()})" if found[2] else found[1]
        yield f"{text[: found.start()]}size({items}){text[found.end() :]}"


OF_ITEMS: tuple[Callable[[str], Iterator[str]], ...] = (_cases, _counted_rows)
OF_BODIES: tuple[Callable[[str], Iterator[str]], ...] = (_subqueries, _select)

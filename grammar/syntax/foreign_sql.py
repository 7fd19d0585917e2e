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


_FREE_OF_SQL = r"(?<![\w.\"])(?:free|available)_?(cpu|memory|mem)\b"


def _free_of_sql(found: re.Match[str]) -> str:
    return f'node.free["{"memory" if found[1] == "mem" else found[1]}"]'


def _select(body: str) -> Iterator[str]:
    """`SELECT … FROM nodes WHERE …` of SQL."""
    found = re.match(r"(?i)select\b.*?\bwhere\s+(.+?)(?:\s+(?:order|limit|group)\b.*)?\Z", body)
    if found is not None:
        condition = re.sub(r"'([^']*)'", r'"\1"', found[1])
        condition = re.sub(r"(?i)\band\b", "&&", condition)
        condition = re.sub(r"(?i)\bor\b", "||", condition)
        condition = re.sub(r"(?<![=!<>])=(?!=)", "==", condition)
        condition = re.sub(r"(?<![\w.\"])(zone|region|name|ready|age)\b", r"node.\1", condition)
        condition = re.sub(_FREE_OF_SQL, _free_of_sql, condition)
        made = f'filter "nodes" {{ require {condition} }}'
        order = re.search(r"(?i)\border\s+by\s+([\w.]+)(?:\s+(asc|desc))?", body)
        if order is not None:
            read = re.sub(_FREE_OF_SQL, _free_of_sql, order[1])
            read = re.sub(r"\A(zone|region|name|age)\Z", r"node.\1", read)
            sign = "" if (order[2] or "asc").lower() == "desc" else "-"
            made += f' score "order" weight {sign}10 {{ value {read} range minmax }}'
        yield made


def _counted_rows(text: str) -> Iterator[str]:
    """`(SELECT COUNT(*) FROM node.pods WHERE a) < 10` of SQL."""
    found = re.search(r"(?i)\(?select count\( ?\* ?\) from ([\w.]+)(?: where ([^()]+))?\)?", text)
    if found is not None:
        items = f"{found[1]}.filter(x, x.{found[2].strip()})" if found[2] else found[1]
        yield f"{text[: found.start()]}size({items}){text[found.end() :]}"


OF_ITEMS: tuple[Callable[[str], Iterator[str]], ...] = (_cases, _counted_rows)
OF_BODIES: tuple[Callable[[str], Iterator[str]], ...] = (_select,)

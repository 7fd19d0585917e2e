"""Rewrite rows: habits that cannot be parsed, and the right text for each.

`rewrites.txt` has the rows by the order in which they are asked; here are those that the table of
habits makes. The first row that leads the parser further is the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files

from grammar.clauses import CLAUSE_WORDS, CLAUSES_ARE
from grammar.messages import habits, plain_words
from grammar.mistakes.rewrites import Rewrite

R = Rewrite
_CLAUSES_ARE = f"; {CLAUSES_ARE}"


def _operator(word: str, here: str) -> Rewrite:
    """The row of an operator of another language."""
    sign = here.replace("{0} ", "").replace(" {1}", "")
    wrong = re.sub(r"([|<>^$(){}~])", r"\\\1", word) if len(word) < 3 else word
    if sign in ("&&", "||", "==", "!="):
        is_certain = sign in ("&&", "||") or word in ("=", "===", "!==", "<>")
        return R(f"{{a}} < ^{wrong} > {{b}}", sign, certain=is_certain)
    form = ":list" if "in {1}" in here else ":quoted" if "({1})" in here or "{1} in" in here else ""
    return R(f"{{a}} ^{wrong} {{b}}", here.replace("{0}", "{a}").replace("{1}", f"{{b{form}}}"))


def _of_clause(row: habits.Habit) -> Iterator[Rewrite]:
    """The rows of a word for a clause, before a name or a part of the clause, and elsewhere."""
    words, hint = "|".join(row.words), f"write `{row.here}`{_CLAUSES_ARE}"
    is_clause = row.here in CLAUSE_WORDS
    for behind in (" {s:string}", " { {k:part}", " {k:part}") if is_clause else ("",):
        yield R(f"< ^{words} >{behind}", row.here, hint)
    yield R(f"^{words}", "", hint, edits=False)


def _of_part(row: habits.Habit) -> Iterator[Rewrite]:
    """The rows of a word for a part of a clause, by the text behind the word."""
    here, words = row.here, f"^{'|'.join(row.words)} (:|=)"
    part = here.split()[0]
    terminal = part.upper()
    if here.endswith(" where"):
        yield R(f"< {words} > where", here.removesuffix(" where"), needs=terminal)
    if here == "over":
        for key in ("{s:string} >", "{s:zone} > $"):
            yield R(f"< {words} {key}", "over {s:domain}", needs="OVER")
            yield R(f"< {words} {key}", "per {s:per}", needs="PER")
    if here in ("skew at most", "min domains"):
        yield R(f"< {words} {{n:number}} >", f"{here} {{n}}", needs=terminal)
    if here == "pods where":
        yield R(f"< {words} >", "of pods where", needs="OF BY")
    if here == "require !":
        yield R(f"< {words} (if|when|that) {{e:expr}} >", "require {e:denied}", needs=terminal)
        return
    if here in ("require", "value", "message", "detail"):
        yield R(f"< {words} (that) {{e:expr}} >", f"{here} {{e}}", needs=terminal)
    if here in ("strict", "best effort weight 10"):
        yield R(f"< {words} true|yes >", here, needs=terminal)
    yield R(f"< {words} >", here, needs=terminal)


def _of_results() -> Iterator[Rewrite]:
    """The rows of what a test expects."""
    for row in habits.CHOICES["result"]:
        words = "|".join(row.words)
        yield R(f"< ^{words} > {{s:string}} by", row.here, needs="REJECT")
        if row.here in ("pass", "bound"):
            yield R(f"< ^{words} > {{s:string}}", row.here, needs="REJECT")
        else:
            hint = "write `{made}`, with the name of the clause"
            made = f"{row.here} {{s}} by {{clause}}"
            yield R(f"< ^{words} {{s:string}} >", made, hint, needs="REJECT")


# The rows that the table of habits makes.
_MADE: Mapping[str, Callable[[], Iterable[Rewrite]]] = {
    "@fractions": lambda: (
        R(f"most|least|exactly < (one|a) {said} >", part)
        for said, part in plain_words.FRACTIONS.items()
        if " " not in said
    ),
    "@bounds": lambda: (
        R(f"< ^{'|'.join(row.words)} (:|=) {{n:amount}} >", f"{row.here} {{n}}", needs="EXACTLY")
        for row in habits.PARTS
        if row.here in ("at most", "at least", "exactly")
    ),
    "@operators": lambda: (
        _operator(word, row.here) for row in habits.OPERATORS for word in row.words
    ),
    "@results": _of_results,
    "@parts": lambda: (row for each in habits.PARTS for row in _of_part(each)),
    "@clauses": lambda: (row for each in habits.CLAUSES[1:] for row in _of_clause(each)),
}
_DENIED, _FILTER, _PREFERRED = (row.words for row in habits.CLAUSES[:3])
# Words of the table that a row of the text names.
_WORDS = {
    "@deny": _DENIED,
    "@filter": _FILTER,
    "@preferring": [word for word in _PREFERRED if word not in ("order", "priority")],
    "@required": ["require", *habits.PARTS[0].words, *habits.PARTS[1].words],
    "@are": [_CLAUSES_ARE],
}


def _read(line: str) -> Rewrite:
    """The row that a line of the text is."""
    for name, words in _WORDS.items():
        line = line.replace(name, "|".join(words))
    parts = [part.replace("·", " ") for part in f"{line} |  |  | ".split(" | ")]
    wrong, instead, hint, options, lacks = [*parts, ""][:5]
    named = dict(option.partition(":")[::2] for option in options.split())
    return Rewrite(
        wrong,
        instead,
        hint,
        needs=named.get("needs", "").replace(",", " "),
        only=named.get("only", "").replace(",", " "),
        certain="certain" in named,
        amount="amount" in named,
        lacks=lacks,
        edits="told" not in named,
    )


def _sections() -> Iterator[tuple[str, tuple[Rewrite, ...]]]:
    text = files("grammar.mistakes").joinpath("rewrites.txt").read_text("utf-8")
    _, *parts = re.split(r"(?m)^\[(\w+)\]$", text)
    for name, lines in zip(parts[::2], parts[1::2], strict=True):
        made = (_MADE[row]() if row in _MADE else (_read(row),) for row in lines.split("\n") if row)
        yield name, tuple(row for rows in made for row in rows)


ROWS: Mapping[str, tuple[Rewrite, ...]] = dict(_sections())

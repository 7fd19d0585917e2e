"""Waiting remedies: what an unexpected word of a gang, of a wait, or of a length of time means.

A part of the syntax remedies. The words are those of coscheduling, Volcano and Kueue, and of the
other clauses.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from grammar.messages import catalogue, habits, plain_words
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.syntax.unexpected import PARTS, STOPS, Misplaced, one_line, with_edit
from grammar.tree.clause_parts import LONGEST_WAIT, SHORTEST_WAIT
from grammar.tree.printer import print_length, print_string
from grammar.tree.source import Span

_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_UNITS = {
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("ms", "milliseconds"), 0.001),
}
_USUAL = "1m"
_KEY = 'peer.labels["job"]'


class WaitingRemedies(Misplaced):
    """Looks at an error in a gang or at a length of time; each method is one idea."""

    @property
    def ideas(self) -> tuple[Callable[[], Diagnostic | None], ...]:
        """In the order in which they are asked."""
        return (self._length, self._hold, self._no_hold, self._members, self._quorum, self._part)

    def _length(self) -> Diagnostic | None:
        """`for at most "60s"`, `for at most 60`, `for at most 2 minutes`."""
        if self.accepted != {"LENGTH"} or self.item.kind not in ("string", "number", "word"):
            return None
        last, seconds = self._seconds(self.at)
        span = self.lexemes.span(self.at, last)
        return catalogue.no_length(self.lexemes.slice(self.at, last), span, seconds)

    def _seconds(self, at: int) -> tuple[int, float | None]:
        """The last lexeme of a length of time, and its seconds if it is clear how many."""
        lexemes, last = self.lexemes, at
        if lexemes[at].text == "duration" and lexemes[at + 1].text == "(":
            last = lexemes.partner.get(at + 1, at + 1)
            text = lexemes.slice(at + 2, last - 1)
        else:
            is_unit = lexemes[at + 1].text in _UNITS or lexemes.touches(at + 1)
            if lexemes[at].kind == "number" and lexemes[at + 1].kind == "word" and is_unit:
                last = at + 1
            text = lexemes.slice(at, last)
        parts, rest = _LENGTH.findall(text), _LENGTH.sub("", text).strip("\"' ")
        if not parts or rest or any(unit not in _UNITS for _, unit in parts):
            return last, None
        return last, sum(float(number) * _UNITS[unit] for number, unit in parts)

    def _made(self, at: int) -> tuple[int, str]:
        """The last lexeme of a length of time, and how it is written here."""
        last, seconds = self._seconds(at)
        if seconds is None:
            return at - 1, _USUAL
        return last, print_length(min(max(seconds, SHORTEST_WAIT), LONGEST_WAIT))

    def _hold(self) -> Diagnostic | None:
        """`for 2m`, `for at least 2m`, `timeout 60s`, `scheduleTimeoutSeconds 60`."""
        lexemes, at, accepted = self.lexemes, self.at, self.accepted
        if self.previous.text == "for" and accepted == {"AT"} and self.item.kind != "word":
            last, made = self._made(at)
            edit = Fix(lexemes.span(at, last), f"at most {made}")
            return with_edit(self.unexpected(at, last), edit)
        is_hold = lexemes[at - 2].text == "for" and self.previous.text == "at"
        if is_hold and accepted == {"MOST"} and self.item.kind == "word":
            return with_edit(self.unexpected(at, at), Fix(lexemes.span(at, at), "most"))
        is_upper = self.item.text in ("up", "within", "under")
        is_upper = is_upper or self._means("for at most")
        if "FOR" not in accepted or accepted & {"LET", "ON"} or not is_upper:
            return None
        first = at + 2 if lexemes[at + 1].text in (":", "=", "to") else at + 1
        last, made = self._made(first)
        edit = Fix(lexemes.span(at, max(at, last)), f"for at most {made}")
        return with_edit(self.unexpected(at, at), edit)

    def _no_hold(self) -> Diagnostic | None:
        """`wait until …` without a time, and in a filter."""
        accepted = self.accepted
        if self.item.text == "wait" and "REQUIRE" in accepted and "WAIT" not in accepted:
            hint = "write it in a `bind` clause: only a binding waits"
            return replace(self.unexpected(self.at, self.at), hint=hint)
        if "FOR" not in accepted or accepted & {"RBRACE", "LET"}:
            return None
        if self.item.text not in PARTS | {"}"}:
            return None
        start, made = self.previous.end, f"for at most {_USUAL}"
        edit = Fix(Span(start, start), f" {made}")
        hint = f"write `{made}` behind the condition"
        return with_edit(self.unexpected(self.at, self.at), edit, hint)

    def _members(self) -> Diagnostic | None:
        """`of pods where peer.labels["job"] == pod.labels["job"]`, `by peer.labels["job"]`."""
        lexemes, at = self.lexemes, self.at
        if "WITHIN" in self.accepted and self.item.text == "by":
            return with_edit(self.unexpected(at, at), Fix(lexemes.span(at, at), "of pods by"))
        if self.accepted != {"BY"} or self.item.text != "where":
            return None
        end = lexemes.expression_end(at + 1, STOPS | {"within"})
        key = self._key(at + 1, end)
        message = "the pods of a gang have the same value, and no condition"
        found = catalogue.unfit_for_gang(message, lexemes.span(at, at), "")
        return with_edit(
            found, Fix(lexemes.span(at, end), f"by {key}"), f"write `of pods by {key}`"
        )

    def _key(self, first: int, last: int) -> str:
        """The value of a peer that a condition compares with one of the pod, or with a constant."""
        lexemes = self.lexemes
        at, known = first, ""
        while at <= last:
            end = lexemes.operand_after(at)
            if end is None or lexemes[end + 1].text != "==":
                at += 1
                continue
            other = lexemes.operand_after(end + 2) or end + 2
            sides = one_line(lexemes.slice(at, end)), one_line(lexemes.slice(end + 2, other))
            for one, opposite in (sides, sides[::-1]):
                if one.startswith("peer.") and opposite == f"pod{one.removeprefix('peer')}":
                    return one
                if one.startswith("peer."):
                    known = known or one
            at = other + 1
        return known or _KEY

    def _quorum(self) -> Diagnostic | None:
        """`at most 8`, `exactly 8`, `max 8` in a gang."""
        lexemes, at = self.lexemes, self.at
        if self.accepted == {"LEAST"} and self.item.kind == "word":
            edit = Fix(lexemes.span(at, at), "least")
            return self._unfit("at most", at - 1, at, edit, "write `at least`")
        if "WITHIN" not in self.accepted:
            return None
        for meant in ("exactly", "at most"):
            if self.item.text == meant or self._means(meant):
                edit = Fix(lexemes.span(at, at), "at least")
                return self._unfit(self.item.text, at, at, edit, "write `at least`")
        return None

    def _part(self) -> Diagnostic | None:
        """`strict`, `best effort weight 10`, `missing pass`, `over node.zone`, in a gang."""
        lexemes, at, word = self.lexemes, self.at, self.item.text
        if "WITHIN" not in self.accepted or "OVER" in self.accepted or self.item.kind != "word":
            return None
        if word in ("strict", "mutual", "best", "missing"):
            last = at + {"best": 3, "missing": 1}.get(word, 0)
            text = one_line(lexemes.slice(at, last))
            edit = Fix(lexemes.span(at, last), "")
            why = ": a gang is always strict" if word in ("strict", "best") else ""
            return self._unfit(text, at, last, edit, f"leave out `{text}`{why}")
        if not self._means("within"):
            return None
        last = at + 1 if lexemes[at + 1].text in ("domain", ":", "=") else at
        value = lexemes[last + 1]
        if value.kind == "string":
            key = value.text[1:-1]
            label = f"node.labels[{print_string(key)}]"
            made = f"within {plain_words.DOMAINS.get(key.lower(), label)}"
            return with_edit(self.unexpected(at, at), Fix(lexemes.span(at, last + 1), made))
        return with_edit(self.unexpected(at, at), Fix(lexemes.span(at, last), "within"))

    def _unfit(self, text: str, first: int, last: int, edit: Fix, hint: str) -> Diagnostic:
        span = self.lexemes.span(first, last)
        found = catalogue.unfit_for_gang(f"a gang has no `{text}`", span, hint)
        return with_edit(found, edit, hint)

    def _means(self, here: str) -> bool:
        word = self.item.text
        return any(word in row.words for row in habits.PARTS if row.here == here)

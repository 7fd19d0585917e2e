"""Operators: what an operator of another language is here, between two operands.

A part of the syntax mistakes: operators in words and signs, conditions with `if` and `else`, and
tests of what is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from grammar.messages import catalogue, habits
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.mistakes.misplaced import PARTS, STOPS, WORDS, Misplaced, find, with_edit
from grammar.syntax.lexemes import Lexemes
from grammar.tree.clauses import CLAUSE_WORDS
from grammar.tree.printer import print_string

_NAMES = frozenset("node pod peer victim victims now domain data true false null".split())
_SIGNS = frozenset({"}", ")", "&&", "||", "==", "!=", "<", ">", "<=", ">="})
_COMPARATIVES = {
    ">": frozenset("greater more above over exceeds larger older higher bigger longer".split()),
    "<": frozenset("less fewer below under smaller younger lower shorter".split()),
}


class OperatorRemedies(Misplaced):
    """Looks at an operator that is not one here; each method is one idea."""

    @property
    def ideas(self) -> tuple[Callable[[], Diagnostic | None], ...]:
        """In the order in which they are asked."""
        return (self._default, self._operator)

    def _default(self) -> Diagnostic | None:
        """`a ?: b`, `a ?? b`: the value, or another one if it is absent; and `a?.b`."""
        lexemes, at = self.lexemes, self.at
        sign = next((n for n in (at, at - 1) if lexemes[n].text in ("?:", "??")), None)
        if sign is not None:
            first, last = lexemes.operand_before(sign), lexemes.operand_after(sign + 1)
            if first is None or last is None:
                return None
            other = lexemes.slice(sign + 1, last)
            value = self._optional(first, sign - 1)
            if value is None:
                value = lexemes.slice(first, sign - 1)
                made = f'{value} != "" ? {value} : {other}'
            else:
                made = f"{value}.orValue({other})"
            return with_edit(self.unexpected(sign, sign), Fix(lexemes.span(first, last), made))
        for n in range(at, max(0, at - 40), -1):
            is_chain = lexemes[n].text == "?" and lexemes[n + 1].text in (".", ".?")
            is_chain = is_chain and lexemes.touches(n) and lexemes.touches(n + 1)
            if is_chain and (found := self._without_marks(n)) is not None:
                return found
            if lexemes[n].text in WORDS:
                break
        return None

    def _without_marks(self, mark: int) -> Diagnostic | None:
        """`node?.labels?.a`: what is absent is missing here, with a plain dot."""
        lexemes, first = self.lexemes, self.lexemes.operand_before(mark)
        last = mark
        while lexemes[last + 1].text in (".", "?", "[") or (
            lexemes.touches(last + 1) and lexemes[last + 1].kind == "word"
        ):
            last = lexemes.partner.get(last + 1, last + 1)
        if first is None:
            return None
        if lexemes[last].text in ("orValue", "value", "hasValue"):
            edit = Fix(lexemes.span(mark, mark + 1), ".?")
            return with_edit(self.unexpected(mark, mark + 1), edit)
        made = lexemes.slice(first, last).replace("?.[", "[").replace("?.", ".")
        found = self.unexpected(mark, mark + 1)
        return with_edit(found, Fix(lexemes.span(first, last), made))

    def _optional(self, first: int, last: int) -> str | None:
        """The read of a key or field as an optional; None for what always has a value."""
        lexemes = self.lexemes
        if lexemes[last].text == "]" and (opener := lexemes.partner.get(last)):
            head = lexemes.slice(first, opener - 1)
            return f"{head}[?{lexemes.slice(opener + 1, last - 1)}]"
        if lexemes[last].kind == "word" and lexemes[last - 1].text == ".":
            return f"{lexemes.slice(first, last - 2)}.?{lexemes[last].text}"
        return None

    def _operator(self) -> Diagnostic | None:
        """An operator of another language between two operands."""
        lexemes, at, word = self.lexemes, self.at, self.item.text
        if word in ("$", "@") and lexemes[at + 1].text not in CLAUSE_WORDS:
            hint = f"leave out the `{word}`: names need no sign"
            found = catalogue.bad_character(word, lexemes.span(at, at))
            return with_edit(found, Fix(lexemes.span(at, at), ""), hint)
        if word in ("&", "|") and self.previous.text == word * 2 and lexemes.touches(at):
            hint = f"leave out this `{word}`"
            return with_edit(self.unexpected(at, at), Fix(lexemes.span(at, at), ""), hint)
        first = lexemes.operand_before(at)
        is_of_sets = word in ("&", "|") and lexemes[first or 0].text in ("set", "[", "{")
        if first is None or self.previous.text in WORDS or is_of_sets:
            return None
        # The signs that the lexer knows are unexpected only inside of others.
        is_part = word in (">", "!", "?", "*") and lexemes.touches(at)
        word = "" if is_part else word.lower() if word == "BETWEEN" else word
        behind, second = at + 1, lexemes[at + 1].text
        template = self._template(word, second)
        # Behind `over` a second domain is meant, and before a part no operand follows.
        joins = word in ("and", "or") and (second in PARTS or lexemes[first - 1].text == "over")
        # A score between two ends has a range.
        if template is None or joins or (word == "between" and "RANGE" in self.accepted):
            return None
        here, used, certain = template
        behind = at + used
        if word == "between":
            both = find(lexemes, behind, ("and", "AND", "&&"))
            end = lexemes.operand_after(both + 1) if both is not None else None
            if both is None or end is None:
                return None
            left = lexemes.slice(first, at - 1)
            low, high = lexemes.slice(behind, both - 1), lexemes.slice(both + 1, end)
            upper, joined = "<=", "&&"
            if re.search(r"(?i)hours?\(?\)?\Z", left) and (low + high).isdigit():
                # Up to an hour, and over midnight.
                upper, joined = "<", "&&" if int(low) < int(high) else "||"
            made = f"{left} >= {low} {joined} {left} {upper} {high}"
            return with_edit(self.unexpected(at, at), Fix(lexemes.span(first, end), made))
        if here.count("{1}") == 0:
            made = here.replace("{0}", lexemes.slice(first, at - 1))
            edit = Fix(lexemes.span(first, behind - 1), made)
            return with_edit(self.unexpected(at, behind - 1), edit)
        last = lexemes.operand_after(behind)
        if last is None:
            return None
        right = lexemes.slice(behind, last)
        if lexemes[last].kind == "number" and lexemes[last + 1].text in habits.UNITS:
            right, last = f'"{right}{habits.UNITS[lexemes[last + 1].text]}"', last + 1
        if lexemes[behind].text == "/" and word in ("=~", "!~"):
            return None
        if word.lower() in ("in", "notin") or "in {1}" in here:
            right = _as_list(right)
        if word.lower() in ("like", "ilike"):
            return self._like(first, behind, last)
        if word.lower() == "not" and lexemes[at + 1].text.lower() in ("like", "ilike"):
            return self._like(first, behind, last, "!")
        if last == behind and re.search(r"\{1\} in \{0\}|\.\w+\(\{1\}\)", here):
            right = self._quoted(right)
        left = lexemes.slice(first, at - 1)
        if here in ("{0} && {1}", "{0} || {1}", "{0} == {1}", "{0} != {1}"):
            sign = here.split()[1]
            edit = Fix(lexemes.span(at, behind - 1), sign)
            found = self.unexpected(at, behind - 1)
            return with_edit(found, edit, certain=certain and (self.behind or len(word) > 1))
        made = here.replace("{0}", left).replace("{1}", right)
        edit = Fix(lexemes.span(first, last), made)
        return with_edit(self.unexpected(at, behind - 1), edit, certain=certain)

    def _quoted(self, word: str) -> str:
        """The `gpu` of `node.labels has gpu`, which is no name that anything gives, as a text."""
        if re.fullmatch(r"[A-Za-z]\w*", word) is None or word in _NAMES:
            return word
        defined = re.search(rf"\b(?:let|policy)\b[^{{]*\b{word}\b", self.source.text)
        return word if defined is not None else print_string(word)

    def _template(self, word: str, second: str) -> tuple[str, int, bool] | None:
        """What an operator is here, how many lexemes it has, and whether nothing else is meant."""
        words = word.lower(), second.lower()
        third = self.lexemes[self.at + 2].text
        absent = ("none", "null", "nil", "undefined", "defined", "empty", "missing", "absent")
        if word == "?" and second == ":":
            return None
        if (compared := self._compared_in_words()) is not None:
            return compared
        if words == ("not", "in") or (word == "!" and second == "in"):
            return "!({0} in {1})", 2, True
        if words[0] == "is" and (compared := self._compared_in_words(1)) is not None:
            return compared
        if (equal := self._equal_in_words()) is not None:
            return equal
        if (
            word in ("=", "!")
            and second in ("<", ">", "!", "=")
            and self.lexemes.touches(self.at + 1)
        ):
            sign = {"=<": "<=", "=>": ">=", "=!": "!="}.get(f"{word}{second}")
            if sign is not None:
                return f"{{0}} {sign} {{1}}", 2, True
        if words in (("one", "of"), ("any", "of"), ("among", "of")):
            return "{0} in {1}", 2, False
        with_ = {"starts": "startsWith", "begins": "startsWith", "ends": "endsWith"}
        if words[1] == "with" and words[0] in with_ and self.behind:
            return f"{{0}}.{with_[words[0]]}({{1}})", 2, False
        if words[0] == "is" and "empty" in (words[1], third.lower()):
            # A key that is not there is empty as well.
            is_key = self.previous.text == "]"
            if words[1] == "empty":
                return ("!has({0})" if is_key else "size({0}) == 0"), 2, False
            if words[1] == "not":
                return ("has({0})" if is_key else "size({0}) > 0"), 3, False
        if words[0] == "is":
            if second.lower() == "not":
                if third.lower() in ("defined", "set", "present"):
                    return "!has({0})", 3, False
                if third.lower() in absent:
                    return "has({0})", 3, False
                return "{0} != {1}", 2, True
            if second.lower() in ("none", "null", "nil", "undefined", "empty", "missing", "absent"):
                return "!has({0})", 2, False
            if second.lower() in ("defined", "set", "present"):
                return "has({0})", 2, False
            return "{0} == {1}", 1, True
        if words[0] == "between":
            return "", 1, False
        if word == "Exists" or words == ("exists", ""):
            return "has({0})", 1, False
        if word == "DoesNotExist":
            return "!has({0})", 1, False
        if words[0] in ("like", "ilike"):
            return "{0}.contains({1})", 1, False
        if words[0] == "not" and second.lower() in ("like", "contains", "matches", "equals"):
            row = habits.find(habits.OPERATORS, second.lower())
            here = row.here if row is not None else "{0}.contains({1})"
            return (here.replace("==", "!=") if "==" in here else f"!{here}"), 2, False
        if words[0] in ("has", "have") and self.behind:
            # `node.labels has key "gpu"`
            return "{1} in {0}", 1 + (words[1] in ("key", "label", "a", "the")), False
        if word == "|" and third == "(" and second not in ("has", "size"):
            # A function behind a pipe.
            return None
        if word in {"&", "|"}:
            # Behind a pipe stands a function, and sets have no `&` here.
            is_plain = second in ("!", "(", *_NAMES) or second == "has" or third in _SIGNS
            return "{0} && {1}" if word == "&" else "{0} || {1}", 1, is_plain
        if not self.behind and self.item.kind == "word":
            return None
        row = habits.find(habits.OPERATORS, word) if word else None
        if row is None:
            return None
        certain = row.here in ("{0} && {1}", "{0} || {1}") or word in ("=", "===", "!==", "<>")
        return row.here, 1, certain

    def _equal_in_words(self) -> tuple[str, int, bool] | None:
        """`equal to`, `is equal to`, `not equal to`, `is not equal to`."""
        words = [self.lexemes[self.at + n].text.lower() for n in range(4)]
        used = int(words[0] in ("is", "does", "must", "should"))
        negates = words[used] == "not"
        used += int(negates)
        says_be = used > int(negates) and words[used] == "be" and words[0] != "is"
        if not (words[used] in ("equal", "equals", "same") or says_be) or not self.behind:
            return None
        used += 1 + (words[used + 1] in ("to", "as"))
        return f"{{0}} {'!=' if negates else '=='} {{1}}", used, False

    def _compared_in_words(self, skipped: int = 0) -> tuple[str, int, bool] | None:
        """`greater than`, `older than`, `less than or equal to`, `at least`.

        `skipped` words, such as `is`, stand before.
        """
        lexemes, at = self.lexemes, self.at + skipped
        sign = next((s for s, words in _COMPARATIVES.items() if lexemes[at].text in words), None)
        used = 1
        if lexemes[at].text == "at" and lexemes[at + 1].text in ("least", "most"):
            sign, used = ">=" if lexemes[at + 1].text == "least" else "<=", 2
        if sign is None or not self.behind:
            return None
        used += lexemes[at + used].text == "than"
        if lexemes[at + used].text == "or" and lexemes[at + used + 1].text in ("equal", "equals"):
            sign, used = f"{sign}=", used + 2
            used += lexemes[at + used].text == "to"
        return f"{{0}} {sign} {{1}}", used + skipped, False

    def _like(self, first: int, behind: int, last: int, negation: str = "") -> Diagnostic | None:
        """SQL's `like`: a prefix, a suffix or a part, by where the `%` stands."""
        lexemes = self.lexemes
        pattern = lexemes[behind]
        if pattern.kind != "string":
            return None
        inner = pattern.text[1:-1]
        inner = inner if "%" in inner else inner.replace("*", "%")
        method = "matches" if "_" in inner else "contains"
        if inner.endswith("%") and not inner.startswith("%"):
            method = "startsWith"
        elif inner.startswith("%") and not inner.endswith("%"):
            method = "endsWith"
        text = inner.strip("%")
        made = f'{negation}{lexemes.slice(first, self.at - 1)}.{method}("{text}")'
        edit = Fix(lexemes.span(first, last), made)
        return with_edit(self.unexpected(self.at, self.at), edit)


class PresenceRemedies(Misplaced):
    """Looks at a test in words of what is there, and at a value with its condition behind."""

    @property
    def ideas(self) -> tuple[Callable[[], Diagnostic | None], ...]:
        """In the order in which they are asked."""
        return (self._present, self._presence, self._of_python)

    def _present(self) -> Diagnostic | None:
        """`node.labels["a"] exists`, with the word behind."""
        lexemes, at, word = self.lexemes, self.at, self.item.text
        first = lexemes.operand_before(at) if self.behind else None
        rows = {"exists": "", "present": "", "defined": "", "missing": "!", "absent": "!"}
        if word == "not" and lexemes[at + 1].text in ("exists", "present", "defined"):
            at, word, rows = at + 1, lexemes[at + 1].text, dict.fromkeys(rows, "!")
        if word not in rows or first is None or lexemes[at + 1].text in ("(", ".", "fail", "pass"):
            return None
        if not lexemes[at + 1].closes and lexemes[at + 1].text not in ("&&", "||"):
            return None
        read = lexemes.slice(first, self.at - 1)
        edit = Fix(lexemes.span(first, at), f"{rows[word]}has({read})")
        return with_edit(self.unexpected(self.at, at), edit)

    def _presence(self) -> Diagnostic | None:
        """`exists node.labels["a"]`, with the word before."""
        lexemes, at, word = self.lexemes, self.at, self.previous.text
        last = lexemes.operand_after(at) if word in ("exists", "defined", "has") else None
        if last is None or self.item.kind != "word" or lexemes[at + 1].text in ("in", "where"):
            return None
        edit = Fix(lexemes.span(at - 1, last), f"has({lexemes.slice(at, last)})")
        return with_edit(self.unexpected(at - 1, at - 1), edit)

    def _of_python(self) -> Diagnostic | None:
        """`a if c else b` of Python."""
        lexemes, at = self.lexemes, self.at
        other = find(lexemes, at, ("else",)) if self.item.text == "if" and self.behind else None
        if other is None:
            return None
        first, end = _start(lexemes, at, STOPS), lexemes.expression_end(other + 1, STOPS)
        text = _chosen(lexemes.slice(first, end))
        return with_edit(self.unexpected(at, at), Fix(lexemes.span(first, end), text))


def _start(lexemes: Lexemes, at: int, stops: frozenset[str]) -> int:
    """The first lexeme of the expression that ends before a position."""
    while at > 0 and not (lexemes[at - 1].opens or lexemes[at - 1].text in {*stops, ",", "="}):
        at = lexemes.partner.get(at - 1, at - 1)
    return at


def _chosen(text: str) -> str:
    """`a if c else b`, in which `b` can be another such choice."""
    found = re.fullmatch(r"(.+?)\s+if\s+(.+?)\s+else\s+(.+)", text, re.DOTALL)
    return text if found is None else f"{found[2]} ? {found[1]} : {_chosen(found[3])}"


def _as_list(right: str) -> str:
    """SQL's list in parentheses as one in brackets; a text alone as a list of one."""
    if right.startswith("(") and right.endswith(")"):
        return f"[{right[1:-1]}]"
    if right[:1] in "\"'" and "," in right:
        return f"[{', '.join(print_string(part.strip()) for part in right[1:-1].split(','))}]"
    return f"[{right}]" if right[:1] in "\"'" else right

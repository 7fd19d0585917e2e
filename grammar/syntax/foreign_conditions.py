"""Foreign conditions: `if` with `else`, `switch` and `match`, as clauses of this language.

`grammar.syntax.foreign_clauses` asks here with the words of an item.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from grammar.syntax.wish_parts import negated


def _guarded_clauses(text: str) -> Iterator[str]:
    """`if a { filter "x" { … } } else { filter "y" { … } }`: each clause has its own `when`."""
    clause = r'\{\s*((?:filter|score|bind)\s+"[^"]*"(?:\s+weight\s+\d+)?)\s*(\{[^{}]*\})\s*\}'
    found = re.fullmatch(rf"(?:if|when)\s+([^{{}}]+?)\s*{clause}(?:\s*else\s*{clause})?", text)
    if found is not None:
        made = f"{found[2]} when {found[1]} {found[3]}"
        other = f" {found[4]} when !({found[1]}) {found[5]}" if found[4] else ""
        yield made + other


def _implied(text: str) -> Iterator[str]:
    """`rule "x": if a then b` and `when a: require b`: a condition stands before the block."""
    found = re.fullmatch(
        r"(?:(?:rule|filter|policy|constraint|if|when)\s*(?P<name>\"[^\"]*\")?\s*:?\s*)?(?:(?:if|when)\s+)?"
        r"(?P<test>(?:!|\(|has\(|pod\.)[^{}]*?)\s*(?:\bthen\b|:|,|=>|->)\s*(?:require\s+)?"
        r"(?P<said>(?:!|\(|has\(|node\.)[^{};:]+?)\s*;?",
        text,
    )
    if found is not None and re.match(r"(?:rule|policy|constraint|filter|if|when)\b", text):
        name = found["name"] or '"rule"'
        yield f"filter {name} when {found['test']} {{ require {found['said']} }}"


def _listed(text: str) -> Iterator[str]:
    """`filter "x" { require: - a - b }`: the items of a YAML list are joined."""
    found = re.fullmatch(r'(filter "[^"]*"[^{}]*\{) ?require ?:? ?- (.+?) ?\}', text)
    if found is not None:
        parts = re.split(r"\s-\s+(?=!|\(|has\(|node\.|pod\.)", found[2])
        yield f"{found[1]} require {' && '.join(parts)} }}"


_THROWN = r"(?:throw\s+(?:new\s+)?|raise\s+)\w+\([^()]*\)"


def _conditions(text: str) -> Iterator[str]:
    """`filter "x" { if a then require b }`: the condition of a clause stands before its block."""
    # `if _, ok := node.labels["a"]; ok { … }` of Go
    text = re.sub(r"\bif _, (\w+) := (\S+?) ?; (!?)\1\b", r"if \3has(\2)", text)
    decided = re.fullmatch(
        r"(?:rule|filter)( \"[^\"]*\") \{\s*(?:when|if)\s+([^{}]+?)\s*(?:then|do|=>|->)?\s*"
        r"(allow|accept|pass|permit|deny|reject|block)\s*;?\s*\}",
        text,
    )
    if decided is not None:
        is_allowed = decided[3] in ("allow", "accept", "pass", "permit")
        said = decided[2] if is_allowed else f"!({decided[2]})"
        yield f"filter{decided[1]} {{ require {said} }}"
        return
    found = re.fullmatch(
        r"(filter|score)( \"[^\"]*\")([^{}]*)\{\s*(?:(?:require|value|only)\s+)?"
        r"(?:if|when)\s+(.+?)\s*"
        r"(?:\bthen\b|:|\{|(?=\b(?:require|value)\b))\s*((?:require\b|value\b)?[^{}]+?)\s*(?:\}\s*)+",
        text,
    )
    alone = re.fullmatch(
        r"(filter \"[^\"]*\".*?)\{\s*(if|unless)\s+([^{}]+?)\s*"
        r"(?:\{|:|(?=(?:return|throw|raise)\b))\s*"
        rf"(?:return\s+)?(reject|deny|fail|[Ff]alse|pass|allow|accept|[Tt]rue|{_THROWN})\s*;?\s*\}}?\s*"
        r"(?:(?:else\s*\{?\s*)?return\s+(?:[Tt]rue|[Ff]alse|allow|deny)\s*;?\s*\}?\s*)?\}",
        text,
    )
    if alone is not None:
        # What is rejected where it is not so must be so.
        is_kept = (alone[2] == "unless") != (
            alone[4] in ("pass", "allow", "accept", "true", "True")
        )
        tested = re.sub(r"^not\s+", "!", re.sub(r"^\((![^()]*)\)$", r"\1", alone[3]))
        thrown = re.search(r'"[^"]*"', alone[4])
        message = f" message {thrown[0]}" if thrown is not None else ""
        yield f"{alone[1]}{{ require {tested if is_kept else negated(tested)}{message} }}"
    bare = re.fullmatch(r"((filter|score) \"[^\"]*\"[^{}]*)\{ ?(?:if|when) ([^{}]+?) ?\}", text)
    if bare is not None and not re.search(r"\b(?:then|require|value|return|else)\b|:", bare[3]):
        yield f"{bare[1]}{{ {'require' if bare[2] == 'filter' else 'value'} {bare[3]} }}"
    if found is not None and not re.search(r"\b(?:else|elif)\b", text):
        part = "require " if found[1] == "filter" else "value "
        said = found[5] if found[5].startswith(part) else f"{part}{found[5]}"
        yield f"{found[1]}{found[2]}{found[3].rstrip()} when {found[4]} {{ {said} }}"


def _functions(text: str) -> Iterator[str]:
    """`require node -> node.ready` and `lambda n: n.ready`: a condition without its function."""
    found = re.search(
        r"(?:\b(?:require|value)\s+|(?<=\{ ))(?:(?P<of>lambda)\s+|func(?:tion)?\s*)?\(?\|?"
        r"(?P<item>[A-Za-z]\w*)(?:[:,]?\s*\*?\w+)?\)?\|?"
        r"\s*(?:(?:->|=>)|(?(of)(?<=[a-z]):|(?!))|\{\s*return\b)\s*(?P<said>[^{}]+?)\s*;?\s*\}?\s*(?=\}\s*\Z)",
        text,
    )
    if found is None:
        return
    part = "value" if text.startswith("score ") else "require"
    said = re.sub(rf"(?<![\w.\"]){found['item']}(?=[.\[])", "node", found["said"])
    yield f"{text[: found.start()]}{part} {said} {text[found.end() :]}"


def _loops(text: str) -> Iterator[str]:
    """`for t in node.spec.taints: if t.key == "gpu": return False`: whether there is one."""
    found = re.search(
        r"\bfor \(?(?:const |let |var )?(?:_, )?(\w+) (?:in|of|:= range) ([\w.]+)\)?\s*[:{]\s*"
        r"if \(?([^{}]+?)\)?\s*[:{]\s*return ([Tt]rue|[Ff]alse)[\s;}]*"
        r"(?:return (?:[Tt]rue|[Ff]alse)[\s;]*)?",
        text,
    )
    if found is not None and text.startswith("filter "):
        denied = "!" * (found[4].lower() == "false")
        yield f"{text[: found.start()]}require {denied}{found[2]}.exists({found[1]}, {found[3]}) }}"


_BRANCH = r"\s*\{\s*(?:(?:require|value)\s+)?([^{}]+?)\s*\}"


def _branches(text: str) -> Iterator[str]:
    """`if a { require b } else { require c }`, which are two values of one condition."""
    found = re.search(
        rf"\bif\s+([^{{}}]+?){_BRANCH}((?:\s*else\s+if\s+[^{{}}]+?{_BRANCH})*)\s*else{_BRANCH}",
        text,
    )
    if found is not None:
        head = text[: found.start()]
        require = "value " if text.startswith("score ") else "require "
        require = "" if re.search(r"\b(?:require|value)\s*\Z", head) else require
        others = re.findall(rf"else\s+if\s+([^{{}}]+?){_BRANCH}", found[3])
        more = "".join(f"{test} ? {value} : " for test, value in others)
        said = f"{require}{found[1]} ? {found[2]} : {more}{found[5]}"
        if "{" not in head:
            yield f'filter "either" {{ {said} }}'
        else:
            yield f"{head}{said}{text[found.end() :]}"
    behind = re.fullmatch(rf'(filter "[^"]*") when ([^{{}}]+?){_BRANCH} else{_BRANCH}', text)
    if behind is not None:
        yield f"{behind[1]} {{ require {behind[2]} ? {behind[3]} : {behind[4]} }}"


def _amounts(text: str) -> Iterator[str]:
    """`if a { per node at most 1 } else { per node at most 2 }`: one bound with two numbers."""
    found = re.search(r"\bif\s+([^{}]+?)\s*\{([^{}]*?)(\d+)([^{}]*)\}\s*else\s*\{([^{}]*)\}", text)
    if found is None:
        return
    other = re.fullmatch(rf"{re.escape(found[2])}(\d+){re.escape(found[4])}", found[5])
    if other is not None:
        amount = f"{found[1]} ? {found[3]} : {other[1]}"
        made = f"{found[2]}{amount}{found[4]}"
        strict = "" if re.search(r"\bstrict\b|\bbest effort\b", text) else "strict "
        yield f"{text[: found.start()]}{made.strip()} {strict}{text[found.end() :].strip()}"


def _python_branches(text: str) -> Iterator[str]:
    """`if a: require b elif c: require d`, of which the first that holds decides."""
    found = re.search(r"\bif\s+[^:{}]+:(?!:).+?(?=\}\s*\Z|\Z)", text)
    if found is None:
        return
    parts = re.split(r"\b(?:elif|else if|if|else)\b\s*", found[0])[1:]
    made = ""
    for part in parts:
        test, _, said = part.partition(":")
        said = re.sub(r"^\s*require\b", "", said).strip()
        made += f"{test.strip()} ? {said} : " if test.strip() else said
    made = f"{made}true" if made.endswith(": ") else made
    head = text[: found.start()].rstrip()
    require = "" if re.search(r"\b(?:require|value)\Z", head) else "require "
    yield f"{head} {require}{made} {text[found.end() :]}".strip()


def _arms(text: str) -> Iterator[str]:
    """`switch x { case "a": 100 default: 0 }` and `match x { "a" => 100, _ => 0 }`."""
    found = re.search(r"\b(?:switch|match)\s*\(?([\w.\[\]\"/-]+)\)?\s*\{([^{}]*)\}", text)
    if found is None:
        return
    arms = re.findall(
        r"(?:case\s+)?(\"[^\"]*\"|\w+)\s*(?::|=>|->)\s*(?:return\s+)?([^\s,;]+)", found[2]
    )
    tests = [f"{found[1]} == {key} ? {value} : " for key, value in arms if key.startswith('"')]
    others = [value for key, value in arms if key in ("default", "_", "else")]
    if tests and len(others) == 1:
        part = "" if re.search(r"\b(?:value|require)\s*\Z", text[: found.start()]) else "value "
        made = f"{part}{''.join(tests)}{others[0]}"
        yield f"{text[: found.start()]}{made}{text[found.end() :]}"


OF_ITEMS: tuple[Callable[[str], Iterator[str]], ...] = (
    _guarded_clauses,
    _implied,
    _listed,
    _loops,
    _conditions,
    _branches,
    _amounts,
    _python_branches,
    _functions,
    _arms,
)

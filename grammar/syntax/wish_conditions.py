"""Wish conditions: what is said of a node or a pod in plain words, as an expression.

`kernel >= 5.10`, `at least 2 free gpus` and `node name starts with gpu-` have what is read, how it
is compared, and a value. A table has the words for what is read, another one those of comparisons;
the kind of what is read says how its value is written. A text with other words means nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from grammar.messages import habits
from grammar.syntax.wish_words import NUMBERS, PARTS, one_of
from grammar.tree.printer import print_string

# ---- what is read

_RESOURCES: Mapping[str, str] = {
    **dict.fromkeys(("cpu", "cpus", "core", "cores", "vcpu", "vcpus"), "cpu"),
    **dict.fromkeys(("memory", "mem", "ram"), "memory"),
    **dict.fromkeys(("gpu", "gpus"), "nvidia.com/gpu"),
    **dict.fromkeys(("disk", "storage", "disk space"), "ephemeral-storage"),
}
_R = one_of(_RESOURCES)
_FREE = r"(?:free|available|unused|idle|remaining|left|spare)"
_KEY = r"\"?(?P<key>[A-Za-z][\w./-]*)\"?"
_INFO = "node.status.nodeInfo"
# What is read and its kind, by the words for it. `KEY` and `NAME` stand for those that are named.
_READS: tuple[tuple[str, str, str], ...] = (
    (rf"{_FREE}\s+(?P<name>{_R})", 'node.free["NAME"]', "amount"),
    (rf"(?P<name>{_R})\s+{_FREE}", 'node.free["NAME"]', "amount"),
    (rf"(?:total|allocatable)\s+(?P<name>{_R})", 'node.allocatable["NAME"]', "amount"),
    (
        rf"(?:used\s+(?P<name>{_R})|(?P<other>{_R})\s+(?:usage|utili[sz]ation|used|load|in\s+use))",
        'node.usage["NAME"]',
        "part",
    ),
    (r"(?P<name>gpus?|memory|ram|cpus?|cores)", 'node.allocatable["NAME"]', "total"),
    (r"(?:(?:nodes?|hosts?)\s+)?(?:name|hostname)", "node.name", "text"),
    (r"(?:node\s+)?(?:zones?|az|availability\s+zones?)", "node.zone", "text"),
    (r"(?:node\s+)?regions?", "node.region", "text"),
    (r"(?:cpu\s+)?arch(?:itecture)?", 'node.labels["kubernetes.io/arch"]', "text"),
    (
        r"(?:instance|machine|node)[\s-]*type",
        'node.labels["node.kubernetes.io/instance-type"]',
        "text",
    ),
    (r"(?:os|operating\s+system)(?:\s+image)?|distro|distribution", f"{_INFO}.osImage", "image"),
    (r"kernel(?:\s+version)?", f"{_INFO}.kernelVersion", "version"),
    (r"(?:kubelet|kubernetes|k8s)(?:\s+version)?", f"{_INFO}.kubeletVersion", "version"),
    (r"(?:container\s+)?runtime", f"{_INFO}.containerRuntimeVersion", "runtime"),
    (r"(?:node\s+)?age", "node.age", "time"),
    (r"(?:the\s+)?(?:nodes?|machines?|hosts?|it)(?:\s+age)?", "node.age", "span"),
    (r"(?:the\s+)?pods?", "pod.age", "span"),
    (r"(?:pod\s+)?priority", "pod.priority", "number"),
    (r"(?:pod\s+)?namespace", "pod.namespace", "text"),
    (
        r"(?P<key>(?:node|pod)\.(?:name|zone|region|namespace|labels(?:\.[\w-]+|\[\"[\w./-]+\"\])))",
        "KEY",
        "path",
    ),
    (rf"pod\s+label\s+{_KEY}", 'pod.labels["KEY"]', "text"),
    (rf"(?:node\s+)?label\s+{_KEY}", 'node.labels["KEY"]', "text"),
    (rf"(?:node\s+)?annotation\s+{_KEY}", 'node.annotations["KEY"]', "text"),
)
# What nodes are told to have of a resource: `nodes with at least 8 cores`, `nodes above 80% cpu`.
_OF_NODES: tuple[tuple[str, str, str], ...] = (
    (r"(?:full|busy|used|loaded)", 'node.usage["cpu"]', "percentage"),
    (rf"(?P<name>{_R})", 'node.usage["NAME"]', "percentage"),
    (rf"(?P<name>{_R})", 'node.allocatable["NAME"]', "amount"),
)

# ---- how it is compared

_BE = r"(?:(?:is|are|be|being|must\s+be|should\s+be|has\s+to\s+be)\s+)?"
_SIGNS: tuple[tuple[str, str], ...] = (
    (rf"{_BE}(?:not\s+in|not\s+one\s+of|none\s+of|not\s+any\s+of)", "not in"),
    (rf"{_BE}(?:one\s+of|in|among|any\s+of|either)", "in"),
    (r"(?:must\s+)?(?:starts?|begins?)\s+with", "startsWith"),
    (r"(?:must\s+)?ends?\s+with", "endsWith"),
    (r"(?:must\s+)?contains?|includes?", "contains"),
    (rf"{_BE}(?:>=|at\s+least|no\s+less\s+than|not\s+less\s+than|minimum|min)", ">="),
    (rf"{_BE}(?:<=|at\s+most|no\s+more\s+than|not\s+more\s+than|up\s+to|maximum|max)", "<="),
    (
        rf"{_BE}(?:>|(?:more|greater|higher|larger|newer|bigger)\s+than|above|over|exceeds?)",
        ">",
    ),
    (rf"{_BE}(?:<|(?:less|lower|smaller|older|fewer)\s+than|below|under)", "<"),
    (r"!=|(?:is|are|must|should)\s*(?:n't|\s+not)(?:\s+be)?|not|other\s+than", "!="),
    (r"==?|:|(?:is|are|must\s+be|should\s+be|equals?)(?:\s+equal\s+to)?", "=="),
)
# Words that are no values.
_NO_TEXTS = frozenset("null none nil undefined empty missing set defined true false not".split())
_THERE = re.compile(r"(?:exists|is\s+(?:set|present|there|defined)|present)\Z", re.IGNORECASE)
_ABSENT = re.compile(
    r"(?:does\s+not\s+exist|doesn't\s+exist|is\s+(?:missing|absent|not\s+set|unset)|missing)\Z",
    re.IGNORECASE,
)
_NODE_HAS = re.compile(
    r"(?:require\s+)?(?:(?:the\s+|a\s+|any\s+|all\s+)?(?:nodes?|machines?|hosts?)(?:'s)?\s+"
    r"(?:(?:must|should|has\s+to|needs?\s+to)\s+)?(?:have|has|with|having|whose|where|needs?|(?:that|which)\s+(?:are|is|have|has))\s+"
    r"|(?:has|have|with|needs?|must\s+have|the)\s+)?(?:an?\s+|the\s+)?",
    re.IGNORECASE,
)
# Before the nodes that are meant, or that are not to be used.
_PLACING = re.compile(
    r"(?:please\s+)?(?:(?P<no>do\s+not|don't|never|avoid|not|no|skip|exclude|ignore|reject)\s+)?(?:only\s+)?"
    r"(?:(?:use|using|run|running|schedule|scheduling|place|placing|put|select|choose|pick|overload)\s+)?"
    r"(?:only\s+)?(?:(?:on|to|onto)\s+)?(?=nodes?\b|machines?\b|hosts?\b)",
    re.IGNORECASE,
)
_KEEP_FREE = re.compile(
    rf"(?:keep|leave|reserve)\s+(?:at\s+least\s+)?(?P<value>\d+(?:\.\d+)?\s*(?:%|percent|[KMGT]i?B?)?)\s+(?:of\s+)?(?:the\s+)?"
    rf"(?P<name>{_R})\s+(?:free|unused|empty)(?:\s+on\s+.*)?\Z",
    re.IGNORECASE,
)
_TURNED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NODES = re.compile(r"(?:nodes?|machines?|hosts?)\s+(?=above|over|below|under)", re.IGNORECASE)
_NONE_OF = re.compile(r"(?:no|without(?:\s+any)?)\s+(taints?|labels?)(?:\s+\"?([\w./-]+)\"?)?\Z")


def conditions(text: str) -> Iterator[str]:
    """The expression for a condition in words, or for several with `and` or `or` between them."""
    whole = text.strip(" {};.")
    made = _one(whole)
    for word, sign in (("and", "&&"), ("or", "||")):
        parts = re.split(rf"\s+(?:{word}|{re.escape(sign)})\s+", whole, flags=re.IGNORECASE)
        if made is None and len(parts) > 1:
            each = [_one(part) for part in parts]
            made = f" {sign} ".join(filter(None, each)) if all(each) else None
    if made is not None:
        yield made


def order_of(text: str) -> str | None:
    """What is read by words that have an amount, a part or a time, for an order of nodes."""
    for pattern, read, kind in _READS:
        found = re.fullmatch(pattern, text.strip(), re.IGNORECASE)
        if found is not None and kind in ("amount", "part", "time"):
            return _named(read, found)
    return None


def filters(body: str) -> Iterator[str]:
    """A filter for a condition in words."""
    for condition in conditions(body):
        yield f'filter "nodes" {{ require {condition} }}'


def _one(text: str) -> str | None:
    if (kept := _KEEP_FREE.match(text)) is not None:
        return _compared(_named('node.free["NAME"]', kept), "amount", f">= {kept['value']}")
    placing = _PLACING.match(text)
    text = text[placing.end() :] if placing is not None else text
    is_denied = placing is not None and placing["no"] is not None
    told = _match(_NODE_HAS, text) or _match(_NODES, text)
    made = _plain(text[told:], (*_READS, *_OF_NODES) if told else _READS)
    if made is None or not is_denied:
        return made
    order = re.fullmatch(r"(.+) ([<>]=?) (\S+)", made)
    return f"{order[1]} {_TURNED[order[2]]} {order[3]}" if order is not None else f"!({made})"


def _plain(rest: str, reads: tuple[tuple[str, str, str], ...]) -> str | None:
    """The expression for words that are about nodes."""
    if (none := _NONE_OF.match(rest)) is not None:
        holder = "node.spec.taints" if none[1].startswith("taint") else "node.labels"
        if none[2] is None:
            return f"size({holder}) == 0"
        key = print_string(none[2])
        is_label = holder == "node.labels"
        return f"!({key} in {holder})" if is_label else f"!{holder}.exists(t, t.key == {key})"
    for pattern, read, kind in reads:
        found = re.match(rf"(?:{pattern})(?=\s|[=!<>:]|\Z)", rest, re.IGNORECASE)
        if found is not None:
            behind = rest[found.end() :].strip()
            if (made := _compared(_named(read, found), kind, behind)) is not None:
                return made
        # `at least 2 free gpus`
        last = re.search(rf"(?<=\s)(?:of\s+)?(?:{pattern})\Z", rest, re.IGNORECASE)
        if last is not None and kind in ("amount", "total", "part", "percentage"):
            before = rest[: last.start()].strip()
            if (made := _compared(_named(read, last), kind, before)) is not None:
                return made
    return None


def _match(pattern: re.Pattern[str], text: str) -> int:
    """Where a match at the start of a text ends; 0 if there is none."""
    found = pattern.match(text)
    return found.end() if found is not None else 0


def _named(read: str, found: re.Match[str]) -> str:
    """What is read, with the resource or the key that the words name."""
    groups = found.groupdict()
    word = (groups.get("name") or groups.get("other") or "").lower()
    return read.replace("NAME", _RESOURCES.get(word, word)).replace("KEY", groups.get("key") or "")


def _compared(read: str, kind: str, said: str) -> str | None:
    """What is read compared with a value, by the words of both; None if they are others."""
    if "labels[" in read or "annotations[" in read:
        if _THERE.match(said):
            return f"has({read})"
        if _ABSENT.match(said):
            return f"!has({read})"
    if kind == "span":
        # Who is older is so for longer.
        order = re.match(rf"{_BE}(older|younger|newer)\s+than\s+", said, re.IGNORECASE)
        value = None if order is None else _number("time", said[order.end() :].strip())
        if order is None or value is None:
            return None
        return f"{read} {'>' if order[1].lower() == 'older' else '<'} {value}"
    for pattern, sign in _SIGNS:
        found = re.match(rf"(?:{pattern})(?=\s|\d|\"|\(|\[)", said, re.IGNORECASE)
        if found is None:
            continue
        if kind == "path" and re.match(r"[=!:<>]|(?:not\s+)?in\b", found[0]):
            # An expression, and no plain words.
            return None
        value = said[found.end() :].strip()
        return _with_value(read, kind, sign, value) if value else None
    return None


def _with_value(read: str, kind: str, sign: str, value: str) -> str | None:
    if kind in ("text", "path", "image", "runtime"):
        return _of_text(read, kind, sign, value)
    if kind == "version":
        return _of_version(read, sign, value)
    if (
        kind == "amount"
        and "node.free" in read
        and value.split(" of", maxsplit=1)[0].endswith(("%", "percent"))
    ):
        # 20% free are 80% in use.
        part = _number("part", value)
        sign = _MIRRORED.get(sign, sign)
        return None if part is None else f"{_used(read)} {sign} {1 - float(part):g}"
    written = _number(kind, value)
    if written is None or sign not in ("<", "<=", ">", ">=", "=="):
        return None
    return f"{read} {sign} {written}"


def _used(read: str) -> str:
    return read.replace("node.free", "node.usage")


def _of_text(read: str, kind: str, sign: str, value: str) -> str | None:
    words = [w.strip(" \"'") for w in re.split(r"\s*(?:,|\bor\b|\band\b)\s*", value.strip("()[]"))]
    if not all(re.fullmatch(r"[\w./:-]+\*?", w) for w in words):
        return None
    if any(w.lower() in _NO_TEXTS for w in words):
        return None
    if kind == "image" and all(w.lower() in ("linux", "windows") for w in words):
        read, kind = 'node.labels["kubernetes.io/os"]', "text"
        words = [w.lower() for w in words]
    texts = [print_string(w) for w in words]
    if len(words) > 1 and sign in ("==", "!="):
        sign = "in" if sign == "==" else "not in"
    if sign in ("in", "not in") and kind in ("text", "path"):
        said = f"{read} in [{', '.join(texts)}]"
        return said if sign == "in" else f"!({said})"
    if len(words) > 1 and sign != "in":
        return None
    if sign in ("startsWith", "endsWith", "contains") and words[0][-1] != "*":
        return f"{read}.{sign}({texts[0]})"
    if kind in ("image", "runtime") and sign in ("==", "in", "!="):
        read = f"{read}.lowerAscii()" if kind == "image" else read
        calls = (f"{read}.startsWith({print_string(w.lower())})" for w in words)
        said = " || ".join(calls)
        return f"!({said})" if sign == "!=" else said
    if sign in ("==", "!="):
        if words[0][-1] == "*":
            return f"{'!' * (sign == '!=')}{read}.startsWith({print_string(words[0][:-1])})"
        return f"{read} {sign} {texts[0]}"
    return None


def _of_version(read: str, sign: str, value: str) -> str | None:
    found = re.fullmatch(r"\"?v?(\d+)(?:\.(\d+))?(?:\.(\d+))?\"?(?:\s+or\s+newer)?", value)
    if found is None:
        return None
    sign = ">=" if value.endswith("newer") else sign
    if sign == "==" and found[3] is None and found[2] is not None:
        v = "v" if "kubelet" in read else ""
        return f"{read}.startsWith({print_string(f'{v}{found[1]}.{found[2]}.')})"
    if sign not in ("<", "<=", ">", ">=", "=="):
        return None
    whole = f"{found[1]}.{found[2] or 0}.{found[3] or 0}"
    return f"kubernetesVersion({read}) {sign} {print_string(whole)}"


def _number(kind: str, value: str) -> str | None:
    """A number, an amount, a part or a length of time, as it is written beside what is read."""
    found = re.fullmatch(
        r"\"?(?P<number>\d+(?:\.\d+)?|[a-z]+)\s*(?P<unit>%|[A-Za-z]+)?(?:\s+of)?\"?",
        value,
    )
    if found is None or value.lower() in PARTS:
        return f"{float(PARTS[value.lower()][:-1]) / 100:g}" if found and kind == "part" else None
    number = str(NUMBERS.get(found["number"].lower(), found["number"]))
    unit = found["unit"] or ""
    if not re.fullmatch(r"\d+(?:\.\d+)?", number):
        return None
    if kind in ("part", "percentage"):
        if unit == "%" or unit.lower() in habits.PERCENT:
            return f"{float(number) / 100:g}"
        is_part = not unit and float(number) <= 1 and kind == "part"
        return f"{float(number):g}" if is_part else None
    if kind == "number":
        return None if unit else number
    unit_here = habits.UNITS.get(unit, habits.UNITS.get(unit.lower(), "")) if unit else ""
    if unit and not unit_here and unit.lower() not in _RESOURCES:
        return None
    if kind == "time":
        return print_string(f"{number}{unit_here}") if unit_here in ("s", "m", "h", "d") else None
    return print_string(f"{number}{unit_here}")

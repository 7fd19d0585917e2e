"""Wish readers: each looks for one kind of wish in plain words, and writes whole clauses.

They get the words of an item, and repeat the author's own. `grammar.syntax.wishes` says which words
are an item, and hears them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from grammar.messages import habits
from grammar.syntax import wish_conditions
from grammar.syntax.wish_limits import limits, numbers, sums
from grammar.syntax.wish_parts import (
    NAME_OF_NODE,
    bound_of,
    counted_pods,
    domain_of,
    label_of,
    negated,
    nodes_of,
    pods_beside,
    pods_of,
    same_owner,
    strength_of,
)
from grammar.syntax.wish_times import hours
from grammar.syntax.wish_words import (
    ABOVE,
    BELOW,
    BESIDE,
    DENIES,
    DOMAIN,
    EMPTIER,
    ENOUGH,
    FRACTION,
    FREE,
    FULLER,
    HAVING,
    KEPT,
    LEAST_OF,
    MOST_OF,
    NEVER,
    NODES_WITH,
    ONLY,
    OTHER_PODS,
    PART,
    PARTS,
    PLACES,
    STATES,
    SUBJECT,
    WORDS_OF_NODES,
    WORKLOADS,
    N,
    find,
    number_of,
)
from grammar.tree.printer import print_string


def _as_part(body: str) -> str:
    """`spot:ondemand 1:3`, a ratio, as the part of the first: `25% on spot`."""
    found = find(
        r"\b(?P<who>[a-z][\w-]*)\s*(?::|to|/)\s*[a-z][\w-]*\s*[=:]?\s*(?P<one>\d+)\s*(?::|to|/)\s*(?P<other>\d+)\s*\Z",
        body,
    )
    of_all = find(r"\b(\d+)\s+(?:out\s+)?of\s+(\d+)\b", body)
    if found is None and of_all is not None and 0 < int(of_all[1]) <= int(of_all[2]):
        part = 100 * int(of_all[1]) // int(of_all[2])
        return f"{body[: of_all.start()]}{part}%{body[of_all.end() :]}"
    if found is None or int(found["one"]) == 0:
        return re.sub(
            r"(?i)\b(?:most|mostly|the\s+majority)\s+(?=(?:of\s|on\s|in\s))", "at least 51% ", body
        )
    part = 100 * int(found["one"]) // (int(found["one"]) + int(found["other"]))
    return f"exactly {part}% on {found['who']}"


def _shares(body: str) -> Iterator[str]:
    """`40% on spot`, `half of the replicas on spot nodes`, `at most 40 percent in zone a`."""
    body = re.sub(r"(?i),?\s*(?:and\s+)?(?:the\s+)?rest\s+.*", "", body)
    body = re.sub(
        r"(?i)\A(?:split\s+)?(\d+)\s*[/:]\s*(\d+)\s+(?:split\s+)?(?:between|of|across|over|on|in)\s+(.+?)\s+and\s+(.+)",
        r"exactly \1% on \3, exactly \2% on \4",
        body,
    )
    # The part stands before each place, or behind it.
    between = r"(?<=\w)" if re.match(r"\d+%", body) else r"(?<=\d%)"
    behind = r"(?=\d+%)" if re.match(r"\d+%", body) else r"(?=[a-z][\w-]*\s+\d+%)"
    body = re.sub(rf"{between}\s+{behind}", ", ", _as_part(body))
    many = [p for p in re.split(r"\s*(?:[,;]|\band\b)\s*", body) if find(PART, p)]
    if len(many) > 1:
        each = [next(_shares(part), None) for part in many]
        if all(each):
            yield " ".join(filter(None, each))
        return
    part = find(PART, body)
    number = find(rf"\A(?:share\s+)?(?:{ENOUGH}|{ONLY}|exactly)\s+{N}\s+(?=on\s|in\s)", body)
    body = f"{number[0]}replicas {body[number.end() :]}" if number is not None else body
    counted = find(
        r"\b(?:replicas?|pods?|instances?)\s+(?:run\s+|go\s+)?(?:(?:on|in)\s+(?=\S)|(?=[\w-]+\Z))(.+)\Z",
        body,
    )
    if part is None and counted is not None and not find(r"\bper\b|\beach\b|\bsame\b", body):
        where, bound = nodes_of(counted[1]), bound_of(body[: counted.start()])
        if where is not None and bound is not None and bound[1] > 0:
            keeps = find(r"\b(?:keep|need|want|have|always)\b", body) and not find(ONLY, body)
            kind = "exactly" if find(r"\bexactly\b", body) else "at least" if keeps else bound[0]
            said = f"{kind} {bound[1]}"
            kept = f"{said} {strength_of(body)}"
            yield f'share "{said}" {{ of replicas on nodes where {where} {kept} }}'
        return
    on = find(r"\b(?:on|in|onto|to)\s+(.+)\Z", body)
    on = on or find(
        r"\A(?:(?:share|keep|limit|cap)\s+)?([\w-]+)\s*"
        r"(?:<=|>=|at most|at least|exactly|below|to\s)",
        body,
    )
    on = on or find(rf"\A(?:share\s+)?([a-z][\w-]*)\s+{PART}\Z", body)
    on = on or find(rf"{PART}\s+((?:zone|region)\s+\S+|[\w-]+(?:\s+nodes)?)\Z", body)
    if part is None or on is None:
        return
    written = part[0].lower()
    amount = PARTS.get(written) or re.sub(r"[^\d.]", "", written) + "%"
    if find(rf"\A{FRACTION}\Z", written):
        amount = f"{float(written) * 100:g}%"
    named = re.sub(rf"(?i)\s+(?:strict|best effort|{ONLY}|{ENOUGH}|exactly)\b.*\Z", "", on[1])
    if (where := nodes_of(named)) is None:
        return
    where = negated(where) if find(r"\b(?:not|off|outside)\s+(?:on|in|of)\b", body) else where
    kind = "at least" if find(rf"{ENOUGH}|(?<!no )(?<!not ){ABOVE}", body) else "at most"
    kind = "exactly" if find(r"\bexactly\b", body) else kind
    yield (
        f'share "{kind} {amount}" {{ of replicas on nodes where {where} {kind} {amount}'
        f" {strength_of(body)} }}"
    )


def _spreads(body: str) -> Iterator[str]:
    """`spread across zones`, `balance over node.zone`, `evenly distributed between hosts`."""
    wide = find(
        rf"\A(?:in|use|across|over|span)?\s*{ENOUGH}\s+({N})\s+(?:different\s+)?(\w+)\Z", body
    )
    if wide is not None and (domain := domain_of(wide[2])) not in (None, "cluster"):
        expr = "node.name" if domain == "node" else str(domain).removeprefix("domain ")
        bound = f"skew at most 1 min domains {number_of(wide[1])} {strength_of(body)}"
        yield f'spread "{wide[2]}" {{ over {expr} {bound} }}'
        return
    if not find(
        r"\b(?:spread|cover|span|balanced?|distributed?|even(?:ly)?|equal(?:ly)?|uniform(?:ly)?|same\s+number)\b",
        body,
    ):
        return
    over = find(
        rf"\b(?:across|over|between|among|by|per|in|on|to|cover|span)\s+(?:all\s+|the\s+|different\s+|each\s+|every\s+)?{DOMAIN}",
        body,
    )
    both = find(
        r"\b(node|host|zone|region|rack)s?(?:\s+and|,)\s+(node|host|zone|region|rack)s?\b", body
    )
    if both is not None:
        head, tail = body[: both.start()], body[both.end() :]
        if re.search(r"\band\b|,", tail):
            # More than two.
            return
        yield " ".join(next(_spreads(f"{head}{place}s{tail}"), "") for place in both.groups())
        return
    domain = domain_of(over["domain"]) if over is not None else "domain node.zone"
    if domain is None or domain == "cluster":
        return
    expr = "node.name" if domain == "node" else domain.removeprefix("domain ")
    name = f"over {expr}".replace('"', "'")
    least = find(rf"{ENOUGH}\s*({N})\s+(?:different\s+)?{DOMAIN}", body)
    skew = find(rf"\b(?:difference|skew|imbalance|deviation)\b\D*?({N})\b", body)
    most = number_of(skew[1]) if skew is not None else 1
    domains = f" min domains {number_of(least[1])}" if least is not None else ""
    counted = counted_pods(pods_of(body)) if find(r"\bpods\s+where\b", body) else ""
    skewed = f"skew at most {most}{domains} {strength_of(body)}"
    yield f'spread "{name}" {{ {counted}over {expr} {skewed} }}'


_AFFINITY = (
    r"\A(?:pod[\s-]?)?(?:(?P<apart>anti[\s_-]?affinity|apart|separate)"
    r"|(?P<near>affinity|together|co-?locate))\b"
)


def _affinities(body: str) -> Iterator[str]:
    """`anti-affinity "x" { pods where … on same node }`."""
    verb = find(_AFFINITY, body)
    place = find(rf"\b(?:same|one|per|each|in|on)\s+(?:the\s+)?({PLACES})s?\b", body)
    if verb is None or place is None or (where := pods_of(body)) is None:
        return
    # Pods of the same label count themselves.
    bound = "at least 1" if verb["near"] else f"at most {int('pod.' in where)}"
    said = f"per {domain_of(place[1]) or 'node'} {bound} {strength_of(body)}"
    yield f'limit "{"near" if verb["near"] else "apart"}" {{ {counted_pods(where)}{said} }}'


def _neighbours(body: str) -> Iterator[str]:
    """`never beside a database`, `together with the cache`, `apart`."""
    two = find(
        r"\b(?:no|never)\s+two\s+([A-Za-z][\w-]*?)s?\s+(?:pods\s+)?(?:together|on|beside|per)\b",
        body,
    )
    if two is not None and not find(r"\b(?:zone|region|rack)", body):
        who = (
            "" if two[1] in ("pod", "replica") else f'pods where peer.labels["app"] == "{two[1]}" '
        )
        yield f'limit "apart" {{ {who}per node at most 1 strict }}'
        return
    other = find(
        rf"\b(?:on|in|to|across|use)\s+(?:different|separate|distinct|unique|(?:its|their)\s+own)\s+({PLACES})s?\b",
        body,
    )
    if other is not None and (domain := domain_of(other[1])) not in (None, "cluster"):
        counted = counted_pods(pods_of(body[: other.start()]))
        yield f'limit "apart" {{ {counted}per {domain} at most 1 {strength_of(body)} }}'
        return
    if find(
        r"\b(?:apart|separately|not together|anti-?affinity"
        r"|(?:from|with)\s+(?:each\s+other|one\s+another))\s*\Z",
        body,
    ):
        yield 'limit "apart" { per node at most 1 strict }'
        return
    if find(r"\b(?:node|pod)\.\w", body) and not find(r"\bpods\s+where\b", body):
        # An expression, and no neighbour.
        return
    is_of_node = find(rf"\b{NODES_WITH}(?!{OTHER_PODS})", body) and not find(r"\bshare\b", body)
    beside = None if is_of_node else find(rf"\b(?:{NODES_WITH}(?={OTHER_PODS})|{BESIDE}\s)", body)
    is_never = find(rf"(?<![\w\"]){NEVER}(?=\s|\()", body)
    is_away = find(r"\b(?:away|apart|separated?|far) from\b", body)
    is_about_pods = is_never and find(r"\bpods?\s+where\b", body)
    others = r"(?:images?|priority|requests?|limits?)\b"
    is_other = find(
        rf"\bwith\s+(?:an?\s+)?{others}|\bwith\s+\w+\s+as\b|\bfirst\Z|\b{NAME_OF_NODE}\Z", body
    )
    if is_other or not (beside or is_away or is_about_pods):
        return
    # Pods of one kind are not to be beside those of another one.
    middle = beside or is_away
    subject = pods_of(body[: middle.start()]) if middle is not None else None
    if (where := pods_beside(body[middle.start() :] if subject and middle else body)) is None:
        return
    when = f" when {subject.replace('peer.', 'pod.')}" if subject and subject != where else ""
    name = find(r'== "([^"]+)"', where)
    who = name[1] if name is not None else "others"
    per = "domain node.zone" if "zone" in body.lower() else "node"
    per = "domain node.region" if "region" in body.lower() else per
    if is_never or is_away:
        bound = f"per {per} at most 0 {strength_of(body)}"
        yield f'limit "never beside {who}"{when} {{ pods where {where} {bound} }}'
        return
    soft = "best effort weight 10"
    yield f'limit "beside {who}"{when} {{ pods where {where} per {per} at least 1 {soft} }}'


def _alike(body: str) -> Iterator[str]:
    """`all pods on a node have the same team`: there is none that differs."""
    found = find(
        rf"\A(?:all|every|each|only)\s+(?:other\s+)?pods?\s+(?:on|in)\s+(?:(?:the|a|one|each|same)\s+)*"
        rf"(?P<place>{PLACES})\s+(?:(?:must|should|may|has\s+to|have\s+to)\s+)?(?:have|has|be|are|is|with)\s+"
        r"(?P<what>.+)\Z",
        body,
    )
    if found is None or (domain := domain_of(found["place"])) is None:
        return
    own = find(r"([\w./-]+)\"?\]?\s*(?:==?|as)\s*pod\.labels\b", found["what"])
    where = same_owner(own[1]) if own is not None else pods_of(f"pods with {found['what']}")
    if where is not None and " == " in where:
        other = negated(where)
        if "pod.labels" in where:
            other = re.sub(r"\[(\"[^\"]*\")\] ==", r'[?\1].orValue("") !=', where, count=1)
        yield f'limit "alike" {{ pods where {other} per {domain} at most 0 {strength_of(body)} }}'


def _preferences(body: str) -> Iterator[str]:
    """`prefer node.zone == "a"`, `prefer spot`, `avoid spot`, `rather on ssd`."""
    found = find(
        r"\b(?P<word>prefer|preferably|favou?r|rather|ideally|avoid|try to avoid)\s+(?P<what>.+)\Z",
        body,
    ) or find(
        r"\A(?:score\s+)?(?P<what>.+?)\s+(?P<word>preferred|if possible|first|last)\s*\Z", body
    )
    if found is None:
        return
    what = re.sub(r"^[:{=\s]+|[}\s]+\Z|\s+(?:over|to|than)\s+\S.*\Z", "", found["what"])
    where = nodes_of(re.sub(r"^(?:to run |running )?(?:on|in)\s+", "", what))
    if where is None:
        return
    avoids = found["word"].lower() in ("avoid", "try to avoid", "last") or re.match(r"not\b", what)
    value, name = negated(where) if avoids else where, found["word"].lower()
    yield f'score "{name}" weight 10 {{ value {value} }}'


def _filters(body: str) -> Iterator[str]:
    """`only on spot nodes`, `never on node.zone == "a"`, `unless pod.priority > 0`."""
    unless = find(r"\b(unless|except when|except if)\s+(.+)\Z", body)
    if unless is not None:
        first = re.sub(r"^(?:require)\s+", "", body[: unless.start()]).strip(" {},;")
        if first and (where := nodes_of(first)):
            yield f'filter "unless" when !({unless[2].strip(" {}")}) {{ require {where} }}'
    either = find(r"\A(?:either\s+)?((?:zone|region)s?\s+.+\s+or\s+.+)\Z", body)
    if either is not None and (where := nodes_of(either[1])) is not None:
        yield f'filter "nodes" {{ require {where} }}'
        return
    one = find(
        rf"\A{DENIES}\s+(?:the\s+)?"
        r"(?:(?:node|host|machine)\s+\"?(?P<name>[\w.-]+)\"?|(?P<place>(?:zone|region)\s+\S+))\s*\Z",
        body,
    )
    if one is not None:
        where = nodes_of(one["place"]) if one["place"] else f'node.name == "{one["name"]}"'
        if where is not None:
            yield f'filter "excluded" {{ require {where.replace(" == ", " != ")} }}'
        return
    kind = find(rf"\A{DENIES}\s+(?:all\s+|the\s+)*([\w-]+)\s+(?:nodes|machines|hosts)\Z", body)
    besides = find(r"\A(?:unless|except(?:\s+(?:if|when|on|in))?)\s+(.+)\Z", body)
    if (no := kind or besides) is not None:
        said = next(wish_conditions.conditions(no[1]), None) or nodes_of(no[1])
        state = find(rf"\A{SUBJECT}(?P<state>\w+)\Z", no[1])
        said = said or (STATES.get(state["state"].lower()) if state is not None else None)
        if said is not None:
            yield f'filter "except" {{ require {negated(said)} }}'
        return
    denied = find(
        rf"\b{DENIES}\s+(?:all\s+|the\s+)*(?:nodes?|machines|hosts)\s+"
        r"((?:in|with|of|on|having|labell?ed|where)\s+.+)\Z",
        body,
    )
    if denied is not None:
        if (where := nodes_of(re.sub(r"^(?:in|of|on)\s+", "", denied[1]))) is not None:
            yield f'filter "denied" {{ require {negated(where)} }}'
        return
    found = find(
        r"\b(only|must be|must run|\Arun|never|not|don't|don't run|keep|stay|no|avoid)\s+"
        r"(?:(?:be\s+)?(?:run|schedul|plac|put|start|us)\w*\s+)?"
        r"(?:on|in|onto|at|off|away from|out of)\s+(.+)\Z",
        body,
    )
    if found is None and (
        on := find(
            r"(?:\A|\b(?:on|only|in|to|filter|use|select|choose|pick|want|need|require|allow|accept)\s+)"
            r"(?:(?:all|any|the)\s+)*nodes?\s+((?:labell?ed|with|having|where|in(?=\s+(?:zone|region)))\s.+?)(?:\s+only)?\Z",
            body,
        )
    ):
        if (where := nodes_of(on[1])) is not None:
            yield f'filter "nodes" {{ require {where} }}'
        return
    if found is None:
        found = find(r"\b(only|must be|never|not|no|avoid)\s+(.+)\Z", body)
    if found is None and (last := find(r"\A(.+?)\s+(?:nodes?|machines|hosts)\s+only\s*\Z", body)):
        if (where := nodes_of(last[1])) is not None:
            yield f'filter "only" {{ require {where} }}'
        return
    if found is None or (where := nodes_of(found[2])) is None:
        return
    if found[1].lower() == "not" and re.search(r"\bor\b|\band\b|&&|\|\|", where):
        # It denies the first condition alone.
        return
    is_never = found[1].lower() not in (
        "only",
        "must be",
        "must run",
        "run",
        "stay",
        "keep",
    ) or find(r"\b(?:off|away from|out of)\b", found[0])
    made = negated(where) if is_never else where
    yield f'filter "{found[1].lower()}" {{ require {made} }}'


_AMOUNT = r"(\d+(?:\.\d+)?)\s*(Ki|Mi|Gi|Ti|[KMGT]i?B|[kMGT]|m|cores?|cpus?)?\b"


def _states(body: str) -> Iterator[str]:
    """`node is ready and is not cordoned`, `node has label disktype`, `node has no taint gpu`."""
    made = []
    for part in re.split(r"\s+(?:and|but|&&)\s+", body.strip(" {};.")):
        if (said := next(wish_conditions.conditions(part), None)) is not None:
            made.append(said)
            continue
        kind = find(rf"\A{HAVING}(?P<what>gpus?)\Z", part)
        if kind is not None:
            made.append(_denied(WORDS_OF_NODES["gpu"], no=kind["no"]))
            continue
        zone = find(
            r"\A(?:(?:the\s+)?nodes?\s+)?(?:(?:is|be|to\s+be|must\s+be)\s+)?in\s+((?:zone|region)s?\s+.+)\Z",
            part,
        )
        if zone is not None and (where := nodes_of(zone[1])) is not None:
            made.append(where)
            continue
        state = find(rf"\A{SUBJECT}(?P<not>not\s+)?(?P<state>\w+)\Z", part)
        has = find(
            rf"\A{HAVING}(?P<kind>labels?|taints?)\s+(?P<key>\"?[\w./-]+\"?)"
            r"(?:\s*(?:=|==|:|is)\s*\"?(?P<value>[\w.-]+)\"?)?\Z",
            part,
        )
        if state is not None and (known := STATES.get(state["state"].lower())) is not None:
            negation = "!" if state["not"] else ""
            made.append(f"{negation}{known}".removeprefix("!!"))
        elif has is not None:
            key = print_string(has["key"].strip('"'))
            taints = f"node.spec.taints.exists(t, t.key == {key})"
            said = f"{key} in node.labels" if has["kind"].startswith("label") else taints
            if has["value"] and said is not taints:
                made.append(_denied(label_of("node", key[1:-1], has["value"]), no=has["no"]))
                continue
            without = f"!({said})" if said.startswith('"') else f"!{said}"
            made.append(without if has["no"] else said)
        else:
            return
    if made:
        yield f'filter "nodes" {{ require {" && ".join(made)} }}'


def _denied(condition: str, *, no: str | None) -> str:
    return negated(condition) if no else condition


def _rankings(body: str) -> Iterator[str]:
    """`prefer less loaded nodes`, `highest free memory first`, `ORDER BY node.free["cpu"] DESC`."""
    order = find(r"\border\s+by\s+(.+?)(?:\s+(asc|desc)\w*)?\s*\Z", body)
    if order is not None and order[1].startswith("node."):
        sign = "" if (order[2] or "asc").lower() == "desc" else "-"
        yield f'score "order" weight {sign}10 {{ value {order[1]} range minmax }}'
        return
    amount = find(
        rf"\b(?:(?P<most>{MOST_OF})|(?P<least>{LEAST_OF}))\s+(?:(?:free|available|unused)\s+)?"
        r"(?P<what>memory|ram|cpus?|cores)\b(?!\s+(?:used|usage|load))",
        body,
    )
    by = find(
        r"\A(?:score|rank|sort|order|prefer)?\b.*?\bby\s+(?:the\s+)?(?P<what>.+?)"
        r"(?:\s+(?P<sign>asc|desc)\w*|\s+(?P<low>lowest|low)\s+first|\s+(?:highest|high)\s+first)?\Z",
        body,
    )
    if by is not None and (read := wish_conditions.order_of(by["what"])) is not None:
        is_low = by["low"] or (by["sign"] or "").lower() == "asc"
        sign = "-" if is_low else ""
        yield f'score "order" weight {sign}10 {{ value {read} range minmax }}'
        return
    used = find(
        rf"\b(?:(?P<most>{MOST_OF})|(?P<least>{LEAST_OF}))\s+(?P<what>memory|ram|cpus?)\s+"
        r"(?:used|usage|load|utili[sz]ation)\b",
        body,
    )
    if used is not None:
        name = "memory" if used["what"].lower()[0] in "mr" else "cpu"
        ends = "0 .. 1" if used["most"] else "1 .. 0"
        yield f'score "{name} usage" weight 10 {{ value node.usage["{name}"] range {ends} }}'
        return
    if amount is not None:
        name = "memory" if amount["what"].lower()[0] in "mr" else "cpu"
        sign = "" if amount["most"] else "-"
        yield f'score "free {name}" weight {sign}10 {{ value node.free["{name}"] range minmax }}'
        return
    if find(
        r"\bimages?\b.*\b(?:pulled|cached|there|present|local(?:ly)?|exists?|available)\b", body
    ):
        there = "node.status.images.exists(i, c.image in i.names)"
        yield f'score "image" weight 10 {{ value pod.spec.containers.all(c, {there}) }}'
        return
    points = find(
        r"\A(?P<one>\d+)\s+(?:if|for|on)\s+(?P<what>.+?),?\s+"
        r"(?:(?:else|otherwise)\s+(?P<other>\d+)|(?P<last>\d+)\s+(?:otherwise|else))\Z",
        body,
    )
    if points is not None and (where := nodes_of(points["what"])) is not None:
        other = points["other"] or points["last"]
        yield f'score "points" weight 10 {{ value {where} ? {points["one"]} : {other} }}'
        return
    packed = find(r"\A(?:score\s+)?bin-?\s*pack\w*\s+(?:by|on)\s+(?P<what>memory|cpus?)\Z", body)
    if packed is not None:
        name = "memory" if packed["what"].lower()[0] == "m" else "cpu"
        yield f'score "pack" weight 10 {{ value node.usage["{name}"] range 0 .. 1 }}'
        return
    size = find(
        r"\b(?:(?P<big>big(?:ger|gest)?|large(?:r|st)?)|small(?:er|est)?)\s+(?:nodes?|machines|hosts)\b",
        body,
    )
    if size is not None and not find(r"\d|\bthan\b|\bonly\b", body):
        is_big = bool(size["big"]) != bool(find(r"\b(?:avoid|not|never|last)\b", body))
        sign = "" if is_big else "-"
        yield f'score "size" weight {sign}10 {{ value node.allocatable["cpu"] range minmax }}'
        return
    if find(
        r"\bbalanced?\s+(?:the\s+)?(?:cpu\s+and\s+memory|memory\s+and\s+cpu|resources?)\b", body
    ):
        apart = 'math.abs(node.usage["cpu"] - node.usage["memory"])'
        yield f'score "balanced" weight 10 {{ value {apart} range 1 .. 0 }}'
        return
    if find(
        r"\A(?:fill|pack)\w*\s+(?:up\s+)?(?:the\s+|one\s+)*(?:nodes?|machines|hosts|tight\w*)\b"
        r"|\bas\s+few\s+nodes\b",
        body,
    ):
        yield 'score "pack" weight 10 { value node.usage["cpu"] range 0 .. 1 }'
        return
    yield from _orders_of_nodes(body)


def _orders_of_nodes(body: str) -> Iterator[str]:
    """`nodes with the fewest pods`, `newest nodes`, `emptier nodes first`."""
    pods = find(
        rf"\A(?:\w+\s+)?(?:nodes?\s+with\s+)?(?:the\s+)?(?:(?P<most>{MOST_OF})|{LEAST_OF})\s+pods\Z",
        body,
    )
    if pods is not None:
        sign = "" if pods["most"] else "-"
        yield f'score "pods" weight {sign}10 {{ value size(node.pods) range minmax }}'
        return
    nodes = r"(?:nodes?|machines|hosts)"
    age = find(
        rf"\b(?:(?P<new>new(?:er|est)|young(?:er|est))|(?P<old>old(?:er|est)))\s+{nodes}\b", body
    )
    if age is not None and not find(r"\bthan\b", body):
        sign = "-" if age["new"] else ""
        yield f'score "age" weight {sign}10 {{ value node.age range minmax }}'
        return
    full = find(rf"\b(?:(?P<empty>{EMPTIER})|(?P<full>{FULLER}))\s+{nodes}\b", body)
    full = full or find(
        rf"\b{nodes}\s+(?:that\s+are\s+)?(?:(?P<empty>{EMPTIER})|(?P<full>{FULLER}))\b", body
    )
    if full is not None and not find(r"\d", body):
        is_empty = bool(full["empty"]) != bool(find(r"\b(?:avoid|not|never)\b", body))
        name, ends = ("emptier", "1 .. 0") if is_empty else ("fuller", "0 .. 1")
        yield f'score "{name} nodes" weight 10 {{ value node.usage["cpu"] range {ends} }}'


def _protections(body: str) -> Iterator[str]:
    """`protect pods with label tier=db from preemption`, `never evict pods of team ads`."""
    few = find(
        rf"\A(?:preempt\s+)?(?:{ONLY}|{BELOW})\s*({N})\s+(?:victims?|evictions?|pods?)\Z", body
    )
    if few is not None:
        less = int(find(rf"{BELOW}\s*{N}", body) is not None)
        yield f'preempt "few" {{ allow when size(victims) <= {number_of(few[1]) - less} }}'
        return
    if find(r"\Apreempt\s+(?:never|nobody|none|no\s+pods?|nothing)\Z", body):
        yield 'preempt "never" { protect victim where true }'
        return
    one = find(r"\bonly\s+(?:evict|preempt)\s+(pods?\s+.+)\Z", body)
    if one is not None and (where := pods_of(one[1])) is not None:
        others = negated(where.replace("peer.", "victim."))
        yield f'preempt "others" {{ protect victim where {others} }}'
        return
    found = find(
        rf"\b{KEPT}\s+(.+?)(?:\s+(?:from|against)\s+(?:preemption|evictions?|being\s+\w+))?\Z", body
    )
    if found is None:
        return
    where = pods_beside(f"with {found[1]}") if "node" not in found[1] else None
    kind = next((k for k in WORKLOADS if f"{k.lower()}s" == found[1].lower()), None)
    if kind is not None:
        where = f'peer.workload.kind == "{kind}"'
    elif re.fullmatch(r"(?:the\s+)?(?:namespace\s+)?kube-[a-z-]+", found[1]):
        where = f'peer.namespace == "{found[1].split()[-1]}"'
    said = None if where is not None else next(wish_conditions.conditions(found[1]), None)
    if said is not None and said.startswith("pod."):
        where = said.replace("pod.", "peer.")
    if where is not None:
        victims = where.replace("peer.", "victim.")
        label = re.fullmatch(r'victim\.labels\[("[^"]*")\] == ("[^"]*")', victims)
        if label is not None:
            victims = f'victim.labels[?{label[1]}].orValue("") == {label[2]}'
        yield f'preempt "protected" {{ protect victim where {victims} }}'


def _spares(body: str) -> Iterator[str]:
    """`keep 2 nodes empty`, `two spare nodes`."""
    found = find(
        rf"\b({N})\s+(?:{FREE}\s+(?:nodes?|machines|hosts)\b|(?:nodes?|machines|hosts)\s+{FREE}\b)",
        body,
    )
    if found is not None:
        least = number_of(found[1])
        bound = f"empty nodes at least {least} {strength_of(body)}"
        yield f'limit "spare nodes" {{ all pods where true {bound} }}'


def _groups(body: str) -> Iterator[str]:
    """`at least 3 nodes in the zone`, which is about a group of nodes."""
    found = find(
        rf"({ENOUGH}|{ABOVE}|{ONLY}|{BELOW})\s*({N})\s+(ready\s+)?(?:nodes?|machines|hosts)\s+"
        r"(?:in|per|of)\s+(?:the\s+|its\s+|each\s+|every\s+|a\s+)?(zone|region|rack|pool)s?\b",
        body,
    )
    if found is None:
        return
    signs = ((ENOUGH, ">="), (ABOVE, ">"), (ONLY, "<="), (BELOW, "<"))
    sign = next(sign for pattern, sign in signs if find(rf"\A{pattern}\Z", found[1].strip()))
    place = found[4].lower()
    by = f"node.{place}" if place in ("zone", "region") else f'node.labels["{place}"]'
    member = "ready" if found[3] else "nodes"
    said = f"{place}.{member} {sign} {number_of(found[2])}"
    yield f'group {place} by {by} filter "{place}" {{ require {said} }}'


def _targets(body: str) -> Iterator[str]:
    """`apply to pods in namespace shop`, `applies only to pods with label app=web`."""
    body = re.sub(
        r"(?i)\A(ignore|skip|exclude|only)\s+(?:for\s+)?(?:the\s+)?(?=(?:namespace|ns)\s)",
        lambda m: f"{'apply to' if m[1].lower() == 'only' else m[1]} pods in ",
        body,
    )
    found = find(
        r"\b(?:appl(?:y|ies)|select|target)\s+(?:only\s+)?(?:to\s+|for\s+)?(?:all\s+)?(pods?\s+.+)\Z",
        body,
    )
    other = find(
        r"\b(?:ignore|skip|exclude|except|excluding|leave\s+out|not\s+for)\s+(?:for\s+)?(?:all\s+)?(pods?\s+.+)\Z",
        body,
    )
    chosen = found or other
    if chosen is None or (where := pods_of(chosen[1])) is None:
        return
    where = where.replace("peer.", "pod.")
    yield f"for pods where {where if found is not None else negated(where)}"


def _fits(body: str) -> Iterator[str]:
    """`pod fits on node`."""
    if find(r"\b(?:pod\s+)?fits?\b(?!\w)|\benough\s+(?:room|space|resources)\b", body):
        both = " && ".join(f'node.free["{r}"] >= pod.requests["{r}"]' for r in ("cpu", "memory"))
        yield f'filter "fits" {{ require {both} }}'


def _gangs(body: str) -> Iterator[str]:
    """`all or nothing`, `all pods at once`, `gang "x" { size 4 }`."""
    size = find(
        rf"\Agang\s+(?:size|members?|count|replicas|min\w*|at\s+least)\s*[=:]?\s*({N})\s*"
        r"(?:of\s+\d+\s+(?:pods|replicas)\s*)?\Z",
        body,
    )
    wait = find(r"\Agang\s+wait\s+(?:for\s+|up\s+to\s+)?(\d+)\s*([a-z]+)\Z", body)
    if wait is not None and (unit := habits.UNITS.get(wait[2])) in ("s", "m", "h"):
        yield f'gang "together" {{ of replicas for at most {wait[1]}{unit} }}'
    if size is not None:
        yield f'gang "together" {{ of replicas at least {number_of(size[1])} }}'
    same = find(
        r"\ball\b.*\b(?:on|in)\s+(?:the\s+)?(?:same|one)\s+(\w+)(?!.*\b(?:have|has)\b)", body
    )
    if same is not None and (domain := domain_of(same[1])) not in (None, "cluster"):
        within = "node.name" if domain == "node" else str(domain).removeprefix("domain ")
        number = find(r"\ball\s+(\d+)\b", body)
        bound = f" at least {number[1]}" if number is not None else ""
        yield f'gang "together" {{ of replicas{bound} within {within} }}'
    if find(
        r"\b(all or nothing|all-or-nothing|at once|all (?:\w+ )?together|start together)\b", body
    ):
        place = find(r"\bwithin\s+(?:an?\s+|the\s+|one\s+)?(node\.[\w.]+|\w+)", body)
        domain = domain_of(place[1]) if place is not None else None
        expr = "node.name" if domain == "node" else (domain or "").removeprefix("domain ")
        if place is None or expr:
            within = f" within {expr}" if expr else ""
            yield f'gang "all or none" {{ of replicas{within} }}'
    least = find(
        rf"\bwait\s+(?:until|till|for)\s+(?:{ENOUGH}\s+)?({N})\s+(?:pods?|replicas?|members)\b",
        body,
    )
    if least is not None:
        yield f'gang "together" {{ of replicas at least {number_of(least[1])} }}'


READERS: tuple[Callable[[str], Iterator[str]], ...] = (
    sums,
    _protections,
    _targets,
    _groups,
    _spares,
    wish_conditions.filters,
    _states,
    _rankings,
    _shares,
    hours,
    limits,
    numbers,
    _spreads,
    _gangs,
    _affinities,
    _alike,
    _neighbours,
    _preferences,
    _filters,
    _fits,
)

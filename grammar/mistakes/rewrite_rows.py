"""Rewrite rows: habits that cannot be parsed, and the right text for each.

The first row that leads the parser further is the answer. `grammar.mistakes.rewrites` says how a
row is written, and `grammar.mistakes.foreign_texts` has what is no lexeme here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from grammar.messages import catalogue, habits, plain_words
from grammar.mistakes.rewrites import Rewrite
from grammar.syntax.lexemes import SHAPES
from grammar.tree.clauses import CLAUSE_WORDS

R = Rewrite
_BIG = "greater|more|above|over|exceeds|larger|older|higher|bigger|longer"
_SMALL = "less|fewer|below|under|smaller|younger|lower|shorter"
_NOTHING = "none|null|nil|undefined|empty|missing|absent"
_THERE = "defined|set|present"

# ---- between operands

_WORDED_OPERATORS = (
    R(f"{{a}} (is) {_BIG} (than) or equal|equals (to) {{b}}", "{a} >= {b}"),
    R(f"{{a}} (is) {_SMALL} (than) or equal|equals (to) {{b}}", "{a} <= {b}"),
    R(f"{{a}} (is) {_BIG} (than) {{b}}", "{a} > {b}"),
    R(f"{{a}} (is) {_SMALL} (than) {{b}}", "{a} < {b}"),
    R("{a} ^(is) at least {b}", "{a} >= {b}", needs="REQUIRE"),
    R("{a} ^(is) at most {b}", "{a} <= {b}", needs="REQUIRE"),
    R("{a} ^!|not in {b}", "!({a} in {b:list})", certain=True),
    R("{a} < (is|does|must|should) not (be) equal|equals|same (to|as) > {b}", "!="),
    R("{a} < (is|does|must|should) (be) equal|equals|same to|as > {b}", "=="),
    R("{a} < must|should not be > {b}", "!="),
    R("{a} < must|should be > {b}", "=="),
    R("{a} ^= ~ \\< {b}", "{a} <= {b}", certain=True),
    R("{a} ^one|any|among of {b}", "{a} in {b:list}"),
    R("{a} ^starts|begins with {b}", "{a}.startsWith({b})"),
    R("{a} ^ends with {b}", "{a}.endsWith({b})"),
    R("{a} ^is empty", "{a:empty}"),
    R("{a} ^is not empty", "{a:filled}"),
    R(f"{{a}} ^is not {_NOTHING}", "has({a})"),
    R(f"{{a}} ^is not {_THERE}", "!has({a})"),
    R(f"{{a}} ^is {_NOTHING}", "!has({a})"),
    R(f"{{a}} ^is {_THERE}", "has({a})"),
    R("{a} < ^is not > {b}", "!=", certain=True),
    R("{a} < ^is > {b}", "==", certain=True),
    R("{a} ^between {b} and|&& {c}", "{a:hours} >= {b} && {a} < {c}"),
    R("{a} ^between {b} and|&& {c}", "{a} >= {b} && {a} <= {c}"),
    R("{a} ^exists|present|defined $", "has({a})"),
    R("{a} ^missing|absent|doesnotexist $", "!has({a})"),
    R("{a} ^not exists|present|defined $", "!has({a})"),
    R("exists|defined|has {b}", "has({b:read})"),
    R("{a} ^like|ilike {s:string}", "{a}{s:like}"),
    R("{a} ^not like|ilike {s:string}", "!{a}{s:like}"),
    R("{a} ^has|have key|label|a|the {b}", "{b:quoted} in {a}"),
    # ---- what is not there
    R("{a} ??|?: {b}", "{a:optional}.orValue({b})"),
    R("{a} ??|?: {b}", '{a} != "" ? {a} : {b}'),
    # ---- a value, and its condition behind
    R("{d:argument} ^if {c:argument} else {e:expr}", "{c} ? {d} : {e}"),
    # ---- signs
    R("< ^{x:foreign} >", "", "leave out the `{x}`: names need no sign"),
    R("&& < ~ ^& >", "", "leave out this `&`"),
)


def _operator(word: str, here: str) -> Rewrite:
    """The row of an operator of another language."""
    sign = here.replace("{0} ", "").replace(" {1}", "")
    wrong = re.sub(r"([|<>^$(){}~])", r"\\\1", word) if len(word) < 3 else word
    if sign in ("&&", "||", "==", "!="):
        is_certain = sign in ("&&", "||") or word in ("=", "===", "!==", "<>")
        return R(f"{{a}} < ^{wrong} > {{b}}", sign, certain=is_certain)
    form = ":list" if "in {1}" in here else ":quoted" if "({1})" in here or "{1} in" in here else ""
    return R(f"{{a}} ^{wrong} {{b}}", here.replace("{0}", "{a}").replace("{1}", f"{{b{form}}}"))


OPERATORS = (
    *_WORDED_OPERATORS,
    *(_operator(word, row.here) for row in habits.OPERATORS for word in row.words),
)

# `not x == y` has two meanings, so it has no certain edit.
NEGATIONS = (
    R("< not {a} > $", "!{a}", "write `!`", certain=True),
    R("< not {a} >", "!{a}", "write `!`"),
)

# ---- what is said of each item of a list

_RETURNS = "{ (return) {e:argument} (;) }"
ITEMS_OF_LISTS = (
    R("{m:word} \\( {l:argument} , {v:word} =>|-> {e:expr} \\)", "{l}.{m:macro}({v}, {e})"),
    R("{m:word} \\( {l:argument} , lambda {v:word} : {e:expr} \\)", "{l}.{m:macro}({v}, {e})"),
    R("{a} . none|nonematch|nobody \\( {v:word} =>|-> {e:expr} \\)", "!{a}.exists({v}, {e})"),
    R(
        "{m:word} \\( (\\() {v:word} (\\)) =>|-> { (return) {e:argument} (;) } \\)",
        "{m:macro}({v}, {e})",
    ),
    R(
        "{m:word} \\( function \\( {v:word} \\) { (return) {e:argument} (;) } \\)",
        "{m:macro}({v}, {e})",
    ),
    R("{m:word} \\( \\( {v:word} , {w:word} \\) =>|-> {e:expr} \\)", "{m:macro}({v}, {w}, {e})"),
    R("{m:word} \\( (\\() {v:word} (\\)) =>|-> {e:expr} \\)", "{m:macro}({v}, {e})"),
    R("{m:word} \\( (lambda|\\|) {v:word} :|\\||;|in {e:expr} \\)", "{m:macro}({v}, {e})"),
    R("any \\( ([) {e:argument} ^for {v:word} in {l:argument} (]) \\)", "{l}.exists({v}, {e})"),
    R("all \\( ([) {e:argument} ^for {v:word} in {l:argument} (]) \\)", "{l}.all({v}, {e})"),
    R("[ {v:word} ^for {v:word} in {l:argument} if {c:expr} ]", "{l}.filter({v}, {c})"),
    R(
        "sum|max|min \\( ([) {e:argument} ^for {v:word} in {l:argument} (]) \\)",
        "{l}.map({v}, {e}).sum()",
    ),
    R("[ {e:argument} ^for {v:word} in {l:argument} ]", "{l}.map({v}, {e})"),
    R(
        "some|any {v:word} in {l} ;|,|:|satisfies {e:expr}",
        "require {l}.exists({v}, {e})",
        needs="REQUIRE",
    ),
    R("some|any|exists {v:word} in {l} (;|,|:|satisfies) {e:expr}", "{l}.exists({v}, {e})"),
    R("every|all {v:word} in {l} { {e:expr} }", "{l}.all({v}, {e})"),
    R("{a} [ (*) ] {e:expr}", "{a:rooted}.{e:quantifier}(x, x{e})"),
    R("{a} . {w:word} \\( ^* \\)", "size({a})"),
)

# ---- amounts, lists and brackets

_BETWEEN = "write two clauses, with `at least {n}` in one and `at most {m}` in the other"
AMOUNTS = (
    R("^between {n:amount} and {m:amount}", "", _BETWEEN, needs="EXACTLY", edits=False),
    *(
        R(f"most|least|exactly < (one|a) {said} >", part)
        for said, part in plain_words.FRACTIONS.items()
        if " " not in said
    ),
    R("< {n:number} ~ ^{u:unit} >", '"{n}{u:unit}"', amount=True, certain=True),
    R("< {n:number} ^{u:unit} >", '"{n}{u:unit}"', amount=True),
    R(
        "most|least|exactly < {n:number} %|percent|pct|percents|per_cent >",
        "{n}%",
        amount=True,
        certain=True,
    ),
    R("< {n:number} %|percent|pct of {a} >", "{n:percent} * {a}", amount=True),
    R(
        "{a} {o:any} {n:number} % ",
        "{a} / {a:allocatable} {o} {n:percent}",
        amount=True,
    ),
    R(
        "< {n:number} %|percent|pct|percents|per_cent >",
        "{n:percent}",
        "write `{made}` for a part of 1",
        amount=True,
    ),
    R("in < {s:string} , {t:texts} >", "[{s}, {t}]"),
    R("in|==|!=|= < \\( {e:expr} \\) >", "[{e}]"),
    R("in|==|!=|= < { {e:expr} } >", "[{e}]"),
    R(
        "require < \\( {e:argument} ^, {s:string} \\) >",
        " {e} message {s}",
        "write `require{made}`",
    ),
    R("{k:part} < { {e:expr} ^} >", " {e}", "write `{k}{made}`"),
    R("^{w:any}", "{w:ticked}"),
    R(
        "{a} < [ (0) : {b:expr} ] == {s:string} >",
        ".startsWith({s})",
        "write `{made}`, or `.substring(0, {b})` for the text alone",
    ),
)

# ---- signs and words that are too much or too few

_LEAVE_OUT = "leave out the `{x:sign}`"
_NO_SIGN = "leave out the `{x:comma}`: parts need no sign between them"
_BRACES = "leave out the `f`: braces in a text hold expressions"
SIGNS = (
    R("let {w:word} < ^:= >", "=", certain=True),
    R("let {w:word} < ^: {t:word} = >", " =", "write `let {w} = …` without a type"),
    R("let {w:word} < ^: >", " ="),
    R("let {w:word} < ^as|be|is|to >", "="),
    R("< ^= >", ":", only="COLON", certain=True),
    R("< ^- > {k:part}", "", "leave out the `-`: parts need no sign before them"),
    R("{k:part} < ^{x:any} >", "", "write `{k}` without `{x:sign}`", certain=True),
    R("{s:string} < ^{x:any} > {", "", _LEAVE_OUT, certain=True),
    R(
        "{s:string} < ^{x:any} > {k:part}",
        "",
        "leave out the `{x:sign}`",
        needs="LBRACE",
        certain=True,
    ),
    R(
        "< ^{x:any} > {k:part}",
        "",
        _NO_SIGN,
        needs="RBRACE",
        certain=True,
    ),
    R(
        "< ^{x:any} > }",
        "",
        _NO_SIGN,
        needs="RBRACE",
        certain=True,
    ),
    R("< ^,|; >", " &&", "write `&&` between conditions", needs="REQUIRE"),
    R(
        "message|detail < ^f > ~ {s:string}",
        "",
        "leave out the `f`: braces in a text hold expressions",
        certain=True,
    ),
    R("message|detail|description < {w:word} \\( {e:expr} \\) >", "{e:printed}"),
    R("message|detail < {t:expr} >", "{t:formatted}"),
    R("message|detail < {t:expr} >", "{t:template}"),
)

# ---- names and weights

_OWN_NAME = 'write `{k} "name" {x}`, with a name of its own'
_BEFORE_BLOCK = "write `score {s} weight 10 {x}`, with the weight before the block"
NAMES = (
    R("weight < ^{n:number} % >", "{n}"),
    R("weight < ^{s:string} >", "{s:digits}", certain=True),
    R("{k:item} < > ^{x:head}", '"name" ', _OWN_NAME, only="STRING NAME"),
    R("< ^\\( {s:string} \\) >", "{s}", only="STRING NAME", certain=True),
    R("effort < > ^{x:any}", "weight 10 ", "write `best effort weight 10`", only="WEIGHT"),
    R("{s:string} < ^{n:number} >", "weight {n}", only="WEIGHT", certain=True),
    R("{s:string} < > ^{x:any}", "weight 10 ", _BEFORE_BLOCK, only="WEIGHT"),
)

# ---- bounds and places

_PER = "CLUSTER DOMAIN GROUP NODE"
_BOUNDED = "no|not|maximum|max|up|limit|cap"
BOUNDS = (
    R("range {a} < > ^{n:number}", ".. ", "write `.. {n}`"),
    R("{n:number} < ^rounding (up|down) >", "", "remove it: only a percentage is rounded"),
    R("skew|repair < ^{n:amount} >", "at most {n}", only="AT"),
    R("at < ^{n:amount} >", "most {n}", only="MOST LEAST"),
    *(
        R(f"< ^{wrong} {{n:amount}} >", f"{here} {{n{form}}}", needs="EXACTLY")
        for wrong, here, form in (
            ("no|not more than", "at most", ""),
            ("no|not less|fewer than", "at least", ""),
            ("fewer|less|below|under (than)", "at most", ":less"),
            ("more|above|over (than)", "at least", ":more"),
            ("maximum|max of", "at most", ""),
            ("minimum|min of", "at least", ""),
            ("up|limit|cap to|at", "at most", ""),
            ("\\<", "at most", ":less"),
            ("\\>", "at least", ":more"),
            ("<=", "at most", ""),
            (">=", "at least", ""),
            ("==|=", "exactly", ""),
        )
    ),
    *(
        R(f"< ^{'|'.join(row.words)} (:|=) {{n:amount}} >", f"{row.here} {{n}}", needs="EXACTLY")
        for row in habits.PARTS
        if row.here in ("at most", "at least", "exactly")
    ),
    R("{x:noamount} < ^{n:amount} >", "at most {n}", needs="EXACTLY"),
    R("per < {a} >", "domain {a:of_node}"),
    R("per < ^{w:place} >", "{w:per}", "write `per {made}`", only=_PER),
)

# ---- words that are lacking, and groups

_INSIDE = "write `{made:line}`, inside the braces"
_LACKING = {
    "WHEN": "when",
    "WHERE": "where",
    "PODS": "pods where",
    "NODES": "nodes where",
    "EFFORT": "effort",
    "VICTIM": "victim where",
    "BY": "by",
    "UNTIL": "until",
}
LACKING = (
    R(
        "< in ^{x:word} [ {e:expr} ] { >",
        "{{ for pods where pod.namespace in [{e}]",
        _INSIDE,
        only="NAMESPACE",
    ),
    R("of < pods|nodes > ^{k:closes}", "replicas", "write `of replicas`", only="WHERE"),
    R("< ^{t:any} >", 'namespace "{t:bare}"', only="NAMESPACE"),
    R("< ^{n:number} >", "replicas at least {n}", only="PODS REPLICAS"),
    R("group < by ^{a} >", "{a:last} by {a:domain}", "write `group {made}`"),
    R("group < ^{s:string} > by", "{s:plain}"),
    R("group < ^{s:string} { (by) {a} } >", "{s:plain} by {a}"),
    R("count ^=|:", "", f"leave it out: {habits.OF_MANIFESTS}", edits=False),
    R("group ^{s:string}", "", f"leave it out: {habits.OF_MANIFESTS}", edits=False),
    *(
        row
        for terminal, word in _LACKING.items()
        for row in (
            R("< ^{w:word} > where", word.split()[0], only=terminal, certain=True),
            R("< ^with|if|when|that|having|for >", word.split()[0], only=terminal),
            R("< > ^{e:condition}", f"{word} ", f"write `{word} {{e:line}}`", only=terminal),
        )
    ),
)

# ---- clauses of others

_ITEM = "FILTER LET"
_DENY, _FILTER = ("|".join(row.words) for row in habits.CLAUSES[:2])
_TO_REQUIRE = "|".join(["require", *habits.PARTS[0].words, *habits.PARTS[1].words])
_CLAUSES_ARE = f"; {catalogue.CLAUSES_ARE}"
_OF_CLAUSE = "write `{made:line}`" + _CLAUSES_ARE
_ELSE = 'write the condition into the clause, as in `filter "x" when pod.priority > 0 {{`'
_SHAPES = {word: re.sub(r"([{}])", r"\1\1", shape) for word, shape in SHAPES.items()}
_INTO = f"write it into a clause, as in `{_SHAPES['filter']}`"
_PARAMETERS = 'declare them behind the name, as in `policy name (zone: string = "a") {{`'
_SOFT = "preferredDuringSchedulingIgnoredDuringExecution"
_AROUND = "write `filter`, and `require !(…)` around what must not be"


def _of_clause(row: habits.Habit) -> Iterator[Rewrite]:
    """The rows of a word for a clause, before a name or a part of the clause, and elsewhere."""
    words, hint = "|".join(row.words), f"write `{row.here}`{_CLAUSES_ARE}"
    is_clause = row.here in CLAUSE_WORDS
    for behind in (" {s:string}", " { {k:part}", " {k:part}") if is_clause else ("",):
        yield R(f"< ^{words} >{behind}", row.here, hint)
    yield R(f"^{words}", "", hint, edits=False)


CLAUSES = (
    R("< ^{e:alone} >", 'filter "rule" {{ require {e:of_rule} }}', "write `{made:line}`"),
    R("< ^{e:alone} >", "for pods where {e:of_pods}", "write `{made:line}`"),
    R("< ^{w:word} := >", "let {w} =", "write `{made} …`"),
    R("< ^priority|precedence|order (:|=) {n:number} >", "weight {n}"),
    R("} ^when|where", "", _ELSE, edits=False),
    R("^if|unless|else|otherwise|elif|elsif", "", _ELSE, edits=False),
    R("^test|policy|cluster", "", "write the {this} behind the `}}` of this policy", edits=False),
    R("^parameters|params|inputs", "", _PARAMETERS, edits=False),
    R("< ^{w:mode} >", "mode {w}"),
    R("^require|value|message|detail|missing", "", _INTO, edits=False),
    *(
        row
        for words, form in ((_DENY, "!({e})"), (_FILTER, "{e}"))
        for row in (
            R(
                f"< ^{words} {{s:string}} when|if|where {{e:before_block}} {{ {{b:inside}} }} >",
                f"filter {{s}} {{{{ require {form} {{b}} }}}}",
                _OF_CLAUSE,
            ),
            R(
                f"< ^{words} {{s:string}} {{ ({_TO_REQUIRE}) {{e:condition}} {{r:rest}} }} >",
                f"filter {{s}} {{{{ require {form} {{r}}}}}}",
                _OF_CLAUSE,
            ),
        )
    ),
    R(f"< ^{_DENY} {{e:alone}} >", 'filter "{this}" {{ require !({e:of_rule}) }}', _OF_CLAUSE),
    R(f"^{_DENY}", "", _AROUND + _CLAUSES_ARE, edits=False),
    R(f"^{_FILTER} : {_SOFT}", "", "write `score`" + _CLAUSES_ARE, edits=False),
    *(row for each in habits.CLAUSES[1:] for row in _of_clause(each)),
)

# ---- parts of clauses

_PREFERS = f"write a clause that prefers nodes, as in `{_SHAPES['score']}`"
_LEAVE_IT = "leave it out: {w:needless}"


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
        yield R(f"< {words} (if|when|that) {{e:expr}} >", "require !({e})", needs=terminal)
    if here in ("require", "value", "message", "detail"):
        yield R(f"< {words} (that) {{e:expr}} >", f"{here} {{e}}", needs=terminal)
    if here in ("strict", "best effort weight 10"):
        yield R(f"< {words} true|yes >", here, needs=terminal)
    yield R(f"< {words} >", here, needs=terminal)


PARTS = (
    R("< ^{a} >", "per {a:place}", needs="PER"),
    R("< ^{s:string} (:) >", "{s:part}", needs="MESSAGE", certain=True),
    R("< ^{a} >", "", "{a:without}", needs="MESSAGE"),
    R("< ^default > pass|fail", "missing", needs="MISSING"),
    R("^{w:needless}", "", _LEAVE_IT, needs="MESSAGE", edits=False),
    R("< ^whenunsatisfiable|strength|enforcement (:|=) {s:any} >", "{s:strength}", needs="STRICT"),
    R("< ^messageExpression (:|=) {s:string} >", "message {s:joined}", needs="MESSAGE"),
    *(row for each in habits.PARTS for row in _of_part(each)),
    *(
        R(
            f"^{word}",
            "",
            _PREFERS,
            needs="REQUIRE",
            edits=False,
        )
        for word in habits.CLAUSES[2].words
        if word not in ("order", "priority")
    ),
    R("< ^require >", "value", needs="VALUE"),
    R("< > ^{e:alone}", "require ", "write `require {e}`", needs="REQUIRE MESSAGE"),
    R("< > ^{e:alone}", "value ", "write `value {e}`", needs="VALUE MESSAGE"),
)

# ---- gangs and bindings

_IN_GANG = "FOR WITHIN"
_NO_CONDITION = "the pods of a gang have the same value, and no condition"
_SAME = "write `of pods {made}`"
GANGS = (
    R("for < ^{t:length} >", "at most {t}", only="AT"),
    R("for at < ^least >", "most", only="MOST"),
    R("< ^timeout|scheduletimeoutseconds (:|=) {t:length} >", "for at most {t}", needs="FOR"),
    R("< ^up to {t:length} >", "for at most {t}", needs="FOR"),
    R("wait {e:expr} < > ^}", "for at most 1m ", needs="FOR"),
    R("at < ^most >", "least", "write `at least`", only="LEAST", lacks="a gang has no `at most`"),
    R("< ^max >", "at least", needs=_IN_GANG, lacks="a gang has no `max`"),
    R("< ^exactly >", "at least", needs=_IN_GANG, lacks="a gang has no `exactly`"),
    *(
        R(
            f"< ^{wrong} >",
            "",
            f"leave out `{word}`: a gang is always strict",
            needs=_IN_GANG,
            lacks=f"a gang has no `{word}`",
        )
        for wrong, word in (
            ("strict", "strict"),
            ("best effort weight {n:number}", "best effort"),
            ("best effort", "best effort"),
        )
    ),
    R("< ^mutual >", "", "leave out `mutual`", needs=_IN_GANG, lacks="a gang has no `mutual`"),
    R(
        "< ^missing {w:word} >",
        "",
        "leave out `missing`",
        needs=_IN_GANG,
        lacks="a gang has no `missing`",
    ),
    R("of pods < ^where {e:expr} >", "by {e:key}", _SAME, only="BY", lacks=_NO_CONDITION),
    R("< ^over >", "within", needs=_IN_GANG),
    R("< ^per (domain|group) >", "within", needs=_IN_GANG),
    R("< ^topologykey (:|=) {t:any} >", "within {t:domain}", needs=_IN_GANG),
    R("< ^by >", "of pods by", needs=_IN_GANG),
    R(
        "^wait",
        "",
        "write it in a `bind` clause: only a binding waits",
        needs="REQUIRE",
        edits=False,
    ),
)

# ---- heads of policies and of clauses, and what stands between policies

_HEAD = "LBRACE LPAR IN"
_HOLDS = "leave out `strict`: what is required always holds"
_NO_ORDER = "leave out `priority {n}`: all of these must hold, in any order"
_OPEN = "write `{{`, and `require` behind it"
_DECLARED = 'write `{w}: string = "…"`, with its type and a default'
_IN_POLICY = "write `cluster policy name {{ {k} … }}`: clauses stand in a policy"
_INNER = "if|when|for|provided|given"
_IF = "if|when|where|for|provided|given"
_NOT = "unless|except|excluding|without"
_BEFORE = "write `{h} {s} when {e:line} {{`, with the condition before the block"
_CLAUSE = "{h:clause} {s:string} < {"
_BEFORE_NOT = _BEFORE.replace("{e:line}", "!({e:line})")
HEADS = (
    R("policy {w:word} < > ^namespace {t:any}", "in ", "write `in namespace {t}`", only=_HEAD),
    R("{s:string} < ^strict >", "", _HOLDS, only="LBRACE WHEN"),
    R("{s:string} < ^priority {n:number} >", "", _NO_ORDER, only="LBRACE WHEN"),
    R("filter {s:string} < ^where {e:condition} >", "{{ require {e} }}", only="LBRACE WHEN"),
    R("{s:string} < > ^require", "{{ ", _OPEN, only="LBRACE WHEN"),
    R("< ^with >", "", "leave out `with`", only="WEIGHT"),
    R("{w:word} ^,|\\)", "", _DECLARED, only="COLON", edits=False),
    R("< ^for namespace|ns {t:any} >", 'in namespace "{t:bare}"', only=_HEAD),
    R("< {x:any} > ^{k:item} {s:string}", "{x} {{", "write `{{` behind the head", only=_HEAD),
    R("< ^: > in|{|for", "", "leave out the `:`", only=_HEAD),
    R(
        "< ^priority|order|rank|precedence (:|=) {n:number} { >",
        "{{ weight {n}",
        _INSIDE,
        only=_HEAD,
    ),
    R("< ^if|when|where {e:before_block} { >", "{{ for pods where {e}", _INSIDE, only=_HEAD),
    R("< ^{k:item} {e:before_block} { >", "{{ {k} {e}", _INSIDE, only=_HEAD),
    R("policy < {w:words} > {|in", "{w:dashed}", only=_HEAD),
    R("< ^strict >", "", _HOLDS, needs="MESSAGE"),
    R(f"< ^{_IF} (if|when|where|pods) (where) {{e:before_block}} > {{", "when {e}", needs="WHEN"),
    R("< ^only if|when|for {e:before_block} > {", "when {e}", needs="WHEN"),
    R(f"< ^{_NOT} {{e:before_block}} > {{", "when !({e})", needs="WHEN"),
    R(
        "{h:clause} {s:string} < { ^if|when {e:before_block} { {b:inside} } } >",
        "when {e} {{ {b} }}",
        "write `{h} {s} {made}`, with the condition before the block",
    ),
    R(
        f"{{h:clause}} {{s:string}} < {{ ^{_INNER} (pods) (where) {{e:condition}} (then) >",
        "when {e} {{",
        _BEFORE,
    ),
    R(f"{_CLAUSE} ^only if|when {{e:condition}} >", "when {e} {{", _BEFORE),
    R(
        f"{{h:clause}} {{s:string}} < {{ {{b:inside}} ^(only) {_IF} {{e:condition}} >",
        "when {e} {{ {b}",
        _BEFORE,
    ),
    R(
        f"{{h:clause}} {{s:string}} < {{ {{b:inside}} ^{_NOT} {{e:condition}} >",
        "when !({e}) {{ {b}",
        _BEFORE_NOT,
    ),
    # ---- what a test expects
    *(
        R(f"< ^{'|'.join(row.words)}{wrong}", f"{row.here}{more}", hint, needs="REJECT")
        for row in habits.CHOICES["result"]
        for wrong, more, hint in (
            (" > {s:string} by", "", ""),
            (" > {s:string}", "", ""),
            (" {s:string} >", " {s} by {clause}", "write `{made}`, with the name of the clause"),
        )
        if (row.here in ("pass", "bound")) == (wrong == " > {s:string}") or "by" in wrong
    ),
    # ---- between policies
    R("< ^global|clusterwide policy {w:word} >", "cluster policy {w}", needs="POLICY"),
    R("< ^{x:word} policy {w:word} >", 'policy {w} in namespace "name"', needs="POLICY"),
    R("< ^clusterpolicy|clusterplacementpolicy|guardrail >", "cluster policy", needs="POLICY"),
    R(
        "< ^rule|package|constraint|resource|placementpolicy|job|group >",
        "policy",
        "write `policy name {{ … }}`",
        needs="POLICY",
    ),
    R(
        "^apiversion|kind|metadata|spec",
        "",
        "give the file the ending `.yaml`, if it is a manifest",
        needs="POLICY",
        edits=False,
    ),
    R("^{k:item}", "", _IN_POLICY, needs="POLICY", edits=False),
)

"""Habits: what people write who come from other languages, and what it is here.

Each row has the words, the languages in which they are right, and what to write in their place.
The parser and the checker look words up here when a text is wrong, never when it is right.
docs/habits.md shows every row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Habit:
    """Some words with one meaning elsewhere, and what they are here.

    In `here`, `{0}` is the first operand (of a method, what stands before the dot), `{1}` the next
    one. `kinds` are the types of the first operand for which the row holds; empty for all.
    `operands` is their number.
    """

    words: tuple[str, ...]
    origin: str
    here: str
    kinds: tuple[str, ...] = ()
    operands: int | None = None


def _row(words: str, origin: str, here: str, kinds: str = "", operands: int | None = None) -> Habit:
    return Habit(tuple(words.split()), origin, here, tuple(kinds.split()), operands)


# ---- between operands: `{0}` is what stands before, `{1}` what stands behind

OPERATORS = (
    _row("and AND & et", "Python, SQL", "{0} && {1}"),
    _row("or OR |", "Python, SQL", "{0} || {1}"),
    _row("= === eq equals Equals EQ", "SQL, JavaScript, Go templates", "{0} == {1}"),
    _row("!== <> ne NE NotEquals notEquals", "JavaScript, SQL, Go templates", "{0} != {1}"),
    _row("gt GT Gt GreaterThan", "Go templates, YAML", "{0} > {1}"),
    _row("lt LT Lt LessThan", "Go templates, YAML", "{0} < {1}"),
    _row("ge gte GE GreaterThanOrEquals =>", "Go templates, Kyverno", "{0} >= {1}"),
    _row("le lte LE LessThanOrEquals", "Go templates", "{0} <= {1}"),
    _row("In IN AnyIn AllIn oneOf isIn", "Kubernetes YAML, SQL, Kyverno", "{0} in {1}"),
    _row("NotIn notin NOTIN AnyNotIn AllNotIn", "Kubernetes YAML, Kyverno", "!({0} in {1})"),
    _row("=~ ~= ~ ~* matches MATCHES regexp rlike", "shells, Perl, Ruby, SQL", "{0}.matches({1})"),
    _row("!~ !~*", "Perl, Ruby", "!{0}.matches({1})"),
    _row("contains includes CONTAINS", "SQL and others", "{0}.contains({1})"),
    _row("has hasKey", "plain English", "{1} in {0}"),
    _row("startswith startsWith", "Kusto", "{0}.startsWith({1})"),
    _row("endswith endsWith", "Kusto", "{0}.endsWith({1})"),
    _row("mod MOD", "SQL", "{0} % {1}"),
    _row("div", "Pascal", "{0} / {1}"),
    _row("xor XOR ^", "SQL, Python", "{0} != {1}"),
)

# ---- units of amounts, which are texts here: the word, and the suffix that it is

UNITS: Mapping[str, str] = MappingProxyType(
    {suffix: suffix for suffix in "n u m k M G T P E Ki Mi Gi Ti Pi Ei h s d w ms us ns".split()}
    | {"K": "k", "KB": "k", "kB": "k", "kb": "k", "MB": "M", "mb": "M", "GB": "G", "gb": "G"}
    | {"gigabytes": "G", "gigabyte": "G", "megabytes": "M", "megabyte": "M"}
    | {"TB": "T", "tb": "T", "KiB": "Ki", "MiB": "Mi", "GiB": "Gi", "TiB": "Ti", "mi": "Mi"}
    | {"gi": "Gi", "ki": "Ki", "ti": "Ti", "g": "G", "millicores": "m", "milli": "m"}
    | dict.fromkeys("sec secs second seconds".split(), "s")
    | dict.fromkeys("min mins minute minutes".split(), "m")
    | dict.fromkeys("hr hrs hour hours".split(), "h")
    | {"day": "d", "days": "d", "week": "w", "weeks": "w"}
    | {"bytes": "", "cores": "", "core": "", "cpu": "", "cpus": "", "B": ""}
)
PERCENT = frozenset({"percent", "pct", "percents", "per_cent", "Percent"})

# ---- functions and methods

_S, _L, _M, _O = "string", "list", "map", "optional"
CALLS = (
    _row("len length count Size Len Count Length", "Python, Go, Rego, SQL", "size({0})", "", 1),
    _row("isEmpty empty is_empty", "Java, PHP", "size({0}) == 0", f"{_S} {_L} {_M}", 1),
    _row("notEmpty nonEmpty isNotEmpty", "Java", "size({0}) > 0", f"{_S} {_L} {_M}", 1),
    _row("max Max greatest MAX maximum", "Python, Go, SQL", "math.greatest({0}, {1})", "", 2),
    _row("min Min least MIN minimum", "Python, Go, SQL", "math.least({0}, {1})", "", 2),
    _row("max Max MAX", "Python, SQL", "{0}.max()", _L, 1),
    _row("min Min MIN", "Python, SQL", "{0}.min()", _L, 1),
    _row("sum Sum SUM total", "Python, SQL", "{0}.sum()", _L, 1),
    _row("avg mean AVG average", "SQL", "{0}.sum() / size({0})", _L, 1),
    _row("list tuple", "Python", "{0}", _L, 1),
    _row("sorted sort_by order", "Python", "{0}.sort()", _L, 1),
    _row("reversed", "Python", "{0}.reverse()", "", 1),
    _row("unique uniq set to_set", "Ruby, Python", "{0}.distinct()", _L, 1),
    _row("abs Abs", "Python, SQL", "math.abs({0})", "", 1),
    _row("ceil ceiling Ceil", "Rego, SQL", "math.ceil({0})", "", 1),
    _row("floor Floor", "Rego, SQL", "math.floor({0})", "", 1),
    _row("round Round", "Python, Rego, SQL", "math.round({0})", "", 1),
    _row("sqrt", "Python, SQL", "math.sqrt({0})", "", 1),
    _row("str toString to_string ToString String sprint", "Python, Java", "string({0})", "", 1),
    _row("float parseFloat toDouble to_number toFloat float64", "Python", "double({0})", "", 1),
    _row(
        "parseInt Number toInt integer int64 Atoi atoi to_int parse_int toNumber number",
        "JavaScript, Go",
        "int({0})",
        "",
        1,
    ),
    _row("toBool to_bool parseBool Boolean boolean", "JavaScript, Go", "bool({0})", "", 1),
    _row("contains includes has member Contains include in_array", "JavaScript", "{1} in {0}", _L),
    _row(
        "contains includes has hasKey has_key containsKey hasOwnProperty contains_key exists_key",
        "JavaScript, Java",
        "{1} in {0}",
        _M,
        2,
    ),
    _row("includes has include Contains strContains", "JavaScript", "{0}.contains({1})", _S, 2),
    _row("get getOrDefault lookup fetch get_or_default", "Python", "{0}[?{1}].orValue({2})", _M, 3),
    _row("get lookup fetch getOrDefault index", "Python, Go templates", "{0}[{1}]", _M, 2),
    _row("get at nth index", "Java", "{0}[{1}]", _L, 2),
    _row(
        "toLowerCase lower toLower LOWER ToLower downcase lowercase to_lower tolower",
        "JavaScript, Python, SQL",
        "{0}.lowerAscii()",
        "",
        1,
    ),
    _row(
        "toUpperCase upper toUpper UPPER ToUpper upcase uppercase to_upper toupper",
        "JavaScript, Python, SQL",
        "{0}.upperAscii()",
        "",
        1,
    ),
    _row("strip trimSpace TRIM trim_space lstrip rstrip TrimSpace", "Python", "{0}.trim()", "", 1),
    _row(
        "startswith hasPrefix starts_with has_prefix StartsWith HasPrefix beginsWith prefix",
        "Python, Go, Rego",
        "{0}.startsWith({1})",
        _S,
        2,
    ),
    _row(
        "endswith hasSuffix ends_with has_suffix EndsWith HasSuffix suffix",
        "Python, Go, Rego",
        "{0}.endsWith({1})",
        _S,
        2,
    ),
    _row(
        "match test search regex regexMatch match_regex isMatch fullmatch matchesRegex",
        "JavaScript, Python",
        "{0}.matches({1})",
        _S,
        2,
    ),
    _row("concat join strings.Join", "Rego, Terraform, Go", "{1}.join({0})", _S, 2),
    _row("parseInt Number.parseInt", "JavaScript", "int({0})", _S, 2),
    _row("re_match", "Rego", "{1}.matches({0})", "", 2),
    _row("regex.match re.match re.search regexp.MatchString", "Rego", "{1}.matches({0})", "", 2),
    _row("version Version parseVersion semver.parse", "Python, Nomad", "semver({0}, true)", "", 1),
    _row("hour hours", "Python", "{0}.getHours()", "timestamp", 1),
    _row("minute minutes", "Python", "{0}.getMinutes()", "timestamp", 1),
    _row(
        "weekday dayOfWeek day_of_week isoweekday", "Python", "{0}.getDayOfWeek()", "timestamp", 1
    ),
    _row("isWeekend", "date libraries", "{0}.getDayOfWeek() in [0, 6]", "timestamp", 1),
    _row("isWeekday", "date libraries", "!({0}.getDayOfWeek() in [0, 6])", "timestamp", 1),
    _row(
        "inCIDR cidrContains in_cidr ipInRange",
        "network libraries",
        "cidr({1}).containsIP({0})",
        "",
        2,
    ),
    _row("in isIn oneOf isOneOf isAnyOf", "query builders", "{0} in {1}", "", 2),
    _row("sprintf Sprintf", "Rego, Go", "{0}.format({1})", "", 2),
    _row("month", "Python", "{0}.getMonth()", "timestamp", 1),
    _row("substr slice substring mid", "SQL", "{0}.substring({1}, {2})", _S, 3),
    _row("replaceAll replace_all gsub", "Java, Ruby", "{0}.replace({1}, {2})", _S, 3),
    _row("equals Equals eq equal isEqualTo is", "Java, Go templates", "{0} == {1}", "", 2),
    _row("ne notEquals not_equal", "Go templates", "{0} != {1}", "", 2),
    _row("gt greaterThan", "Go templates", "{0} > {1}", "", 2),
    _row("ge gte", "Go templates", "{0} >= {1}", "", 2),
    _row("lt lessThan", "Go templates", "{0} < {1}", "", 2),
    _row("le lte", "Go templates", "{0} <= {1}", "", 2),
    _row("and AND", "Go templates", "{0} && {1}", "", 2),
    _row("or OR", "Go templates", "{0} || {1}", "", 2),
    _row("xor XOR", "Go templates, SQL", "{0} != {1}", "", 2),
    _row("not NOT negate", "Go templates, Rego", "!({0})", "bool", 1),
    _row(
        "equalsIgnoreCase EqualFold",
        "Java, Go",
        "{0}.lowerAscii() == {1}.lowerAscii()",
        _S,
        2,
    ),
    _row("orElse or_else getOrElse unwrap_or default unwrapOr", "Java", "{0}.orValue({1})", _O, 2),
    _row("isPresent isSome is_some present", "Java, Rust", "{0}.hasValue()", _O, 1),
    _row("get unwrap", "Java, Rust", "{0}.value()", _O, 1),
    _row("keys Keys", "Python, Go", "{0}.map(key, key)", _M, 1),
    _row("values Values", "Python", "{0}.transformList(key, value, value)", _M, 1),
    _row("keys object.keys Object.keys", "JavaScript, Rego", "{0}.map(key, key)", "", 1),
    _row("object.get", "Rego", "{0}[?{1}].orValue({2})", "", 3),
    _row("IF iif ifelse cond ternary", "SQL, Terraform", "{0} ? {1} : {2}", "", 3),
    _row("head", "Lisp", "{0}[0]", _L, 1),
    _row("range Range", "Python", "lists.range({0})", "int", 1),
    _row("strings.Contains", "Go", "{0}.contains({1})", "", 2),
    _row("strings.HasPrefix strings.StartsWith", "Go", "{0}.startsWith({1})", "", 2),
    _row("strings.HasSuffix strings.EndsWith", "Go", "{0}.endsWith({1})", "", 2),
    _row("strings.ToLower", "Go", "{0}.lowerAscii()", "", 1),
    _row("strings.ToUpper", "Go", "{0}.upperAscii()", "", 1),
    _row("Math.max math.max math.Max", "JavaScript, Go", "math.greatest({0}, {1})", "", 2),
    _row("Math.min math.min math.Min", "JavaScript, Go", "math.least({0}, {1})", "", 2),
    _row("Math.floor math.Floor", "JavaScript, Go", "math.floor({0})", "", 1),
    _row("Math.ceil math.Ceil", "JavaScript, Go", "math.ceil({0})", "", 1),
    _row("Math.round math.Round", "JavaScript, Go", "math.round({0})", "", 1),
    _row("Math.abs math.Abs", "JavaScript, Go", "math.abs({0})", "", 1),
    _row("now Now current_timestamp NOW getdate time", "SQL, Go", "now", "", 0),
    _row("time.now time.Now Date.now datetime.now", "Go, Python", "now", "", 0),
    _row("seconds", "other libraries", "duration(string({0}) + 's')", "int", 1),
    _row("minutes", "other libraries", "duration(string({0}) + 'm')", "int", 1),
    _row("days", "other libraries", "duration(string({0}) + 'd')", "int", 1),
    _row("hours", "other libraries", "duration(string({0}) + 'h')", "int", 1),
)
# Functions that ask whether something is there.
PRESENCE = _row(
    "exists defined isset is_set isSet present isDefined exist hasLabel hasValue notNull "
    "is_not_null isNotNull is_defined can isPresent",
    "PHP, SQL and others",
    "has({0})",
    "",
    1,
)
ABSENCE = _row(
    "isNull is_null isNil undefined absent is_absent missing notExists not_exists isUndefined",
    "SQL, Go and others",
    "!has({0})",
    "",
    1,
)
DEFAULTS = _row(
    "default coalesce COALESCE ifnull IFNULL nvl NVL dig getOr try",
    "SQL, Go templates",
    "{0}[?{1}].orValue({2})",
    "",
    2,
)

# Functions of others that can mean nothing here, and what stands closest.

_BY_CHANCE = (
    "nothing is by chance here, so that each answer can be explained; kube-scheduler chooses among"
    " nodes of the same score"
)
OF_PROMETHEUS = (
    'ask for it in a table, as in `data "load" { from prometheus "http://…" query "…" key'
    ' "node" }`, and read it as `data.load[node.name].value`'
)
NO_REQUESTS = (
    "a policy asks nobody while it decides; write `data` for a table that is read before, as in"
    ' `data "load" { from prometheus "http://…" query "…" key "node" }`'
)
ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            "leastallocated leastrequested nodesleastallocated spreadout".split(),
            'write `value node.usage["cpu"] range 1 .. 0`, which prefers emptier nodes',
        ),
        **dict.fromkeys(
            "mostallocated mostrequested binpack binpacking packing bestfit".split(),
            'write `value node.usage["cpu"] range 0 .. 1`, which prefers fuller nodes',
        ),
        **dict.fromkeys(
            "balanced balancedallocation balance balancedresourceallocation".split(),
            'write `value math.abs(node.usage["cpu"] - node.usage["memory"]) range 1 .. 0`',
        ),
        **dict.fromkeys(
            "random rand randint shuffle sample uniform math.random".split(), _BY_CHANCE
        ),
        **dict.fromkeys(
            "cron crontab schedule cronmatch matchescron during".split(),
            "write the hours and the days, as in `now.getHours() >= 22 || now.getHours() < 6`",
        ),
        **dict.fromkeys(
            "http httpget fetch curl request api query prometheus promql metric metrics"
            " http.send externaldata".split(),
            NO_REQUESTS,
        ),
        **dict.fromkeys(
            "env getenv os.getenv readfile file open".split(),
            "a policy has parameters for this, as in `policy name (zone: string) {`",
        ),
        **dict.fromkeys(
            "print println printf console.log debug trace".split(),
            "leave it out: `message` says why a node is rejected, and `placet trace` shows each"
            " value",
        ),
        **dict.fromkeys(
            "tolerate tolerates toleratestaints toleratestaint cantolerate".split(),
            "leave it out: kube-scheduler compares the tolerations of the pod with the taints",
        ),
        **dict.fromkeys(
            "isstring isnumber isint isinteger isfloat isdouble isbool isboolean islist isarray"
            " ismap isobject isdict isduration istimestamp isinstance typeof".split(),
            "leave it out: each value has one type, which is known before a policy is in force",
        ),
        **dict.fromkeys(
            "sleep wait retry after".split(),
            "a policy never waits; kube-scheduler tries the pod again when the cluster changes",
        ),
    }
)

# ---- macros: a test or a change of each item

MACROS = (
    _row("any some anyMatch contains_any Any ANY one_of exist", "Python, JavaScript", "exists"),
    _row("every allMatch forall for_all forEach All each", "JavaScript, Java", "all"),
    _row("where select filterBy find_all grep keep findAll", "SQL, Ruby", "filter"),
    _row("collect transform apply flatMap project", "Ruby, Java", "map"),
    _row("one exactlyOne single", "Ruby", "exists_one"),
    _row("none noneMatch nobody none_of noneOf not_any notAny", "Ruby, Java", "!exists"),
)

# ---- names that stand alone

NAMES = (
    _row("True TRUE yes YES on Yes", "Python, YAML", "true"),
    _row("False FALSE no NO off No", "Python, YAML", "false"),
    _row("None nil undefined Null NULL nullptr", "Python, Go, JavaScript, SQL", "null"),
    _row("object self this Pod input obj resource review request", "CEL in Kubernetes", "pod"),
    _row("Node candidate host nodeInfo machine server target", "Go", "node"),
    _row("namespaceObj ns Namespace", "CEL in Kubernetes", "namespaceObject"),
    _row("time today current_time NOW Now", "SQL", "now"),
)

# ---- fields: the record, and the expression over it. Fields that are deeper in the same object
# need no row: the schema has them.

FIELDS: Mapping[str, tuple[Habit, ...]] = MappingProxyType(
    {
        "Node": (
            _row("hostname nodeName hostName", "Kubernetes YAML", "{0}.name"),
            _row("cpu cpus cores millicpu", "other schedulers", '{0}.free["cpu"]'),
            _row("memory mem ram", "other schedulers", '{0}.free["memory"]'),
            _row("gpu gpus", "other schedulers", '{0}.free["nvidia.com/gpu"]'),
            _row("available idle remaining gres", "other schedulers", "{0}.free"),
            _row("used utilization utilisation load", "other schedulers", "{0}.usage"),
            _row("arch architecture", "kubectl", '{0}.labels["kubernetes.io/arch"]'),
            _row("os operatingSystem", "kubectl", '{0}.labels["kubernetes.io/os"]'),
            _row(
                "instanceType instance_type flavor machineType",
                "cloud providers",
                '{0}.labels["node.kubernetes.io/instance-type"]',
            ),
            _row("cordoned drained disabled", "kubectl", "{0}.spec.unschedulable"),
            _row("schedulable enabled", "other schedulers", "!{0}.spec.unschedulable"),
            _row("version kubeVersion", "kubectl", "{0}.status.nodeInfo.kubeletVersion"),
            _row("isReady Ready healthy", "client libraries", "{0}.ready"),
            _row("podCount numPods pod_count", "other schedulers", "size({0}.pods)"),
            _row("availabilityZone az failureDomain", "cloud providers", "{0}.zone"),
            _row("tags metadataLabels nodeLabels", "cloud providers", "{0}.labels"),
            _row("features properties attributes meta", "Slurm, Nomad", "{0}.labels"),
            _row("creationTime createdAt created", "other", "{0}.metadata.creationTimestamp"),
        ),
        "Pod": (
            _row("podName", "Kubernetes YAML", "{0}.name"),
            _row("ns", "kubectl", "{0}.namespace"),
            _row("gpu gpus", "other schedulers", '{0}.requests["nvidia.com/gpu"]'),
            _row("cpu cpuRequest", "other schedulers", '{0}.requests["cpu"]'),
            _row("memory mem memoryRequest", "other schedulers", '{0}.requests["memory"]'),
            _row("node host", "kubectl", "{0}.spec.nodeName"),
            _row("priorityClass", "kubectl", "{0}.spec.priorityClassName"),
            _row("serviceAccount", "kubectl", "{0}.spec.serviceAccountName"),
            _row("replicas", "Kubernetes YAML", "{0}.workload.replicas"),
            _row("deployment ownerName", "kubectl", "{0}.workload.name"),
            _row("owner controller ownerReferences", "kubectl", "{0}.workload"),
            _row("ip", "kubectl", "{0}.status.podIP"),
            _row("app", "kubectl", '{0}.labels["app"]'),
            _row("resources", "Kubernetes YAML", "{0}.requests"),
            _row("scheduler", "kubectl", "{0}.spec.schedulerName"),
            _row("tags", "cloud providers", "{0}.labels"),
            _row("creationTime createdAt created", "other", "{0}.metadata.creationTimestamp"),
        ),
        "PodSpec": (_row("replicas", "Kubernetes YAML", "pod.workload.replicas"),),
        "ResourceRequirements": (
            _row("cpu", "other schedulers", '{0}.requests["cpu"]'),
            _row("memory mem", "other schedulers", '{0}.requests["memory"]'),
        ),
        "Peer": (
            _row("creationTimestamp", "Kubernetes YAML", "{0}.created"),
            _row("node host hostname", "kubectl", "{0}.nodeName"),
            _row("app", "kubectl", '{0}.labels["app"]'),
            _row("resources", "Kubernetes YAML", "{0}.requests"),
            _row("cpu", "other schedulers", '{0}.requests["cpu"]'),
            _row("memory", "other schedulers", '{0}.requests["memory"]'),
            _row("ns", "kubectl", "{0}.namespace"),
            _row("ownerReferences owner deployment controller", "kubectl", "{0}.workload"),
        ),
    }
)

# ---- clauses and other items of a policy

CLAUSES = (
    _row(
        "deny violation forbid reject block exclude prohibit refuse avoid disallow",
        "Rego, Kyverno",
        "filter",
    ),
    _row(
        "constraint rule require validate validation assert affinity nodeAffinity nodeSelector "
        "allow permit predicate check must condition selector hard match select restrict "
        "restriction admit requirement validations nodes tolerations taint "
        "requiredDuringSchedulingIgnoredDuringExecution",
        "Nomad, Kyverno, Kubernetes YAML",
        "filter",
    ),
    _row(
        "prefer preference preferred rank prioritize priority favor soft scoring order sort best "
        "prefers preferences rate preferredDuringSchedulingIgnoredDuringExecution",
        "Kubernetes YAML, ClassAds",
        "score",
    ),
    _row(
        "topologySpreadConstraints topologySpread topology spreadConstraint balance distribute "
        "spreading topologySpreadConstraint even",
        "Kubernetes YAML, Nomad",
        "spread",
    ),
    _row(
        "antiAffinity podAntiAffinity podAffinity max quota cap cardinality atMost maximum "
        "exclusive distinct_hosts distinct_property anti_affinity",
        "Kubernetes YAML, Nomad, YARN",
        "limit",
    ),
    _row(
        "ratio percentage percent split portion proportion targetSize", "PlacementPolicy", "share"
    ),
    _row(
        "podGroup pod_group coscheduling gangScheduling allOrNothing schedulingGroup",
        "coscheduling, Volcano, Kubernetes YAML",
        "gang",
    ),
    _row(
        "groupBy group_by nodeGroup node_group nodePool partition aggregate",
        "SQL, cloud providers",
        "group",
    ),
    _row("countIf count_if countPods podCount tally total", "SQL, spreadsheets", "count"),
    _row("preemption evict eviction victims disruption protect", "Kubernetes", "preempt"),
    _row("context configMap lookup externalData table source", "Kyverno", "data"),
    _row("binding prebind permitBind", "kube-scheduler", "bind"),
    _row("include extends inherit inherits uses", "programming languages", "use"),
    _row("var const set define variable local variables", "JavaScript, Go", "let"),
    _row("func function fn fun macro", "programming languages", "def"),
    _row("failurePolicy onError errors", "ValidatingAdmissionPolicy", "failure"),
    _row("desc summary about doc comment", "YAML", "description"),
    _row(
        "enforcement enforcementAction validationActions validationFailureAction failureAction"
        " action dryRun",
        "Gatekeeper, Kyverno",
        "mode",
    ),
    _row(
        "matchConditions podSelector appliesTo targets target scope subject where when if",
        "ValidatingAdmissionPolicy, Kubernetes YAML",
        "for pods where",
    ),
)

# ---- parts of clauses: the first word of each here is one of this language

PARTS = (
    _row(
        "expr expression condition rule match where assert must validate test ensure if check "
        "cel validations allow matchExpressions nodeSelector accept return returns",
        "ValidatingAdmissionPolicy, Kyverno",
        "require",
    ),
    _row("deny forbid reject refuse disallow", "Rego, Kyverno", "require !"),
    _row("msg reason text error messageExpression say", "Rego, YAML", "message"),
    _row("explain details description note info", "YAML", "detail"),
    _row(
        "expr expression score points rank formula by return returns prefer prefers",
        "YAML",
        "value",
    ),
    _row("if unless", "programming languages", "when"),
    _row("topologyKey topology key across domain spread_over per", "Kubernetes YAML", "over"),
    _row("over", "the spread of this language", "per domain"),
    _row("maxSkew max_skew", "Kubernetes YAML", "skew at most"),
    _row("minDomains min_domains", "Kubernetes YAML", "min domains"),
    _row("max maximum atMost at_most max_count upTo limit upto most", "Nomad, YARN", "at most"),
    _row("min minimum atLeast at_least min_count least", "YARN", "at least"),
    _row(
        "minMember min_member minAvailable minCount minTaskMember",
        "coscheduling, Volcano, Kubernetes YAML",
        "at least",
    ),
    _row(
        "timeout scheduleTimeoutSeconds timeoutSeconds waitTimeout",
        "coscheduling, Kueue",
        "for at most",
    ),
    _row(
        "topologyKey topology requiredTopology highestTierAllowed over per",
        "Kueue, Volcano",
        "within",
    ),
    _row("exact equals exactly_ equal precisely target", "programming languages", "exactly"),
    _row("labelSelector selector podSelector matchLabels peers", "Kubernetes YAML", "pods where"),
    _row("replicas", "Kubernetes YAML", "of replicas"),
    _row("onto nodeSelector where nodes target placement", "Kubernetes YAML", "on nodes where"),
    _row(
        "hard required mandatory must enforced DoNotSchedule enforce "
        "requiredDuringSchedulingIgnoredDuringExecution",
        "Kubernetes YAML",
        "strict",
    ),
    _row(
        "soft preferred besteffort best_effort bestEffort ScheduleAnyway prefer optional "
        "preferredDuringSchedulingIgnoredDuringExecution",
        "Kubernetes YAML",
        "best effort weight 10",
    ),
    _row("whenUnsatisfiable strength enforcement", "Kubernetes YAML", "strict"),
    _row("default onMissing fallback absent otherwise else", "programming languages", "missing"),
    _row("scale normalize between bounds", "programming languages", "range"),
    _row("spare exclude never", "kube-scheduler", "protect victim where"),
    _row("order_by orderBy sort", "SQL", "keep 1 by"),
    _row("round rounded rounds", "plain English", "rounding"),
    _row("roundUp round_up ceil ceiling", "programming languages", "rounding up"),
    _row("roundDown round_down floor", "programming languages", "rounding down"),
)

# Words for the weight of a score, which is a number.
WEIGHTS: Mapping[str, int] = MappingProxyType(
    {"low": 10, "weak": 10, "medium": 50, "normal": 50, "default": 50, "high": 100, "strong": 100}
)

# Words for a score, which is a number from 0 to 100.
POINTS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys("high highest best good yes max full preferred prefer".split(), "100")
    | dict.fromkeys("medium normal ok average half".split(), "50")
    | dict.fromkeys("low lowest worst bad no min none zero avoid".split(), "0")
)

# ---- words where the language has few: of `mode`, `failure` and `missing`

CHOICES: Mapping[str, tuple[Habit, ...]] = MappingProxyType(
    {
        "mode": (
            _row(
                "dryrun dryRun dry warn Audit Warn log report test monitor", "Gatekeeper", "audit"
            ),
            _row("Enforce deny Deny enforcing on active enabled strict", "Gatekeeper", "enforce"),
        ),
        "result": (
            _row("fail fails deny denied rejected reject", "test frameworks", "reject"),
            _row("passes allow allowed accept ok success", "test frameworks", "pass"),
            _row("hold holds wait waits waiting", "test frameworks", "held"),
            _row("bind binds", "test frameworks", "bound"),
        ),
        "failure rule": (
            _row("Ignore skip pass open allow", "ValidatingAdmissionPolicy", "ignore"),
            _row("Fail reject closed deny error", "ValidatingAdmissionPolicy", "fail"),
        ),
        "rule for missing values": (
            _row("ignore true allow skip ok accept yes Pass", "programming languages", "pass"),
            _row("reject false deny error no Fail", "programming languages", "fail"),
        ),
        "set of nodes": (
            _row("any every", "programming languages", "all"),
            _row("schedulable feasible ready", "Kubernetes", "eligible"),
            _row("matching chosen", "Kubernetes", "selected"),
        ),
    }
)


# ---- what needs no word here

# What other texts say, and policies need not.
NEEDLESS: Mapping[str, str] = {
    "default": "a node passes unless a clause rejects it",
    "package": "a policy has its name behind `policy`",
    **dict.fromkeys(
        ("tolerations", "toleration", "tolerate", "tolerates", "taints"),
        "the pod has its tolerations, and kube-scheduler reads them; the taints of a node are in"
        " `node.spec.taints`",
    ),
}

REQUESTED = "the pod says what it requests, and kube-scheduler keeps to it"
OF_MANIFESTS = "this stays in the manifest of the pods; a policy says where they may run"
_BUDGET = (
    "a PodDisruptionBudget is an object of its own, to which evictions keep; `preempt` protects"
    " pods from those of kube-scheduler"
)
# What other objects say, in the place of a clause.
NEEDLESS_ITEMS: Mapping[str, str] = {
    **NEEDLESS,
    **dict.fromkeys(
        ("minAvailable", "maxUnavailable", "PodDisruptionBudget", "podDisruptionBudget"), _BUDGET
    ),
    **dict.fromkeys(
        "resources requests cpu memory ncpus mem cpus request_memory request_cpus request_disk"
        " request_gpus RequestMemory RequestCpus".split(),
        REQUESTED,
    ),
    "auditAnnotations": "an answer has no annotations; a `detail` says more of a node",
    **dict.fromkeys(
        ("globalDefault", "preemptionPolicy", "priorityClassName"),
        "a pod has its priority by a PriorityClass, which `pod.priority` reads",
    ),
    **dict.fromkeys(
        ("background", "generateExisting"), "a policy is asked about pods that are to be placed"
    ),
    "matchLabelKeys": "a share counts the pods of one revision by `of revision`",
    **dict.fromkeys(("name", "id"), "a policy has its name behind `policy`"),
    **dict.fromkeys(
        ("enabled", "active"), "a policy that is there is in force; `mode audit` only reports"
    ),
    **dict.fromkeys(
        ("for_each", "dynamic", "loop", "count_each", "while"),
        'conditions take lists, as in `node.zone in ["a", "b"]`, and a `use` takes values',
    ),
    **dict.fromkeys(
        "schedulerName restartPolicy containers template replicas parallelism image ports env"
        " job task device network service queue update volumes strategy revisionHistoryLimit"
        " command args".split(),
        OF_MANIFESTS,
    ),
    **dict.fromkeys(
        (
            "nodeClassRef",
            "nodePool",
            "NodePool",
            "disruption",
            "consolidationPolicy",
            "expireAfter",
        ),
        "what nodes there are is up to the cluster's autoscaler; a policy chooses among them",
    ),
    **dict.fromkeys(
        "plugins pluginConfig profiles extenders percentageOfNodesToScore leaderElection".split(),
        "this stays in the configuration of kube-scheduler, which `placet scheduler-config` writes",
    ),
}


def find(rows: Iterable[Habit], word: str) -> Habit | None:
    """The first row with the word; if there is none, the first that differs only in spelling."""
    known = tuple(rows)
    exact = (row for row in known if word in row.words)
    folded = (row for row in known if _folded(word) in map(_folded, row.words))
    return next(exact, None) or next(folded, None)


def _folded(word: str) -> str:
    return re.sub("[_-]", "", word).lower() if len(word) > 1 else word


def elsewhere(function: str) -> str | None:
    """Why a function of others can mean nothing here, and what stands closest."""
    return ELSEWHERE.get(function.replace("_", "").lower())


def call(word: str, kind: str, operands: int) -> Habit | None:
    """The row of a function or method by the type of its first operand and their number."""
    fitting = (
        row
        for row in CALLS
        if (not row.kinds or kind in row.kinds or kind in ("dyn", "error"))
        and row.operands in (None, operands)
    )
    return find(fitting, word)

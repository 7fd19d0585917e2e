"""Habits: words of other languages, and their meaning here.

Each row has the words, the languages in which they are right, and what to write in their place.
The parser and the checker look words up here when a text is wrong, never when it is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Habit:
    """A habit: some words with one meaning elsewhere, and what they are here.

    In `here`, `{0}` is the first operand (of a method, what stands before the dot), `{1}` the next
    one. `kinds` are the types of the first operand for which the row holds, or records with the
    field; empty for all. `operands` is their number.
    """

    words: tuple[str, ...]
    origin: str
    here: str
    kinds: tuple[str, ...] = ()
    operands: int | None = None


def _table(text: str) -> tuple[Habit, ...]:
    """A row for each line: what it is here, the languages, the words, the types, their number."""
    found = []
    for line in text.strip().splitlines():
        here, origin, words, kinds, number = (
            [part.strip() for part in line.split(" ;")] + ["", ""]
        )[:5]
        kind = tuple(kinds.split()), int(number) if number else None
        found.append(Habit(tuple(words.split()), origin, here, *kind))
    return tuple(found)


def _reasons(text: str) -> dict[str, str]:
    """The reason of each word: a line has some words, and why they are needless here."""
    lines = (line.split(" ; ", 1) for line in text.strip().splitlines())
    return {word: " ".join(why.split()) for words, why in lines for word in words.split()}


# ---- between operands: `{0}` is what stands before, `{1}` what stands behind

OPERATORS = _table(
    """
    {0} && {1} ; Python, SQL ; and AND & et
    {0} || {1} ; Python, SQL ; or OR |
    {0} == {1} ; SQL, JavaScript, Go templates ; = === eq equals Equals EQ
    {0} != {1} ; JavaScript, SQL, Go templates ; !== <> ne NE NotEquals notEquals
    {0} > {1} ; Go templates, YAML ; gt GT Gt GreaterThan
    {0} < {1} ; Go templates, YAML ; lt LT Lt LessThan
    {0} >= {1} ; Go templates, Kyverno ; ge gte GE GreaterThanOrEquals =>
    {0} <= {1} ; Go templates ; le lte LE LessThanOrEquals
    {0} in {1} ; Kubernetes YAML, SQL, Kyverno ; In IN AnyIn AllIn oneOf isIn
    !({0} in {1}) ; Kubernetes YAML, Kyverno ; NotIn notin NOTIN AnyNotIn AllNotIn
    {0}.matches({1}) ; shells, Perl, Ruby, SQL ; =~ ~= ~ matches MATCHES regexp rlike
    !{0}.matches({1}) ; Perl, Ruby ; !~
    {0}.contains({1}) ; SQL and others ; contains includes CONTAINS
    {1} in {0} ; plain English ; has hasKey
    {0}.startsWith({1}) ; Kusto ; startswith startsWith
    {0}.endsWith({1}) ; Kusto ; endswith endsWith
    {0} % {1} ; SQL ; mod MOD
    {0} != {1} ; SQL, Python ; xor XOR
    """
)

# ---- units of amounts: the word, and the suffix that it is

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


_FOLDED = {word.lower(): suffix for word, suffix in UNITS.items() if len(word) > 1}


def unit(word: str) -> str | None:
    """The suffix that a unit is; a letter is one only in its own case."""
    return UNITS.get(word, _FOLDED.get(word.lower()))


# ---- functions and methods

CALLS = _table(
    """
    {0} ; Python, Go, Rego, SQL ; size len length count Size Len Count Length ; int ; 1
    size({0}) ; Python, Go, Rego, SQL ; len length count Size Len Count Length ; ; 1
    size({0}) == 0 ; Java, PHP ; isEmpty empty is_empty ; string list map ; 1
    math.greatest({0}, {1}) ; Python, Go, SQL ; max Max greatest MAX maximum ; ; 2
    math.least({0}, {1}) ; Python, Go, SQL ; min Min least MIN minimum ; ; 2
    {0}.max() ; Python, SQL ; max Max MAX ; list ; 1
    {0}.min() ; Python, SQL ; min Min MIN ; list ; 1
    {0}.sum() ; Python, SQL ; sum Sum SUM total ; list ; 1
    {0} ; Python ; list tuple ; list ; 1
    {0}.sort() ; Python ; sorted sort_by order ; list ; 1
    {0}.reverse() ; Python ; reversed ; ; 1
    {0}.distinct() ; Ruby, Python ; unique uniq set to_set ; list ; 1
    math.abs({0}) ; Python, SQL ; abs Abs ; ; 1
    math.ceil({0}) ; Rego, SQL ; ceil ceiling Ceil ; ; 1
    math.floor({0}) ; Rego, SQL ; floor Floor ; ; 1
    math.round({0}) ; Python, Rego, SQL ; round Round ; ; 1
    string({0}) ; Python, Java ; str toString to_string ToString String sprint ; ; 1
    double({0}) ; Python ; float parseFloat toDouble to_number toFloat float64 ; ; 1
    int({0}) ; JavaScript, Go ; parseInt Number toInt integer int64 Atoi atoi to_int parse_int \
        toNumber number ; ; 1
    {1} in {0} ; JavaScript ; contains includes has member Contains include in_array ; list
    {1} in {0} ; JavaScript, Java ; contains includes has hasKey has_key containsKey \
        hasOwnProperty contains_key exists_key ; map ; 2
    {0}.contains({1}) ; JavaScript ; includes has include Contains strContains ; string ; 2
    {0}[?{1}].orValue({2}) ; Python ; get getOrDefault lookup fetch get_or_default ; map ; 3
    {0}[{1}] ; Python, Go templates ; get lookup fetch getOrDefault index ; map ; 2
    {0}[{1}] ; Java ; get at nth index ; list ; 2
    {0}.lowerAscii() ; JavaScript, Python, SQL ; toLowerCase lower toLower LOWER ToLower downcase \
        lowercase to_lower tolower ; ; 1
    {0}.upperAscii() ; JavaScript, Python, SQL ; toUpperCase upper toUpper UPPER ToUpper upcase \
        uppercase to_upper toupper ; ; 1
    {0}.trim() ; Python ; strip trimSpace TRIM trim_space lstrip rstrip TrimSpace ; ; 1
    {0}.startsWith({1}) ; Python, Go, Rego ; startswith hasPrefix starts_with has_prefix \
        StartsWith HasPrefix beginsWith prefix ; string ; 2
    {0}.endsWith({1}) ; Python, Go, Rego ; endswith hasSuffix ends_with has_suffix EndsWith \
        HasSuffix suffix ; string ; 2
    {0}.matches({1}) ; JavaScript, Python ; match test search regex regexMatch match_regex \
        isMatch matchesRegex ; string ; 2
    {1}.join({0}) ; Rego, Terraform, Go ; concat join strings.Join ; string ; 2
    int({0}) ; JavaScript ; parseInt Number.parseInt ; string ; 2
    {1}.matches({0}) ; Rego ; re_match regex.match re.search regexp.MatchString ; ; 2
    semver({0}, true) ; Python, Nomad ; version Version parseVersion semver.parse ; ; 1
    {0}.getHours() ; Python ; hour hours current_hour ; timestamp ; 1
    {0}.getMinutes() ; Python ; minute minutes ; timestamp ; 1
    {0}.getDayOfWeek() ; date libraries ; dayOfWeek ; timestamp ; 1
    {0}.getDate() ; Python ; day date dayOfMonth ; timestamp ; 1
    {0}.getFullYear() ; Python ; year years ; timestamp ; 1
    {0}.getDayOfWeek() in [0, 6] ; date libraries ; isWeekend ; timestamp ; 1
    !({0}.getDayOfWeek() in [0, 6]) ; date libraries ; isWeekday ; timestamp ; 1
    cidr({1}).containsIP({0}) ; network libraries ; inCIDR cidrContains in_cidr ipInRange ; ; 2
    {0} in {1} ; query builders ; in isIn oneOf isOneOf isAnyOf ; ; 2
    {0}.format({1}) ; Rego, Go ; sprintf Sprintf ; ; 2
    {0}.getMonth() + 1 ; Python ; month ; timestamp ; 1
    {0}.substring({1}, {2}) ; SQL ; slice substring ; string ; 3
    {0} == {1} ; Java, Go templates ; equals Equals eq equal isEqualTo is ; ; 2
    {0} && {1} ; Go templates ; and AND ; ; 2
    {0} || {1} ; Go templates ; or OR ; ; 2
    {0} != {1} ; Go templates, SQL ; xor XOR ; ; 2
    !({0}) ; Go templates, Rego ; not NOT negate ; bool ; 1
    {0}.orValue({1}) ; Java ; orElse or_else getOrElse unwrap_or default unwrapOr ; optional ; 2
    {0}.hasValue() ; Java, Rust ; isPresent isSome is_some present ; optional ; 1
    {0}.value() ; Java, Rust ; get unwrap ; optional ; 1
    {0}.map(key, key) ; Python, Go ; keys Keys ; map ; 1
    {0}.transformList(key, value, value) ; Python ; values Values ; map ; 1
    {0}.map(key, key) ; JavaScript, Rego ; keys object.keys Object.keys ; ; 1
    {0} ? {1} : {2} ; SQL, Terraform ; IF iif ifelse cond ternary ; ; 3
    lists.range({0}) ; Python ; range Range ; int ; 1
    now ; SQL, Go ; now Now current_timestamp NOW getdate time ; ; 0
    duration(string({0}) + 's') ; other libraries ; seconds ; int ; 1
    duration(string({0}) + 'd') ; other libraries ; days ; int ; 1
    """
)
# Packages of others, whose functions have the same names here or in CALLS.
_PACKAGES = frozenset("strings Math math time Date datetime object".split())
# Functions that ask whether something is there, or not, and those with a value instead.
PRESENCE, ABSENCE, DEFAULTS = _table(
    """
    has({0}) ; PHP, SQL and others ; exists defined isset is_set isSet present isDefined exist \
        hasLabel hasValue notNull is_not_null isNotNull is_defined can isPresent ; ; 1
    !has({0}) ; SQL, Go and others ; isNull is_null isNil undefined absent is_absent missing \
        notExists not_exists isUndefined ; ; 1
    {0}[?{1}].orValue({2}) ; SQL, Go templates ; default coalesce COALESCE ifnull IFNULL nvl NVL \
        dig getOr try ; ; 2
    """
)

# Functions of others that can mean nothing here, and what stands closest.

OF_PROMETHEUS = (
    'ask for it in a table, as in `data "load" { from prometheus "http://…" query "…" by'
    ' "node" }`, and read it as `data.load[node.name].value`'
)
NO_REQUESTS = (
    "a policy asks nobody while it decides; write `data` for a table that is read before, as in"
    ' `data "load" { from prometheus "http://…" query "…" by "node" }`'
)
ELSEWHERE = _reasons(
    """
    leastallocated leastrequested nodesleastallocated spreadout ; write `value node.usage["cpu"] \
        range 1 .. 0`, which prefers emptier nodes
    mostallocated mostrequested binpack binpacking packing bestfit ; write `value \
        node.usage["cpu"] range 0 .. 1`, which prefers fuller nodes
    balanced balancedallocation balance balancedresourceallocation ; write `value \
        math.abs(node.usage["cpu"] - node.usage["memory"]) range 1 .. 0`
    random rand randint shuffle sample uniform math.random ; nothing is by chance here, so that \
        each answer can be explained; kube-scheduler chooses among nodes of the same score
    cron crontab schedule cronmatch matchescron during ; write the hours and the days, as in \
        `now.getHours() >= 22 || now.getHours() < 6`
    env getenv os.getenv readfile file open ; a policy has parameters for this, as in `policy \
        name (zone: string) {`
    print println printf console.log debug trace ; leave it out: `message` says why a node is \
        rejected, and `placet eval` shows the value of an expression
    tolerate tolerates toleratestaints toleratestaint cantolerate ; leave it out: kube-scheduler \
        compares the tolerations of the pod with the taints
    isstring isnumber isint isinteger isfloat isdouble isbool isboolean islist isarray ismap \
        isobject isdict isduration istimestamp isinstance typeof ; leave it out: each value has \
        one type, which is known before a policy is in force
    url isurl getscheme gethost gethostname getport getescapedpath getquery ; compare the text, as \
        in `x.startsWith("https://")`: no field that a policy reads is a URL
    sleep wait retry after ; a policy never waits; kube-scheduler tries the pod again when the \
        cluster changes
    """
) | dict.fromkeys(
    "http httpget fetch curl request api query prometheus promql metric metrics http.send"
    " externaldata".split(),
    NO_REQUESTS,
)

# ---- macros: a test or a change of each item

MACROS = _table(
    """
    exists ; Python, JavaScript ; any some anyMatch contains_any Any ANY one_of exist
    all ; JavaScript, Java ; every allMatch forall for_all forEach All each
    filter ; SQL, Ruby ; where select filterBy find_all grep keep findAll
    map ; Ruby, Java ; collect transform apply flatMap project
    exists_one ; Ruby ; one exactlyOne single
    !exists ; Ruby, Java ; none noneMatch nobody none_of noneOf not_any notAny
    """
)

# ---- names that stand alone

NAMES = _table(
    """
    true ; Python, YAML ; True TRUE yes YES on Yes
    false ; Python, YAML ; False FALSE no NO off No
    null ; Python, Go, JavaScript, SQL ; None nil undefined Null NULL nullptr
    pod ; CEL in Kubernetes ; object self this Pod input obj resource review request
    node ; Go ; Node candidate host nodeInfo machine server target
    namespaceObject ; CEL in Kubernetes ; namespaceObj ns Namespace
    now ; SQL ; time today current_time NOW Now
    """
)

# ---- fields: the expression over the record. Fields that are deeper in the same object need no
# row: the schema has them.

FIELDS = _table(
    """
    {0}.name ; Kubernetes YAML ; hostname nodeName hostName ; Node
    {0}.free["cpu"] ; other schedulers ; cpu cpus cores millicpu ; Node
    {0}.free["memory"] ; other schedulers ; memory mem ram ; Node
    {0}.free["nvidia.com/gpu"] ; other schedulers ; gpu gpus ; Node
    {0}.free ; other schedulers ; available idle remaining gres ; Node
    {0}.labels["kubernetes.io/arch"] ; kubectl ; arch architecture ; Node
    {0}.labels["kubernetes.io/os"] ; kubectl ; os operatingSystem ; Node
    {0}.labels["node.kubernetes.io/instance-type"] ; cloud providers ; instanceType instance_type \
        flavor machineType ; Node
    {0}.spec.unschedulable ; kubectl ; cordoned drained disabled ; Node
    !{0}.spec.unschedulable ; other schedulers ; schedulable enabled ; Node
    {0}.status.nodeInfo.kubeletVersion ; kubectl ; version kubeVersion ; Node
    {0}.ready ; client libraries ; isReady Ready healthy ; Node
    {0}.zone ; cloud providers ; availabilityZone az failureDomain ; Node
    {0}.labels ; Slurm, Nomad ; features properties attributes meta ; Node
    {0}.metadata.creationTimestamp ; other ; creationTime createdAt created ; Node Pod
    {0}.age ; other ; uptime ; Node
    {0}.requests["nvidia.com/gpu"] ; other schedulers ; gpu gpus ; Pod
    {0}.requests["cpu"] ; other schedulers ; cpu cpuRequest ; Pod Peer ResourceRequirements
    {0}.requests["memory"] ; other schedulers ; memory mem memoryRequest ; Pod Peer \
        ResourceRequirements
    {0}.spec.nodeName ; kubectl ; node host ; Pod
    {0}.spec.priorityClassName ; kubectl ; priorityClass ; Pod
    {0}.workload.replicas ; Kubernetes YAML ; replicas ; Pod
    {0}.workload.name ; kubectl ; deployment ownerName ; Pod
    {0}.workload ; kubectl ; owner controller ownerReferences ; Pod
    {0}.status.podIP ; kubectl ; ip ; Pod
    {0}.labels["app"] ; kubectl ; app ; Pod Peer
    {0}.requests ; Kubernetes YAML ; resources ; Pod Peer
    {0}.spec.schedulerName ; kubectl ; scheduler ; Pod
    pod.workload.replicas ; Kubernetes YAML ; replicas ; PodSpec
    {0}.created ; Kubernetes YAML ; creationTimestamp ; Peer
    {0}.nodeName ; kubectl ; node host hostname ; Peer
    {0}.workload ; kubectl ; ownerReferences owner deployment controller ; Peer
    """
)

# ---- clauses and other items of a policy

CLAUSES = _table(
    """
    filter ; Rego, Kyverno ; deny violation forbid reject block exclude prohibit refuse avoid \
        disallow
    filter ; Nomad, Kyverno, Kubernetes YAML ; constraint rule require validate validation assert \
        affinity nodeAffinity nodeSelector allow permit predicate check must condition selector \
        hard match select restrict restriction admit requirement validations nodes tolerations \
        taint requiredDuringSchedulingIgnoredDuringExecution
    score ; Kubernetes YAML, ClassAds ; prefer preference preferred rank prioritize priority \
        favor soft scoring order sort best prefers preferences rate \
        preferredDuringSchedulingIgnoredDuringExecution
    spread ; Kubernetes YAML, Nomad ; topologySpreadConstraints topologySpread topology \
        spreadConstraint balance distribute spreading topologySpreadConstraint even
    limit ; Kubernetes YAML, Nomad, YARN ; antiAffinity podAntiAffinity podAffinity max quota cap \
        cardinality atMost maximum exclusive distinct_hosts distinct_property anti_affinity
    share ; PlacementPolicy ; ratio percentage percent split portion proportion targetSize
    gang ; coscheduling, Volcano, Kubernetes YAML ; podGroup pod_group coscheduling \
        gangScheduling allOrNothing schedulingGroup
    group ; SQL, cloud providers ; groupBy group_by nodeGroup node_group nodePool partition \
        aggregate
    count ; SQL, spreadsheets ; countIf count_if countPods podCount tally total
    preempt ; Kubernetes ; preemption evict eviction victims disruption protect
    data ; Kyverno ; context configMap lookup externalData table source
    bind ; kube-scheduler ; binding prebind permitBind
    use ; programming languages ; include extends inherit inherits uses
    let ; JavaScript, Go ; var const set define variable local variables
    def ; programming languages ; func function fn fun macro
    missing ; ValidatingAdmissionPolicy ; failurePolicy failure onError errors
    description ; YAML ; desc summary about doc comment
    mode ; Gatekeeper, Kyverno ; enforcement enforcementAction validationActions \
        validationFailureAction failureAction action dryRun
    for pods where ; ValidatingAdmissionPolicy, Kubernetes YAML ; matchConditions podSelector \
        appliesTo targets target scope subject where when if
    """
)

# ---- parts of clauses: the first word of each here is one of this language

PARTS = _table(
    """
    require ; ValidatingAdmissionPolicy, Kyverno ; expr expression condition rule match \
        assert must validate test ensure check cel validations allow matchExpressions \
        nodeSelector accept return returns
    require ! ; Rego, Kyverno ; deny forbid reject refuse disallow
    message ; Rego, YAML ; msg reason text error messageExpression say
    detail ; YAML ; explain details description note info
    value ; YAML ; expr expression score points rank formula by return returns prefer prefers
    when ; programming languages ; if
    over ; Kubernetes YAML ; topologyKey topology key across domain spread_over per
    per ; the spread of this language ; over
    skew at most ; Kubernetes YAML ; maxSkew max_skew
    at least ; Kubernetes YAML ; minDomains min_domains
    at most ; Nomad, YARN ; max maximum atMost at_most max_count upTo limit upto most
    at least ; YARN ; min minimum atLeast at_least min_count least
    at least ; coscheduling, Volcano, Kubernetes YAML ; minMember min_member minAvailable \
        minCount minTaskMember
    for at most ; coscheduling, Kueue ; timeout scheduleTimeoutSeconds timeoutSeconds waitTimeout
    within ; Kueue, Volcano ; topologyKey topology requiredTopology highestTierAllowed over per
    exactly ; programming languages ; exact equals exactly_ equal precisely target
    pods where ; Kubernetes YAML ; labelSelector selector podSelector matchLabels peers
    of replicas ; Kubernetes YAML ; replicas
    on nodes where ; Kubernetes YAML ; onto nodeSelector where nodes target placement
    strict ; Kubernetes YAML ; hard required mandatory must enforced DoNotSchedule enforce \
        requiredDuringSchedulingIgnoredDuringExecution
    weight 10 ; Kubernetes YAML ; soft preferred besteffort best_effort bestEffort \
        ScheduleAnyway prefer optional preferredDuringSchedulingIgnoredDuringExecution
    strict ; Kubernetes YAML ; whenUnsatisfiable strength enforcement
    missing ; programming languages ; default onMissing fallback absent
    range ; programming languages ; scale normalize bounds
    protect pods where ; kube-scheduler ; spare exclude never
    pick 1 least ; SQL ; order_by orderBy sort
    rounding ; plain English ; round rounded rounds
    rounding up ; programming languages ; roundUp round_up ceil ceiling
    rounding down ; programming languages ; roundDown round_down floor
    """
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

# What Helm, Go, shells, Terraform and Jinja fill in.
PLACEHOLDER = (
    r"\{\{[^{}\n]*\}\}|\$\{[^{}\n]*\}|\$\(\w+\)|\$[A-Za-z_]\w*|<%[^%\n]*%>|\{%[^%{}\n]*%\}"
)
REQUESTED = "the pod says what it requests, and kube-scheduler keeps to it"
OF_MANIFESTS = "this stays in the manifest of the pods; a policy says where they may run"
# What other objects say, in the place of a clause.
NEEDLESS_ITEMS = {
    **NEEDLESS,
    **_reasons(
        """
    minAvailable maxUnavailable PodDisruptionBudget podDisruptionBudget ; a PodDisruptionBudget \
        is an object of its own, to which evictions keep; `preempt` protects pods from those of \
        kube-scheduler
    auditAnnotations ; an answer has no annotations; a `detail` says more of a node
    globalDefault preemptionPolicy priorityClassName ; a pod has its priority by a PriorityClass, \
        which `pod.priority` reads
    background generateExisting ; a policy is asked about pods that are to be placed
    matchLabelKeys ; a share counts the pods of one revision by `of revision`
    name id ; a policy has its name behind `policy`
    enabled active ; a policy that is there is in force; `mode audit` only reports
    for_each dynamic loop count_each while ; conditions take lists, as in `node.zone in ["a", \
        "b"]`, and a `use` takes values
    nodeClassRef nodePool NodePool disruption consolidationPolicy expireAfter ; what nodes there \
        are is up to the cluster's autoscaler; a policy chooses among them
    plugins pluginConfig profiles extenders percentageOfNodesToScore leaderElection ; this stays \
        in the configuration of kube-scheduler, which `placet scheduler-config` writes
        """
    ),
    **dict.fromkeys(
        (
            "resources requests cpu memory ncpus mem cpus request_memory request_cpus "
            "request_disk request_gpus RequestMemory RequestCpus"
        ).split(),
        REQUESTED,
    ),
    **dict.fromkeys(
        (
            "schedulerName restartPolicy containers template replicas parallelism image "
            "ports env job task device network service queue update volumes strategy "
            "revisionHistoryLimit command args"
        ).split(),
        OF_MANIFESTS,
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


def field(record: str, word: str) -> Habit | None:
    """The row of a field that a record has under another name."""
    return find((row for row in FIELDS if record in row.kinds), word)


def call(word: str, kind: str, operands: int) -> Habit | None:
    """The row of a function or method by the type of its first operand and their number."""
    fitting = (
        row
        for row in CALLS
        if (not row.kinds or kind in row.kinds or kind in ("dyn", "error"))
        and row.operands in (None, operands)
    )
    # As in `strings.ToLower` and `Math.max`: the package adds nothing.
    package, _, name = word.rpartition(".")
    return find(fitting, name if package in _PACKAGES else word)

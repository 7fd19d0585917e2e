"""Other schedulers: what Nomad, HTCondor, Slurm and others write, as clauses of this language.

A part of the foreign clauses: blocks of HCL, expressions of ClassAds, options of `sbatch`,
constraints of Marathon. A label has the name that an attribute has there, where Kubernetes has no
name of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from grammar.syntax.unexpected import DOMAINS
from grammar.tree.printer import print_string

_ATTRIBUTES = {
    "node.datacenter": "node.zone",
    "node.region": "node.region",
    "node.unique.name": "node.name",
    "node.class": 'node.labels["node.kubernetes.io/instance-type"]',
    "attr.kernel.name": 'node.labels["kubernetes.io/os"]',
    "attr.cpu.arch": 'node.labels["kubernetes.io/arch"]',
    "attr.os.name": 'node.labels["kubernetes.io/os"]',
    "attr.unique.hostname": "node.name",
    "node.unique.id": "node.name",
    "attr.memory.totalbytes": 'node.allocatable["memory"]',
    "attr.cpu.numcores": 'node.allocatable["cpu"]',
    "attr.platform.aws.placement.availability-zone": "node.zone",
    "attr.platform.gce.zone": "node.zone",
    "attr.platform.aws.instance-type": 'node.labels["node.kubernetes.io/instance-type"]',
    "attr.kernel.version": "node.status.nodeInfo.kernelVersion",
}


# ---- Nomad


def of_attribute(name: str) -> str:
    """What is read for an attribute of Nomad: a field, or the label that has its name."""
    key = re.sub(r"^(?:meta|node\.meta|attr)\.", "", name)
    return _ATTRIBUTES.get(name) or f"node.labels[{print_string(key)}]"


def _nomad(body: str) -> Iterator[str]:
    """`constraint { attribute = "${node.datacenter}" value = "dc1" }`, and the other blocks."""
    places = re.fullmatch(r"datacenters\s*=\s*(\[[^\]]*\])", body)
    if places is not None:
        yield f'filter "datacenters" {{ require node.zone in {places[1]} }}'
        return
    if re.search(r"distinct_hosts", body):
        yield 'limit "distinct hosts" { per node at most 1 strict }'
        return
    body = re.sub(
        r"\A(\w+)\s*=?\s*\"(\$\{[^}]+\})\s*(==?|!=|[<>]=?)\s*([^\"]+?)\"",
        r'\1 { attribute = "\2" operator = "\3" value = "\4"',
        body,
    )
    attribute = re.search(r"(?:attribute|distinct_property)\s*=\s*\"\$\{([^}]+)\}\"", body)
    if attribute is None:
        return
    name = attribute[1]
    read = of_attribute(name)
    word = re.match(r"\w+", body)
    points = re.search(r"weight\s*=\s*\"?(-?\s*\d+)", body)
    weight = re.sub(r"\s", "", points[1]) if points is not None else "10"
    targets = re.findall(r"target\s+(\"[^\"]+\")\s*\{\s*percent\s*=\s*(\d+)", body)
    if word is not None and word[0] == "spread" and targets:
        yield " ".join(
            f"share {value} {{ of replicas on nodes where {read} == {value}"
            f" exactly {percent}% best effort weight {weight} }}"
            for value, percent in targets
        )
        return
    if word is not None and word[0] == "spread":
        bound = f"skew at most 1 best effort weight {weight}"
        yield f'spread "over {name.rpartition(".")[2]}" {{ over {read} {bound} }}'
        return
    if "distinct_property" in body:
        most = re.search(r"value\s*=\s*\"?(\d+)", body)
        bound = most[1] if most is not None else "1"
        yield f'limit "{name}" {{ per domain {read} at most {bound} strict }}'
        return
    presence = re.search(r"operator\s*=\s*\"(is_set|is_not_set)\"", body)
    if presence is not None:
        said = f"has({read})"
        yield f'filter "{name}" {{ require {said if presence[1] == "is_set" else f"!{said}"} }}'
        return
    value = re.search(r"value\s*=\s*(\"[^\"]*\")", body)
    if value is None:
        return
    operator = re.search(r"operator\s*=\s*\"([^\"]+)\"", body)
    sign = operator[1] if operator is not None else "="
    if (made := _compared(read, sign, value[1])) is None:
        return
    if word is not None and word[0] == "affinity":
        yield f'score "{name}" weight {weight} {{ value {made} }}'
    else:
        yield f'filter "{name}" {{ require {made} }}'


def _compared(read: str, sign: str, value: str) -> str | None:
    """An attribute compared with a text by an operator of Nomad."""
    if sign in ("=", "==", "is"):
        return f"{read} == {value}"
    if sign in ("!=", "not"):
        return f"{read} != {value}"
    if sign in ("version", "semver"):
        signs = {"": "==", "=": "=="}
        bounds = re.findall(r"(>=|<=|>|<|!=|=)?\s*v?([\d.]+)", value)
        texts = (f'{signs.get(s, s)} semver("{v}", true)' for s, v in bounds)
        return " && ".join(f"semver({read}, true) {text}" for text in texts)
    if sign == "regexp":
        return f"{read}.matches({value})"
    if sign in (">", ">=", "<", "<=") and "allocatable" in read:
        return f"{read} {sign} {value}"
    if sign in (">", ">=", "<", "<=") and re.fullmatch(r'"v?\d+(\.\d+)+"', value):
        if "nodeInfo" in read:
            whole = (value.strip('"v') + ".0.0").split(".")[:3]
            return f'kubernetesVersion({read}) {sign} "{".".join(whole)}"'
        return f"semver({read}, true) {sign} semver({value}, true)"
    if sign in (">", ">=", "<", "<=") and value.strip('"').isdigit():
        return f"int({read}) {sign} {value.strip(chr(34))}"
    if sign == "set_contains_any":
        return f"{read} in {_names(value[1:-1])}"
    return f"{read}.contains({value})" if sign == "set_contains" else None


# ---- Swarm

_OF_SWARM = {
    "node.id": "node.name",
    "node.hostname": "node.name",
    "node.platform.os": 'node.labels["kubernetes.io/os"]',
    "node.platform.arch": 'node.labels["kubernetes.io/arch"]',
}
_CONSTRAINT = re.compile(
    r"(?P<read>(?:node|engine)\.(?:id|hostname|role|platform\.os|platform\.arch|labels\.[\w.-]+))"
    r"\s*(?P<sign>==|!=)\s*[\"']?(?P<value>[\w.-]+)"
)
_WORDS_OF_SWARM = re.compile(
    r"\bplacement\b|\bconstraints?\b|node\.(?:id|hostname|role|platform)\b"
)


def _of_swarm(read: str) -> str:
    key = read.partition(".labels.")[2]
    return _OF_SWARM.get(read) or f"node.labels[{print_string(key)}]"


def _swarm(body: str) -> Iterator[str]:
    """`placement: constraints: [node.role == manager]` and the other keys of a placement."""
    if _WORDS_OF_SWARM.search(body) is None:
        return
    made = []
    for found in _CONSTRAINT.finditer(body):
        if found["read"] == "node.role":
            control = 'has(node.labels["node-role.kubernetes.io/control-plane"])'
            is_it = (found["value"] == "manager") == (found["sign"] == "==")
            made.append(control if is_it else f"!{control}")
        else:
            made.append(
                f"{_of_swarm(found['read'])} {found['sign']} {print_string(found['value'])}"
            )
    most = re.search(r"max_?[rR]eplicas_?[pP]er_?[nN]ode\W+(\d+)", body)
    spread = re.search(r"\bspread\W+((?:node|engine)\.labels\.[\w.-]+)", body)
    clauses = [f'filter "constraints" {{ require {" && ".join(made)} }}'] if made else []
    if most is not None:
        clauses.append(f'limit "per node" {{ per node at most {most[1]} strict }}')
    if spread is not None:
        over = _of_swarm(spread[1])
        clauses.append(f'spread "even" {{ over {over} skew at most 1 best effort weight 10 }}')
    if clauses:
        yield " ".join(clauses)


# ---- HTCondor

# What a machine has and a job asks for, in the units of HTCondor.
_OF_MACHINES = {
    "memory": ('node.free["memory"]', "Mi"),
    "totalmemory": ('node.allocatable["memory"]', "Mi"),
    "cpus": ('node.free["cpu"]', ""),
    "totalcpus": ('node.allocatable["cpu"]', ""),
    "disk": ('node.free["ephemeral-storage"]', "Ki"),
    "gpus": ('node.free["nvidia.com/gpu"]', ""),
    "opsys": ('node.labels["kubernetes.io/os"]', None),
    "arch": ('node.labels["kubernetes.io/arch"]', None),
    "machine": ("node.name", None),
    "name": ("node.name", None),
    "loadavg": ('node.usage["cpu"]', None),
}
_OF_JOBS = {
    "requestmemory": ('pod.requests["memory"]', "Mi"),
    "requestcpus": ('pod.requests["cpu"]', ""),
    "requestdisk": ('pod.requests["ephemeral-storage"]', "Ki"),
    "requestgpus": ('pod.requests["nvidia.com/gpu"]', ""),
    "owner": ("pod.namespace", None),
}
_VALUES = {"LINUX": "linux", "WINDOWS": "windows", "X86_64": "amd64", "AARCH64": "arm64"}
_OF_AD = re.compile(r"\b(TARGET|MY)\.(\w+)")
_BARE_ATTRIBUTE = re.compile(
    r"(?<![\w.\"\[])(Memory|Cpus|Disk|OpSys|Arch|Machine|GPUs|LoadAvg|TotalMemory|TotalCpus)\b(?!\()"
)


# An attribute that stands alone: `HasDocker`.
_BARE_FLAG = re.compile(
    r"(?<![\w.\"\[(])(?<!\")\b(Has\w+|Is\w+|[A-Z]\w+)\b(?!\s*(?:[<>=!?+*/-]|\(|\.|\"))(?=\s*(?:&&|\|\||\)|\Z))"
)


def _flag(found: re.Match[str]) -> str:
    name = found[1]
    return name if _BARE_ATTRIBUTE.match(name) else f'node.labels[{print_string(name)}] == "true"'


def _of_class_ad(text: str, flag: str = "") -> str:
    """An expression of a ClassAd: attributes with their scope, and amounts with their units."""
    text = re.sub(
        r"(?i)\bstringlistmember\(([^(),]+),\s*\"([^\"]*)\"\)",
        lambda m: f"{m[1]} in {_names(m[2])}",
        text,
    )
    text = re.sub(
        r"(?<![\w.\"])(Has\w+|Is\w+)(?=\s*(?:=\?=|==)\s*(?i:true|false)\b)", r"TARGET.\1", text
    )
    text = _BARE_ATTRIBUTE.sub(r"TARGET.\1", text)
    text = re.sub(r"(?<![\w.\"])(Request(?:Memory|Cpus|Disk|GPUs))\b", r"MY.\1", text)
    text = re.sub(r"(?i)([\w.]+(?:\[[^\]]*\])?)\s*=\?=\s*undefined\b", r"!has(\1)", text)
    text = re.sub(r"(?i)([\w.]+(?:\[[^\]]*\])?)\s*=!=\s*undefined\b", r"has(\1)", text)
    text = re.sub(r"\bregexp\((\"[^\"]*\"),\s*([^(),]+)[^()]*\)", r"\2.matches(\1)", text)
    text = re.sub(r"(?i)\bifthenelse\(([^(),]+),([^(),]+),([^(),]+)\)", r"(\1 ?\2 :\3)", text)
    text = text.replace("=?=", "==").replace("=!=", "!=")
    parts, done = list[str](), 0
    for found in _OF_AD.finditer(text):
        table, owner = (_OF_MACHINES, "node") if found[1] == "TARGET" else (_OF_JOBS, "pod")
        label = f"{owner}.labels[{print_string(found[2])}]"
        read, unit = table.get(found[2].lower(), (label, None))
        parts += text[done : found.start()], read
        done = found.end()
        value = re.compile(r"(\s*[<>=!]=?\s*)(\d+|\"[^\"]*\"|(?i:true|false)\b)").match(text, done)
        if value is not None:
            written = value[2]
            if written.isdigit() and unit:
                written = f'"{written}{unit}"'
            elif written.startswith('"'):
                written = print_string(_VALUES.get(written[1:-1].upper(), written[1:-1]))
            elif written.lower() in ("true", "false"):
                written = print_string(written.lower())
            elif label == read:
                parts[-1] = f"int({read})"
            parts += value[1], written
            done = value.end()
        elif label == read and re.match(r"\s*(?:&&|\|\||\)|\Z)", text[done:]):
            parts.append(flag)
    return "".join([*parts, text[done:]])


_RESOURCE = re.compile(r'node\.(?:free|allocatable)\["[\w./-]+"\]')


def _class_ads(text: str) -> Iterator[str]:
    """`rank = node.free["memory"]`, `requirements = TARGET.Memory >= 2048` of HTCondor."""
    found = re.match(r"(?i)(rank|requirements)\s*[=:]\s*(.+)\Z", text)
    if found is None:
        if _OF_AD.search(text) or re.search(r"=[?!]=", text):
            yield _of_class_ad(text)
        return
    is_flag = found[1].lower() == "requirements"
    flag = _flag if is_flag else lambda m: f"TARGET.{m[1]}"
    said = _of_class_ad(_BARE_FLAG.sub(flag, found[2]), ' == "true"' if is_flag else "")
    if is_flag:
        yield f'filter "requirements" {{ require {said} }}'
        return
    if said.startswith("node.labels["):
        said = f"double({said})"
    if len(set(_RESOURCE.findall(said))) > 1:
        # Amounts of two resources add up as numbers.
        said = re.sub(r"(?<![\w.\"])(\d+)(?![\w.\"])", r"\1.0", said)
        said = _RESOURCE.sub(lambda m: f'{m[0]} / "{"1Mi" if "memory" in m[0] else "1"}"', said)
    yield f'score "rank" weight 10 {{ value {said} range minmax }}'
    yield f'score "rank" weight 10 {{ value {said} }}'


# ---- Slurm

_OPTION = re.compile(
    r"-{1,2}([A-Za-z][a-z-]*)(?:\s*=\s*|\s+)?((?!-)\"[^\"]*\"|(?!-)[\w.,:\[\]/&|-]+)?"
)
# Options about what a job takes, which a pod says itself.
OF_POD = frozenset(
    "mem mem-per-cpu cpus-per-task c n ntasks gres gpus gpus-per-node time t job-name J output o"
    " error e account A qos".split()
)


_JOINS = {"&": "&&", ",": "&&", "|": "||"}


def _names(value: str) -> str:
    return f"[{', '.join(map(print_string, value.split(',')))}]"


def _of_option(name: str, value: str) -> str | None:
    """The clause for an option of `sbatch`; None for one that says nothing of nodes."""
    match name:
        case "ntasks-per-node" | "tasks-per-node" if value.isdigit():
            return f'limit "tasks per node" {{ per node at most {value} strict }}'
        case "nodes" | "N" if value.isdigit():
            return f'limit "nodes" {{ used nodes at most {value} strict }}'
        case "constraint" | "C" if value:
            parts = re.split(r"([&|,])", value)
            said = (
                f"{print_string(each)} in node.labels" if number % 2 == 0 else _JOINS[each]
                for number, each in enumerate(parts)
            )
            return f'filter "constraint" {{ require {" ".join(said)} }}'
        case "partition" | "p" if value:
            name = print_string(value)
            return f'filter "partition" {{ require node.labels["partition"] == {name} }}'
        case "nodelist" | "w" if value:
            return f'filter "nodelist" {{ require node.name in {_names(value)} }}'
        case "exclude" | "x" if value:
            return f'filter "exclude" {{ require !(node.name in {_names(value)}) }}'
        case "exclusive":
            where = 'peer.workload.kind != "DaemonSet"'
            return (
                f'limit "exclusive" {{ all pods where {where} per node at most 1 strict mutual }}'
            )
        case "spread-job":
            return 'spread "nodes" { over node.name skew at most 1 best effort weight 10 }'
        case _:
            return None


def _expanded(value: str) -> str:
    """`node[01-03,7]` as the names of its hosts."""
    found = re.fullmatch(r"([\w.-]*)\[([\d,-]+)\]", value)
    if found is None:
        return value.strip("[]")
    names = list[str]()
    for part in found[2].split(","):
        first, _, last = part.partition("-")
        numbers = range(int(first), int(last or first) + 1) if first else ()
        names += (f"{found[1]}{number:0{len(first)}}" for number in numbers[:100])
    return ",".join(names)


def _options(text: str) -> Iterator[str]:
    """`--ntasks-per-node=4 --constraint=gpu` and `exclude=node[01-04]` of Slurm."""
    if re.match(
        r"(?:constraint|partition|nodelist|exclude|ntasks-per-node)\s*=\s*(?:[\w-]|\"[^$\"]+\"\Z)",
        text,
    ):
        text = f"--{text}"
    if not text.startswith("-"):
        return
    found = [(each[1], _expanded((each[2] or "").strip('"'))) for each in _OPTION.finditer(text)]
    made = [_of_option(*each) for each in found if each[0] not in OF_POD]
    if made and None not in made:
        yield " ".join(each for each in made if each is not None)


def _places(text: str) -> Iterator[str]:
    """`place=scatter:excl` of PBS."""
    found = re.fullmatch(r"(?:-l\s*)?place\s*=\s*(\w+)(?::\w+)*", text)
    if found is not None and found[1] in ("scatter", "vscatter"):
        yield 'limit "scatter" { per node at most 1 strict }'
    elif found is not None and found[1] in ("excl", "exclhost"):
        yield _of_option("exclusive", "") or ""


# ---- the plugins of kube-scheduler

_PLUGIN = re.compile(
    r"\b(?:NodeResources)?(?:(?P<how>Least|Most)(?:Allocated|Requested)|(?P<even>Balanced)(?:Resource)?Allocation"
    r"|(?P<image>ImageLocality)|(?P<spread>PodTopologySpread|SelectorSpread))(?:Priority)?\b"
)


def _plugins(body: str) -> Iterator[str]:
    """`LeastAllocated cpu memory` and `ImageLocality`, which are scores, and a spread."""
    found = _PLUGIN.search(body)
    if found is None or re.search(r"\bnode\.|[{}]", body):
        return
    names = [n for n in ("cpu", "memory") if n in body[found.end() :]] or ["cpu", "memory"]
    used = " + ".join(f'node.usage["{name}"]' for name in names)
    used = f"({used}) / 2.0" if len(names) > 1 else used
    if found["how"]:
        ends = "1 .. 0" if found["how"] == "Least" else "0 .. 1"
        name = f"{found['how'].lower()} allocated"
        yield f'score "{name}" weight 10 {{ value {used} range {ends} }}'
    elif found["even"]:
        apart = 'math.abs(node.usage["cpu"] - node.usage["memory"])'
        yield f'score "balanced" weight 10 {{ value {apart} range 1 .. 0 }}'
    elif found["image"]:
        there = "node.status.images.exists(i, c.image in i.names)"
        yield f'score "image is there" weight 10 {{ value pod.spec.containers.all(c, {there}) }}'
    else:
        yield 'spread "topology" { over node.zone skew at most 1 best effort weight 10 }'


# ---- Marathon and YARN

_MARATHON = re.compile(r"\[\s*\"([\w./-]+)\"\s*,\s*\"([A-Z_]+)\"\s*(?:,\s*\"?([^\"\]]*)\"?\s*)?\]")


def _of_marathon(field: str, operator: str, value: str) -> str | None:
    """The clause for one constraint of Marathon."""
    is_host = field in ("hostname", "@hostname")
    read = DOMAINS.get(field, f"node.labels[{print_string(field)}]")
    per = "node" if is_host else f"domain {read}"
    match operator:
        case "UNIQUE":
            return f'limit "{field}" {{ per {per} at most 1 strict }}'
        case "MAX_PER" if value.isdigit():
            return f'limit "{field}" {{ per {per} at most {value} strict }}'
        case "GROUP_BY":
            domains = f" min domains {value}" if value.isdigit() else ""
            return f'spread "{field}" {{ over {read} skew at most 1{domains} strict }}'
        case "CLUSTER" | "IS" if value:
            return f'filter "{field}" {{ require {read} == {print_string(value)} }}'
        case "LIKE" if value:
            return f'filter "{field}" {{ require {read}.matches({print_string(value)}) }}'
        case "UNLIKE" if value:
            return f'filter "{field}" {{ require !{read}.matches({print_string(value)}) }}'
        case _:
            return None


def _constraints(body: str) -> Iterator[str]:
    """`constraints: [["hostname", "UNIQUE"]]` of Marathon."""
    if not re.match(r"[\"']?constraints[\"']?\s*[:=]", body):
        return
    made = [_of_marathon(*found) for found in _MARATHON.findall(body)]
    if made and None not in made:
        yield " ".join(each for each in made if each is not None)


OF_ITEMS: tuple[Callable[[str], Iterator[str]], ...] = (_class_ads, _places)
OF_BODIES: tuple[Callable[[str], Iterator[str]], ...] = (
    _options,
    _nomad,
    _constraints,
    _swarm,
    _plugins,
)

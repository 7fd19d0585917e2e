"""What is wrong with one place of a configuration."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.command import CommandError
from cli.scheduling import shapes
from cli.scheduling.configuration import Configuration, Finding, Problem, configurations
from cli.scheduling.extender import ExtenderEntry
from cli.scheduling.writing import VERBS
from cli.world import read_policies
from grammar.clauses import Clause, Filter, Limit, Score, Share, Spread
from grammar.diagnostics import Severity, nearest
from grammar.schema import load_schema

OUR_PATH = "/api/scheduler"


OUR_PORT = 12345


@dataclass(frozen=True, slots=True)
class Choice:
    """Which extender is taken for Placet and why; None if nothing tells."""

    index: int | None
    because: str = ""


@dataclass(frozen=True, slots=True)
class SchedulerRequirements:
    """The clauses of policies that need more than a `filterVerb`, each as `policy/clause`."""

    strict: tuple[str, ...] = ()
    at_bind: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One configuration. `http_timeout` is that of `placet serve`, in seconds.

    `demands` is None where policies are not known.
    """

    configuration: Configuration
    choice: Choice
    http_timeout: float
    demands: SchedulerRequirements | None = None

    @property
    def ours(self) -> ExtenderEntry | None:
        index = self.choice.index
        return None if index is None else self.configuration.extenders[index]

    @property
    def worst(self) -> Severity:
        """How bad it is that pods pass without policies: with strict ones, a promise is broken."""
        return "error" if self.demands is not None and self.demands.strict else "warning"


def choose(extenders: Sequence[ExtenderEntry], url: str | None = None) -> Choice:
    """The extender that is Placet: the one with this URL, the only one, or the likeliest.

    Raises CommandError if none has the URL.
    """
    if url is not None:
        for index, extender in enumerate(extenders):
            if extender.url.rstrip("/") == url.rstrip("/"):
                return Choice(index, "it has the URL of `--url`")
        close = nearest(url, [e.url for e in extenders])
        hint = f"a similar one exists: `{close}`" if close else "name the `urlPrefix` of one"
        raise CommandError(f"no extender has the URL `{url}`", hint)
    if len(extenders) == 1:
        return Choice(0, "it is the only one")
    by_path = [i for i, e in enumerate(extenders) if e.prefix.path.endswith(OUR_PATH)]
    by_port = [i for i, e in enumerate(extenders) if e.prefix.port == OUR_PORT]
    both = [i for i in by_path if i in by_port]
    for found, because in (
        (both, f"its URL has the port {OUR_PORT} and ends in `{OUR_PATH}`"),
        (by_path, f"its URL ends in `{OUR_PATH}`"),
        (by_port, f"its URL has the port {OUR_PORT}"),
    ):
        if len({extenders[index].url for index in found}) == 1:
            return Choice(found[0], because)
    return Choice(None)


def read_requirements(paths: Sequence[Path]) -> SchedulerRequirements:
    """Those of the policies in files and folders. Raises CommandError for policies with errors."""
    validation = read_policies(paths, load_schema()).validation
    clauses = [
        (f"{policy.policy.address}/{clause.name}", clause)
        for policy in validation.policies
        if policy.policy.setting("mode", "enforce") != "audit"
        for part in (policy, *policy.uses)
        for clause in part.policy.clauses
    ]

    def those(wanted: Callable[[Clause], bool]) -> tuple[str, ...]:
        return tuple(name for name, clause in clauses if wanted(clause))

    return SchedulerRequirements(
        strict=those(lambda c: isinstance(c, Share | Spread | Limit) and c.strength.strict),
        at_bind=those(lambda c: isinstance(c, Filter) and c.at_bind),
        scores=those(lambda c: isinstance(c, Score)),
    )


# ---- Checks of what Placet is asked: which verbs, with what, about which pods, and how seriously.

_SHOWN = 3


def verb(ours: ExtenderEntry, _case: Case) -> Iterator[Finding]:
    """Paths that Placet does not have (C1)."""
    for name, path in ours.verbs.items():
        if not path or path.rstrip("/") in _paths(ours, name):
            continue
        at = ours.at(f"{name}Verb")
        if path.strip("/") == name:
            message = f"`{path}` begins with a slash: `…/{path}` is asked, which Placet has not"
        elif path in VERBS:
            message = f"`{path}` answers another question than `{name}`"
        else:
            close = nearest(path, VERBS)
            message = f"Placet has no verb `{path}`"
            if close not in (None, name):
                message += f", and `{close}` would answer another question"
        yield Finding("error", at, message, f"write `{name}Verb: {name}`")


def _paths(ours: ExtenderEntry, name: str) -> tuple[str, ...]:
    """What the verb may be; the prefix says the rest, or says nothing."""
    return (name,) if ours.prefix.path else (name, f"api/scheduler/{name}")


def missing_verb(ours: ExtenderEntry, case: Case) -> Iterator[Finding]:
    """Questions that Placet would answer, and that nobody asks."""
    if not any(ours.verbs.values()):
        message = "no verb is set, so Placet is never asked"
        yield Finding("error", ours.place, message, "write `filterVerb: filter`")
        return
    if not ours.verbs["filter"]:
        message = "without a `filterVerb` policies reject nothing"
        yield Finding(case.worst, ours.at("filterVerb"), message, "write `filterVerb: filter`")
    elif not ours.verbs["preempt"]:
        message = (
            "without a `preemptVerb` pods are evicted from nodes that policies reject afterwards"
        )
        yield Finding("warning", ours.at("preemptVerb"), message, "write `preemptVerb: preempt`")
    if case.demands is not None and case.demands.scores and not ours.verbs["prioritize"]:
        message = f"without a `prioritizeVerb` {_some(case.demands.scores)} score nothing"
        hint = "write `prioritizeVerb: prioritize` and `weight: 10`"
        yield Finding("warning", ours.at("prioritizeVerb"), message, hint)


def no_binder(ours: ExtenderEntry, case: Case) -> Iterator[Finding]:
    """Clauses that are checked once more before the binding, which another one makes."""
    if case.demands is None or ours.verbs["bind"]:
        return
    at, hint = ours.at("bindVerb"), "write `bindVerb: bind`"
    if case.demands.at_bind:
        message = f"without a `bindVerb` {_some(case.demands.at_bind)} are not checked at binding"
        yield Finding("warning", at, message, hint)
    if case.demands.strict:
        message = (
            f"without a `bindVerb` the bounds of {_some(case.demands.strict)} are not checked "
            "against the newest state before the binding"
        )
        yield Finding("warning", at, message, hint)


def whole_nodes(ours: ExtenderEntry, _case: Case) -> Iterator[Finding]:
    """Objects instead of names: kube-scheduler forgets what runs on them (C20)."""
    if not ours.node_cache_capable:
        message = (
            "without `nodeCacheCapable: true` whole nodes are sent, and kube-scheduler takes "
            "every one that comes back for idle"
        )
        at = ours.at("nodeCacheCapable")
        yield Finding("warning", at, message, "write `nodeCacheCapable: true`")


def ignorable(ours: ExtenderEntry, case: Case) -> Iterator[Finding]:
    """Pods that pass when Placet does not answer (C31, C46)."""
    if not ours.ignorable:
        return
    at, hint = ours.at("ignorable"), "write `ignorable: false`"
    if case.demands is None:
        message = "`ignorable: true` schedules pods without policies when Placet does not answer"
        more = f"{hint}, or say with `--policies` that none of them is strict"
        yield Finding("warning", at, message, more)
    elif case.demands.strict:
        message = (
            f"`ignorable: true` lets pods past {_some(case.demands.strict)} when Placet does "
            "not answer"
        )
        yield Finding("error", at, message, hint)
    if ours.verbs["bind"]:
        message = (
            "with `ignorable: true` and a `bindVerb` kube-scheduler binds by itself after an "
            "error, while Placet may be binding still"
        )
        yield Finding("warning", at, message, hint)


def managed_resources(ours: ExtenderEntry, case: Case) -> Iterator[Finding]:
    """Pods that Placet is not asked about (C9), and amounts that nobody looks at (C10)."""
    if not ours.managed:
        return
    at = ours.at("managedResources")
    message = (
        f"policies have no effect on pods that request none of "
        f"{_some(tuple(resource.name for resource in ours.managed))}"
    )
    hint = "take `managedResources` out to be asked about every pod"
    yield Finding(case.worst, at, message, hint)
    for place, resource in enumerate(ours.managed):
        if resource.ignored:
            message = f"nobody looks whether a node has enough `{resource.name}`"
            hint = "take `ignoredByScheduler` out, or have a policy that counts it"
            where = f"{at}[{place}].ignoredByScheduler"
            yield Finding("warning", where, message, hint)


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:_SHOWN])
    rest = len(names) - _SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


# ---- Checks of the way from kube-scheduler to Placet: URL, name, encryption, timeout.

# As kube-scheduler has it where nothing is said (C2).
DEFAULT_TIMEOUT = 5.0
# Cycles are serial: for so long an answer that never comes holds up every pod.
LONG_TIMEOUT = 30.0
_PATHS = ("", "/api/scheduler")
_SERVICE = re.compile(r"[^.]+\.[^.]+\.svc(\..+)?|[^.:]+")


def url(ours: ExtenderEntry, _case: Case) -> Iterator[Finding]:
    """A prefix that calls cannot be sent to, or not to Placet."""
    prefix = ours.prefix
    at, hint = ours.at("urlPrefix"), "as in `http://127.0.0.1:12345/api/scheduler`"
    if not ours.url:
        yield Finding("error", at, "there is no `urlPrefix` to send calls to", f"write one, {hint}")
    elif prefix.scheme not in ("http", "https") or not prefix.host:
        message = f"`{ours.url}` is no URL of a server: every call fails"
        yield Finding("error", at, message, f"write scheme and host, {hint}")
    elif prefix.path not in _PATHS:
        message = f"Placet has no path `{prefix.path}`, unless something before it rewrites paths"
        yield Finding("warning", at, message, "end it with `/api/scheduler`")


def service_name(ours: ExtenderEntry, case: Case) -> Iterator[Finding]:
    """The DNS name of a service, which a static pod cannot resolve."""
    host, manifest = ours.prefix.host, case.configuration.manifest
    if ours.prefix.local or not _SERVICE.fullmatch(host):
        return
    hint = "name the service's cluster IP, or run Placet beside kube-scheduler on 127.0.0.1"
    at = ours.at("urlPrefix")
    if manifest is None:
        message = f"kube-scheduler as a static pod cannot resolve the service name `{host}`"
        yield Finding("warning", at, message, hint)
    elif not manifest.resolves_services:
        network = " on the host's network" if manifest.host_network else ""
        policy = manifest.dns_policy or "ClusterFirst"
        message = (
            f"kube-scheduler{network} with `dnsPolicy: {policy}` cannot resolve the service "
            f"name `{host}`"
        )
        more = f"{hint}, or set `dnsPolicy: ClusterFirstWithHostNet`"
        yield Finding("error", at, message, more if manifest.host_network else hint)


def no_ca(ours: ExtenderEntry, _case: Case) -> Iterator[Finding]:
    """HTTPS that trusts anybody (C8)."""
    if ours.prefix.scheme != "https":
        return
    at, hint = ours.at("tlsConfig"), "put the CA of Placet's certificate into `tlsConfig.caData`"
    if ours.tls.insecure and not ours.tls.ca:
        message = "`insecure: true` takes any server for Placet"
        yield Finding("warning", f"{at}.insecure", message, hint)
    elif ours.https and not ours.tls.ca:
        message = f"`{ours.https_name}` without a CA takes any server for Placet"
        yield Finding("error", at, message, hint)
    elif not ours.tls.ca:
        message = "without a CA only a certificate of a public authority is accepted"
        yield Finding("warning", at, message, hint)


def no_encryption(ours: ExtenderEntry, _case: Case) -> Iterator[Finding]:
    """What looks encrypted and is not: the scheme alone decides."""
    prefix, at = ours.prefix, ours.at("urlPrefix")
    if prefix.scheme != "http":
        return
    if ours.https or ours.tls.given:
        meant = f"`{ours.https_name}`" if ours.https else "`tlsConfig`"
        message = f"{meant} has no effect: the URL begins with `http:`, and that decides"
        yield Finding("error", at, message, "begin it with `https:`, or take the other out")
    elif not prefix.local:
        message = f"pods are sent to `{prefix.host}`, and answers come back, without encryption"
        yield Finding("warning", at, message, "serve TLS, or run Placet beside kube-scheduler")


def timeout(ours: ExtenderEntry, case: Case) -> Iterator[Finding]:
    """kube-scheduler that hangs up before Placet answers, or waits for too long (C2)."""
    at, own = ours.at("httpTimeout"), case.http_timeout
    has = DEFAULT_TIMEOUT if ours.timeout is None else ours.timeout
    write = f"write `httpTimeout: {_written(own, legacy=ours.legacy)}`"
    if has < own:
        unset = " by default" if ours.timeout is None else ""
        message = (
            f"kube-scheduler waits{unset} for {has:g} s, and Placet takes up to four fifths "
            f"of {own:g} s"
        )
        hint = f"{write}, or serve with `--http-timeout {has:g}s`"
        yield Finding("error", at, message, hint if has > 0 else write)
    elif ours.timeout is None:
        message = f"there is no `httpTimeout`: kube-scheduler waits for {DEFAULT_TIMEOUT:g} s"
        yield Finding("warning", at, message, write)
    elif has > LONG_TIMEOUT:
        message = f"an answer that does not come holds up every pod for {has:g} s"
        yield Finding("warning", at, message, write)


def _written(seconds: float, *, legacy: bool) -> str:
    return str(round(seconds * 10**9)) if legacy else f"{seconds:g}s"


# ---- Checks of a configuration as a whole: its version, its fields, and how extenders get along.

_VERSION = "kubescheduler.config.k8s.io/v1"
_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_EXTENDED = re.compile(
    rf"(?!requests\.)(?=[^/]{{1,244}}/){_DOMAIN}/[A-Za-z0-9]([-\w.]*[A-Za-z0-9])?"
)


def version(case: Case) -> Iterator[Finding]:
    """An `apiVersion` that this kube-scheduler does not read any more, or never did."""
    given = case.configuration.value.get("apiVersion")
    kind = case.configuration.value.get("kind")
    if case.configuration.legacy or (given, kind) == (_VERSION, "KubeSchedulerConfiguration"):
        return
    hint = f"write `apiVersion: {_VERSION}` and `kind: KubeSchedulerConfiguration`"
    if kind is None or given is None:
        missing = "kind" if kind is None else "apiVersion"
        message = f"there is no `{missing}`: kube-scheduler refuses to start"
        yield Finding("error", missing, message, hint)
    else:
        message = f"kube-scheduler 1.36 does not read `{given}`, only `{_VERSION}`"
        yield Finding("error", "apiVersion", message, hint)


def unknown_field(case: Case) -> Iterator[Finding]:
    """A name that no field has."""
    yield from shapes.unknown_fields(case.configuration.value, legacy=case.configuration.legacy)


def repeated_field(case: Case) -> Iterator[Finding]:
    """A field that is written twice."""
    for path in case.configuration.document.repeated:
        message = f"`{path}` is written twice: kube-scheduler refuses to start"
        yield Finding("error", path, message, "take one of the two out")


def wrong_type(case: Case) -> Iterator[Finding]:
    """A value that cannot be read as what it should be."""
    yield from shapes.wrong_types(case.configuration.value, legacy=case.configuration.legacy)


def no_extender(case: Case) -> Iterator[Finding]:
    """Nobody to ask, or nobody who can be told to be Placet."""
    extenders = case.configuration.extenders
    if not extenders:
        message = "there are no extenders, so Placet is never asked"
        hint = "`placet scheduler-config --section` writes the one that is missing"
        yield Finding("error", "extenders", message, hint)
    elif case.choice.index is None:
        message = f"nothing tells which of the {len(extenders)} extenders is Placet"
        yield Finding("error", "extenders", message, "name its `urlPrefix` with `--url`")


def two_binders(case: Case) -> Iterator[Finding]:
    """More than one `bindVerb` (C10)."""
    binders = [e for e in case.configuration.extenders if e.verbs["bind"]]
    if len(binders) > 1:
        message = f"{len(binders)} extenders have a `bindVerb`: kube-scheduler refuses to start"
        yield Finding("error", binders[1].at("bindVerb"), message, "leave it to one of them")


def weight(case: Case) -> Iterator[Finding]:
    """Scores that are multiplied by nothing (C10)."""
    for extender in case.configuration.extenders:
        if extender.verbs["prioritize"] and extender.weight <= 0:
            message = (
                f"with a `prioritizeVerb` the `weight` must be positive, and it is "
                f"{extender.weight}: kube-scheduler refuses to start"
            )
            hint = "`weight: 10` makes a score count as much as a built-in plugin does"
            yield Finding("error", extender.at("weight"), message, hint)


def resource_name(case: Case) -> Iterator[Finding]:
    """Managed resources that are none, or that two extenders have (C10)."""
    taken: set[str] = set()
    for extender in case.configuration.extenders:
        for place, resource in enumerate(extender.managed):
            at = extender.at(f"managedResources[{place}].name")
            refused = "kube-scheduler refuses to start"
            if not _is_extended(resource.name):
                message = f"`{resource.name}` is no extended resource: {refused}"
                yield Finding(
                    "error", at, message, "write one with a domain, as in `example.com/gpu`"
                )
            elif resource.name in taken:
                message = f"`{resource.name}` is managed twice: {refused}"
                yield Finding("error", at, message, "name it once in all extenders")
            taken.add(resource.name)


def _is_extended(name: str) -> bool:
    _, _, last = name.partition("/")
    return (
        _EXTENDED.fullmatch(name) is not None and "kubernetes.io/" not in name and len(last) <= 63
    )


def tls_conflict(case: Case) -> Iterator[Finding]:
    """A CA that is not to be used, and halves of a certificate (C8)."""
    for extender in case.configuration.extenders:
        tls = extender.tls
        if tls.insecure and tls.ca:
            message = "a CA together with `insecure: true`: kube-scheduler refuses to start"
            yield Finding(
                "error", extender.at("tlsConfig.insecure"), message, "take `insecure` out"
            )
        if tls.certificate != tls.key:
            has, lacks = ("certificate", "key") if tls.certificate else ("key", "certificate")
            message = f"a client {has} without its {lacks} is not shown to the extender"
            hint = "give both, as files or as data"
            yield Finding("warning", extender.at("tlsConfig"), message, hint)


def no_certificate(case: Case) -> Iterator[Finding]:
    """Data that is no PEM, which is what `base64` made of a file has to be."""
    for extender in case.configuration.extenders:
        tls = extender.tls
        for name, text in tls.data.items():
            if name != "caData" and not (tls.certificate and tls.key):
                continue  # half a pair is not even read
            what = "private key" if name == "keyData" else "certificate"
            if not _is_pem(text, "KEY" if name == "keyData" else "CERTIFICATE"):
                at = extender.at(f"tlsConfig.{name}")
                message = f"`{name}` has no {what} in PEM: kube-scheduler refuses to start"
                yield Finding("error", at, message, "encode a file that begins with `-----BEGIN`")


def _is_pem(text: str, kind: str) -> bool:
    try:
        data = base64.b64decode(text)
    except ValueError:
        return True  # which is `wrong-type`
    return re.search(rf"-----BEGIN ([A-Z0-9]+ )*{kind}-----".encode(), data) is not None


def later_filter(case: Case) -> Iterator[Finding]:
    """A filter after ours: what we counted on a node may end on another, or nowhere (C11)."""
    ours = case.ours
    if ours is None or not ours.verbs["filter"]:
        return
    extenders = case.configuration.extenders
    # kube-scheduler asks the ignorable ones last (C10).
    order = sorted(extenders, key=lambda e: e.ignorable)
    for extender in order[order.index(ours) + 1 :]:
        if extender.verbs["filter"]:
            message = f"`{_name(extender)}` filters after Placet and may reject what it counted on"
            yield Finding(case.worst, extender.place, message, _how_to_be_last(extender, ours))


def _how_to_be_last(other: ExtenderEntry, ours: ExtenderEntry) -> str:
    if other.ignorable and not ours.ignorable:
        return (
            "ignorable extenders come last: set it to `ignorable: false` and put it before Placet"
        )
    return f"put `{ours.place}` last"


def asked_twice(case: Case) -> Iterator[Finding]:
    """Two entries for one Placet."""
    ours = case.ours
    if ours is None:
        return
    for extender in case.configuration.extenders:
        if extender.place != ours.place and extender.url == ours.url:
            message = f"`{ours.url}` is asked twice about each pod"
            yield Finding("warning", extender.at("urlPrefix"), message, "take one of the two out")


def sampled_nodes(case: Case) -> Iterator[Finding]:
    """Less than all nodes are offered: a pod that fits elsewhere stays pending (C12)."""
    if case.configuration.legacy:
        return  # a Policy does not say
    name = "percentageOfNodesToScore"
    value = case.configuration.value
    profiles = value.get("profiles")
    places = [(name, value.get(name))]
    for index, profile in enumerate(profiles if isinstance(profiles, list) else ()):
        if isinstance(profile, dict) and profile.get(name) is not None:
            places.append((f"profiles[{index}].{name}", profile[name]))
    for place, given in places:
        if isinstance(given, int | float) and not 0 <= given <= 100:
            message = f"`{given}` is no percentage: kube-scheduler refuses to start"
            yield Finding("error", place, message, f"write `{name}: 100`")
        elif given is None or (isinstance(given, int | float) and given != 100):
            message = (
                "from 100 nodes on Placet is asked about a sample, and a pod that fits on none "
                "of it stays pending"
            )
            yield Finding("warning", place, message, f"write `{name}: 100`")


def shared_lease(case: Case) -> Iterator[Finding]:
    """A second scheduler that waits for the first one's Lease."""
    value = case.configuration.value
    election = value.get("leaderElection")
    lease = election if isinstance(election, dict) else {}
    profiles = value.get("profiles")
    items = profiles if isinstance(profiles, list) else []
    names = [profile.get("schedulerName") for profile in items if isinstance(profile, dict)]
    second = names and all(isinstance(n, str) and n != "default-scheduler" for n in names)
    if (
        second
        and lease.get("leaderElect") is not False
        and lease.get("resourceName") in (None, "", "kube-scheduler")
        and lease.get("resourceNamespace") in (None, "", "kube-system")
    ):
        message = f"`{names[0]}` waits for the Lease of the kube-scheduler that the cluster has"
        hint = f"write `resourceName: {names[0]}` there"
        yield Finding("warning", "leaderElection.resourceName", message, hint)


def _name(extender: ExtenderEntry) -> str:
    return extender.url or extender.place


# ---- Every check, by the name that its findings go by, and what they say of a configuration.

OF_ALL: Mapping[str, Callable[[Case], Iterator[Finding]]] = {
    "version": version,
    "unknown-field": unknown_field,
    "repeated-field": repeated_field,
    "wrong-type": wrong_type,
    "no-extender": no_extender,
    "two-binders": two_binders,
    "weight": weight,
    "resource-name": resource_name,
    "tls-conflict": tls_conflict,
    "no-certificate": no_certificate,
    "later-filter": later_filter,
    "asked-twice": asked_twice,
    "sampled-nodes": sampled_nodes,
    "shared-lease": shared_lease,
}
OF_OURS: Mapping[str, Callable[[ExtenderEntry, Case], Iterator[Finding]]] = {
    "url": url,
    "service-name": service_name,
    "no-ca": no_ca,
    "no-encryption": no_encryption,
    "timeout": timeout,
    "verb": verb,
    "missing-verb": missing_verb,
    "no-binder": no_binder,
    "whole-nodes": whole_nodes,
    "ignorable": ignorable,
    "managed-resources": managed_resources,
}


def examine(case: Case) -> list[Problem]:
    """What is wrong, in the order of the file as far as lines are known; errors first on a line."""
    found = [(code, finding) for code, check in OF_ALL.items() for finding in check(case)]
    if (ours := case.ours) is not None:
        found += [(code, f) for code, check in OF_OURS.items() for f in check(ours, case)]
    # What cannot be read counts as zero, which others need not complain about.
    unread = {f.place for code, f in found if code == "wrong-type"}
    found = [(code, f) for code, f in found if code == "wrong-type" or f.place not in unread]
    source, line = case.configuration.source, case.configuration.line
    problems = [Problem(source, line(f.place), code, f) for code, f in found]
    return sorted(problems, key=lambda p: (p.line, p.finding.severity))


def refuse_unsound(text: str, http_timeout: float) -> None:
    """Raises CommandError for a configuration of ours with which nothing could work."""
    (configuration,) = configurations([("the configuration", text)], lambda _path: None)
    case = Case(configuration, choose(configuration.extenders), http_timeout)
    for problem in examine(case):
        if problem.finding.severity == "error":
            raise CommandError(problem.finding.message, problem.finding.hint)

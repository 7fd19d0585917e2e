"""Checks of `placet doctor`: every problem that it reports in a kube-scheduler configuration.

A check is a function; OF_ALL and OF_OURS name it, and the name is the code of its findings. An
error means that kube-scheduler refuses to start, that a call cannot succeed, or that a strict bound
can be passed. A warning means that the configuration works, but not as well as it could.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cli.command import CommandError
from cli.doctor import fields, gate_checks
from cli.doctor.configuration_text import SchedulerConfiguration, configurations
from cli.doctor.extender import ExtenderEntry
from cli.doctor.gate_checks import Marking
from cli.doctor.generator import OUR_LEASE, VERBS
from cli.doctor.requirements import SchedulerRequirements
from cli.render import FieldFinding, FieldPlace
from engine.counting.in_flight_pods import BIND_TIMEOUT_SECONDS
from engine.objects.api_types import mapping, mappings
from engine.objects.gate import GATE
from grammar.messages.diagnostics import Diagnostic, Severity, nearest
from grammar.messages.texts import named
from grammar.tree.source import Span

OUR_PATH = "/api/scheduler"
OUR_PORT = 12345
# The most names that a message lists.
_SHOWN = 3
# A finding as a check yields it: the path of a field, and a diagnostic without a code and a span.
_Found = tuple[str, Diagnostic]


@dataclass(frozen=True, slots=True)
class ConfigurationContext:
    """One configuration to check. The timeouts of `placet serve` are in seconds.

    `ours` is the extender taken for Placet, `because` the reason; None and empty if it is unclear.
    `requirements` is None if the policies are unknown. `binds` says whether `placet serve` has
    `--bind`, `lease` is the namespace and name of its `--lease`, None without one, and `gate` its
    `--gate`. `marking` is None if the cluster is unknown.
    """

    configuration: SchedulerConfiguration
    ours: ExtenderEntry | None
    because: str
    http_timeout: float
    requirements: SchedulerRequirements | None = None
    binds: bool = False
    lease: tuple[str, str] | None = OUR_LEASE
    bind_timeout: float = BIND_TIMEOUT_SECONDS
    gate: bool = False
    marking: Marking | None = None

    @property
    def worst(self) -> Severity:
        """The severity of pods that pass without policies: strict bounds must always hold."""
        return "error" if self.requirements is not None and self.requirements.strict else "warning"


def choose(
    extenders: Sequence[ExtenderEntry], url: str | None = None
) -> tuple[ExtenderEntry | None, str]:
    """The extender that is Placet, and the reason: it has the URL, or is the most likely one.

    None if it is unclear. Raises CommandError if no extender has the URL.
    """
    if url is not None:
        for extender in extenders:
            if extender.url.rstrip("/") == url.rstrip("/"):
                return extender, "it has the URL of `--url`"
        close = nearest(url, [e.url for e in extenders])
        hint = f"a similar one exists: `{close}`" if close else "give the `urlPrefix` of one"
        raise CommandError(f"no extender has the URL `{url}`", hint)
    if len(extenders) == 1:
        return extenders[0], "it is the only one"
    by_path = [e for e in extenders if e.prefix.path.endswith(OUR_PATH)]
    by_port = [e for e in extenders if e.prefix.port == OUR_PORT]
    both = [e for e in by_path if e.prefix.port == OUR_PORT]
    for found, because in (
        (both, f"its URL has the port {OUR_PORT} and ends in `{OUR_PATH}`"),
        (by_path, f"its URL ends in `{OUR_PATH}`"),
        (by_port, f"its URL has the port {OUR_PORT}"),
    ):
        if len({extender.url for extender in found}) == 1:
            return found[0], because
    return None, ""


def examine(context: ConfigurationContext) -> list[FieldFinding]:
    """The findings in a configuration by line, where lines are known; errors first on a line."""
    found = [(code, *each) for code, check in OF_ALL.items() for each in check(context)]
    if (ours := context.ours) is not None:
        found += [(code, *each) for code, check in OF_OURS.items() for each in check(ours, context)]
    # A value of a wrong type counts as zero, which the other checks must not report.
    unread = {path for code, path, _ in found if code == "wrong-type"}
    source, line = context.configuration.source, context.configuration.line
    findings = [
        (replace(diagnostic, code=code), FieldPlace(source, line(path), path))
        for code, path, diagnostic in found
        if code == "wrong-type" or path not in unread
    ]
    return sorted(findings, key=lambda f: (f[1].line, f[0].severity))


def refuse_unsound(text: str, http_timeout: float) -> None:
    """Raises CommandError for a generated configuration with an error."""
    (configuration,) = configurations([("the configuration", text)], lambda _path: None)
    ours, because = choose(configuration.extenders)
    binds = ours is not None and bool(ours.verbs["bind"])
    context = ConfigurationContext(configuration, ours, because, http_timeout, binds=binds)
    for diagnostic, _ in examine(context):
        if diagnostic.severity == "error":
            raise CommandError(diagnostic.message, diagnostic.hint or "")


def _error(path: str, message: str, hint: str) -> _Found:
    return _found("error", path, message, hint)


def _refused(path: str, message: str, hint: str) -> _Found:
    return _error(path, f"{message}: kube-scheduler refuses to start", hint)


def _warning(path: str, message: str, hint: str) -> _Found:
    return _found("warning", path, message, hint)


def _found(severity: Severity, path: str, message: str, hint: str) -> _Found:
    return path, Diagnostic("", severity, message, Span(0, 0), hint=hint)


def _some(names: Sequence[str]) -> str:
    return named([f"`{name}`" for name in names], _SHOWN)


# ---- the calls to Placet: verbs, content, pods, and what happens without an answer


def verb(ours: ExtenderEntry, _context: ConfigurationContext) -> Iterator[_Found]:
    """Paths that Placet does not have (C1)."""
    for name, path in ours.verbs.items():
        # The prefix has the rest of the path, or none of it.
        correct = (name,) if ours.prefix.path else (name, f"api/scheduler/{name}")
        if not path or path.rstrip("/") in correct:
            continue
        if path.strip("/") == name:
            message = f"`{path}` begins with a slash: kube-scheduler calls `…/{path}`, which fails"
        elif path in VERBS:
            message = f"`{path}` is the path of another verb than `{name}`"
        else:
            close = nearest(path, VERBS)
            message = f"Placet has no verb `{path}`"
            if close not in (None, name):
                message += f", and `{close}` is another verb than `{name}`"
        yield _error(ours.at(f"{name}Verb"), message, f"write `{name}Verb: {name}`")


def missing_verb(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[_Found]:
    """Verbs that Placet has and kube-scheduler does not call."""
    if not any(ours.verbs.values()):
        message = "no verb is set, so kube-scheduler never calls Placet"
        yield _error(ours.place, message, "write `filterVerb: filter`")
        return
    if not ours.verbs["filter"]:
        message = "without a `filterVerb` policies reject nothing"
        yield _found(context.worst, ours.at("filterVerb"), message, "write `filterVerb: filter`")
    elif not ours.verbs["preempt"]:
        message = (
            "without a `preemptVerb` pods are evicted from nodes that policies reject afterwards"
        )
        yield _warning(ours.at("preemptVerb"), message, "write `preemptVerb: preempt`")
    needs = context.requirements
    if needs is not None and needs.scores and not ours.verbs["prioritize"]:
        message = f"without a `prioritizeVerb` {_some(needs.scores)} score nothing"
        hint = "write `prioritizeVerb: prioritize` and `weight: 10`"
        yield _warning(ours.at("prioritizeVerb"), message, hint)


def unused_verb(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[_Found]:
    """A `prioritizeVerb` that no policy needs: a call more for every pod."""
    needs = context.requirements
    if needs is not None and not needs.scores and ours.verbs["prioritize"]:
        message = (
            "no clause of these policies scores, so calls of the `prioritizeVerb` change nothing"
        )
        hint = "remove `prioritizeVerb` and `weight` until a policy has a score or a preference"
        yield _warning(ours.at("prioritizeVerb"), message, hint)


def no_binder(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[_Found]:
    """Clauses that are checked again before the binding, which kube-scheduler makes itself."""
    needs = context.requirements
    if needs is None or ours.verbs["bind"]:
        return
    at, hint = ours.at("bindVerb"), "write `bindVerb: bind`"
    if not context.binds:
        hint += ", and serve with `--bind`"
    if needs.cards:
        message = f"without a `bindVerb` no pod gets the cards of {_some(needs.cards)}"
        yield _error(at, message, hint)
    if needs.at_bind:
        message = f"without a `bindVerb` {_some(needs.at_bind)} are not checked at binding"
        yield _warning(at, message, hint)
    if needs.amounts:
        message = (
            f"without a `bindVerb` the sums of {_some(needs.amounts)} do not have the pods that "
            "are still on their way, so their bounds can be passed"
        )
        yield _warning(at, message, f"write each as a `limit` with a `sum`; or {hint}")
    if needs.strict:
        message = (
            f"without a `bindVerb` the bounds of {_some(needs.strict)} are not checked "
            "against the newest state before the binding"
        )
        yield _warning(at, message, hint)


def bind(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[_Found]:
    """A `bindVerb` for a Placet that does not bind, and the reverse."""
    at = ours.at("bindVerb")
    if ours.verbs["bind"] and not context.binds:
        message = "`placet serve` has no verb bind without `--bind`: no pod can be bound"
        hint = "serve with `--bind` and give it to this command too, or remove `bindVerb`"
        yield _error(at, message, hint)
    elif context.binds and not ours.verbs["bind"]:
        message = "`placet serve --bind` may bind pods, and kube-scheduler never asks it to"
        yield _warning(at, message, "write `bindVerb: bind`, or serve without `--bind`")


def whole_nodes(ours: ExtenderEntry, _context: ConfigurationContext) -> Iterator[_Found]:
    """Whole nodes instead of names: kube-scheduler forgets the pods on them (C20)."""
    if not ours.node_cache_capable:
        message = (
            "without `nodeCacheCapable: true` kube-scheduler sends whole nodes, and treats every "
            "node in the answer as idle"
        )
        yield _warning(ours.at("nodeCacheCapable"), message, "write `nodeCacheCapable: true`")


def ignorable(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[_Found]:
    """Pods that pass when Placet does not answer (C31, C46)."""
    if not ours.ignorable:
        return
    at, hint = ours.at("ignorable"), "write `ignorable: false`"
    if context.requirements is None:
        message = "`ignorable: true` schedules pods without policies when Placet does not answer"
        more = f"{hint}, or give `--policies` to show that none of them is strict"
        yield _warning(at, message, more)
    elif context.requirements.strict:
        strict = _some(context.requirements.strict)
        message = f"`ignorable: true` lets pods pass {strict} when Placet does not answer"
        yield _error(at, message, hint)
    elif context.requirements.cards:
        cards = _some(context.requirements.cards)
        message = f"with `ignorable: true` pods run without the cards of {cards} after an error"
        yield _error(at, message, hint)
    if ours.verbs["bind"]:
        message = (
            "with `ignorable: true` and a `bindVerb` kube-scheduler binds the pod itself after an "
            "error, while Placet may still be binding it"
        )
        yield _warning(at, message, hint)


def managed_resources(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[_Found]:
    """Pods for which Placet is not called (C9), and amounts that nobody checks (C10)."""
    at = ours.at("managedResources")
    if ours.managed and all(resource.name != GATE for resource in ours.managed):
        names = _some([resource.name for resource in ours.managed])
        message = f"policies have no effect on pods that request none of {names}"
        hint = "remove `managedResources`, so that Placet is called for every pod"
        yield _found(context.worst, at, message, hint)
    for index, resource in enumerate(ours.managed):
        if resource.ignored and resource.name != GATE:
            message = f"kube-scheduler does not check whether a node has enough `{resource.name}`"
            amount = f'peer.requests["{resource.name}"]'
            hint = (
                "remove `ignoredByScheduler`, or write a policy that counts the resource, with "
                f"`limit … {{ sum {amount} … per node at most … strict }}` or a `cards` clause"
            )
            yield _warning(f"{at}[{index}].ignoredByScheduler", message, hint)


def gate(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[_Found]:
    """The marker of the gate, which managedResources, admission and Placet must agree about."""
    needs = context.requirements
    for path, severity, message, hint in gate_checks.findings(
        ours,
        serves=context.gate,
        marking=context.marking,
        namespaces=() if needs is None else needs.namespaces,
        portable=() if needs is None else needs.portable,
        worst=context.worst,
    ):
        yield _found(severity, path, message, hint)


# ---- the connection to Placet: URL, host name, encryption, timeout

# kube-scheduler's timeout if none is set (C2).
DEFAULT_TIMEOUT = 5.0
# Scheduling cycles are serial: a missing answer delays every pod for this long.
LONG_TIMEOUT = 30.0
_SERVICE = re.compile(r"[^.]+\.[^.]+\.svc(\..+)?|[^.:]+")


def url(ours: ExtenderEntry, _context: ConfigurationContext) -> Iterator[_Found]:
    """A prefix that is not a URL, or not one of Placet."""
    prefix = ours.prefix
    at, hint = ours.at("urlPrefix"), "as in `http://127.0.0.1:12345/api/scheduler`"
    if not ours.url:
        yield _error(at, "there is no `urlPrefix` to send calls to", f"write one, {hint}")
    elif prefix.scheme not in ("http", "https") or not prefix.host:
        message = f"`{ours.url}` is not a URL of a server: every call fails"
        yield _error(at, message, f"write scheme and host, {hint}")
    elif prefix.path not in ("", OUR_PATH):
        message = f"Placet has no path `{prefix.path}`, unless a proxy before it rewrites paths"
        yield _warning(at, message, "end it with `/api/scheduler`")


def service_name(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[_Found]:
    """The DNS name of a service, which a static pod cannot resolve."""
    host, manifest = ours.prefix.host, context.configuration.manifest
    if ours.prefix.local or not _SERVICE.fullmatch(host):
        return
    hint = "use the service's cluster IP, or run Placet beside kube-scheduler on 127.0.0.1"
    at = ours.at("urlPrefix")
    if manifest is None:
        message = f"kube-scheduler as a static pod cannot resolve the service name `{host}`"
        yield _warning(at, message, hint)
    elif not manifest.resolves_services:
        network = " on the host's network" if manifest.host_network else ""
        policy = manifest.dns_policy or "ClusterFirst"
        message = (
            f"kube-scheduler{network} with `dnsPolicy: {policy}` cannot resolve the service "
            f"name `{host}`"
        )
        more = f"{hint}, or set `dnsPolicy: ClusterFirstWithHostNet`"
        yield _error(at, message, more if manifest.host_network else hint)


def no_ca(ours: ExtenderEntry, _context: ConfigurationContext) -> Iterator[_Found]:
    """HTTPS that trusts any server (C8)."""
    if ours.prefix.scheme != "https":
        return
    at, hint = ours.at("tlsConfig"), "put the CA of Placet's certificate into `tlsConfig.caData`"
    if ours.tls.insecure and not ours.tls.ca:
        message = "with `insecure: true` kube-scheduler trusts any server"
        yield _warning(f"{at}.insecure", message, hint)
    elif ours.https and not ours.tls.ca:
        message = f"with `{ours.https_name}` and without a CA kube-scheduler trusts any server"
        yield _error(at, message, hint)
    elif not ours.tls.ca:
        message = "without a CA only a certificate of a public authority is accepted"
        yield _warning(at, message, hint)


def no_encryption(ours: ExtenderEntry, _context: ConfigurationContext) -> Iterator[_Found]:
    """TLS settings without effect, and unencrypted calls to another machine."""
    prefix, at = ours.prefix, ours.at("urlPrefix")
    if prefix.scheme != "http":
        return
    if ours.https or ours.tls.given:
        setting = f"`{ours.https_name}`" if ours.https else "`tlsConfig`"
        message = f"{setting} has no effect because the URL begins with `http:`"
        yield _error(at, message, f"begin the URL with `https:`, or remove {setting}")
    elif not prefix.local:
        message = f"calls to `{prefix.host}` and their answers are not encrypted"
        yield _warning(at, message, "serve TLS, or run Placet beside kube-scheduler")


def timeout(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[_Found]:
    """A timeout that ends before Placet answers, or is too long (C2)."""
    at, own = ours.at("httpTimeout"), context.http_timeout
    has = DEFAULT_TIMEOUT if ours.timeout is None else ours.timeout
    written = round(own * 10**9) if ours.legacy else f"{own:g}s"
    write = f"write `httpTimeout: {written}`"
    if has < own:
        unset = " by default" if ours.timeout is None else ""
        message = (
            f"kube-scheduler waits{unset} for {has:g} s, and Placet takes up to four fifths "
            f"of {own:g} s"
        )
        hint = f"{write}, or serve with `--http-timeout {has:g}s`"
        yield _error(at, message, hint if has > 0 else write)
    elif ours.timeout is None:
        message = f"there is no `httpTimeout`: kube-scheduler waits for {DEFAULT_TIMEOUT:g} s"
        yield _warning(at, message, write)
    elif has > LONG_TIMEOUT:
        message = f"a missing answer delays every pod for {has:g} s"
        yield _warning(at, message, write)


# ---- the whole configuration: its version, its fields, and all of its extenders

_VERSION = "kubescheduler.config.k8s.io/v1"


def version(context: ConfigurationContext) -> Iterator[_Found]:
    """An `apiVersion` or `kind` that kube-scheduler 1.36 does not read."""
    given = context.configuration.value.get("apiVersion")
    kind = context.configuration.value.get("kind")
    if (given, kind) == (_VERSION, "KubeSchedulerConfiguration"):
        return
    converts = "`placet scheduler-config --from FILE` writes a KubeSchedulerConfiguration of it"
    if context.configuration.legacy:
        message = "kube-scheduler 1.23 and later do not read a Policy"
        yield _warning("kind", message, converts)
        return
    hint = f"write `apiVersion: {_VERSION}` and `kind: KubeSchedulerConfiguration`"
    if kind is None and "extenders" not in context.configuration.value:
        message = "this is a part of a configuration, as the framework's design shows it"
        yield _refused("kind", message, converts)
    elif kind is None or given is None:
        missing = "kind" if kind is None else "apiVersion"
        yield _refused(missing, f"there is no `{missing}`", hint)
    else:
        is_older = isinstance(given, str) and given.startswith("kubescheduler.config.k8s.io/")
        message = f"kube-scheduler 1.36 does not read `{given}`, only `{_VERSION}`"
        yield _error("apiVersion", message, f"{hint}; {converts}" if is_older else hint)


# Fields of a Policy, and fields that were beside the extenders before there were profiles.
_MOVED = frozenset(
    {"predicates", "priorities", "schedulerName", "plugins", "pluginConfig", "algorithmSource"}
)


def unknown_field(context: ConfigurationContext) -> Iterator[_Found]:
    """A field that kube-scheduler does not know. Unknown fields of a Policy have no effect."""
    legacy = context.configuration.legacy
    for path, name, known in fields.unknown(context.configuration.value, legacy=legacy):
        close = nearest(name, known)
        hint = f"a similar name exists: `{close}`" if close else "remove it"
        if path in _MOVED:
            hint = "`placet scheduler-config --from FILE` writes what has become of it"
        if legacy:
            yield _warning(path, f"there is no field `{name}`: it has no effect", hint)
        else:
            yield _refused(path, f"there is no field `{name}`", hint)


def repeated_field(context: ConfigurationContext) -> Iterator[_Found]:
    """A field that is written twice."""
    for path in context.configuration.document.repeated:
        yield _refused(path, f"`{path}` is written twice", "remove one of the two")


def wrong_type(context: ConfigurationContext) -> Iterator[_Found]:
    """A value of another type than its field."""
    configuration = context.configuration
    for path, wanted, hint in fields.mistyped(configuration.value, legacy=configuration.legacy):
        where = f"`{path}`" if path else "the configuration"
        yield _refused(path, f"{where} is not {wanted}", hint)


def no_extender(context: ConfigurationContext) -> Iterator[_Found]:
    """No extenders, or several of which any could be Placet."""
    extenders = context.configuration.extenders
    if not extenders:
        message = "there are no extenders, so kube-scheduler never calls Placet"
        yield _error("extenders", message, "add the output of `placet scheduler-config --section`")
    elif context.ours is None:
        message = f"it is unclear which of the {len(extenders)} extenders is Placet"
        yield _error("extenders", message, "give its `urlPrefix` with `--url`")


def two_binders(context: ConfigurationContext) -> Iterator[_Found]:
    """More than one `bindVerb` (C10)."""
    binders = [e for e in context.configuration.extenders if e.verbs["bind"]]
    if len(binders) > 1:
        message = f"{len(binders)} extenders have a `bindVerb`"
        yield _refused(binders[1].at("bindVerb"), message, "keep it in one of them")


def weight(context: ConfigurationContext) -> Iterator[_Found]:
    """A `prioritizeVerb` without a positive weight (C10)."""
    for extender in context.configuration.extenders:
        if extender.verbs["prioritize"] and extender.weight <= 0:
            rule = "with a `prioritizeVerb` the `weight` must be greater than 0"
            hint = "`weight: 10` makes a score count as much as that of a built-in plugin"
            yield _refused(extender.at("weight"), f"{rule}, but it is {extender.weight}", hint)


def resource_name(context: ConfigurationContext) -> Iterator[_Found]:
    """Managed resources that are not extended resources, or that two extenders have (C10)."""
    taken: set[str] = set()
    for extender in context.configuration.extenders:
        for index, resource in enumerate(extender.managed):
            at = extender.at(f"managedResources[{index}].name")
            if not fields.is_extended(resource.name):
                message = f"`{resource.name}` is not an extended resource"
                yield _refused(at, message, "write one with a domain, as in `example.com/gpu`")
            elif resource.name in taken:
                message = f"`{resource.name}` is managed twice"
                yield _refused(at, message, "keep it in one extender only")
            taken.add(resource.name)


def tls_conflict(context: ConfigurationContext) -> Iterator[_Found]:
    """A CA beside `insecure`, and half of a client certificate (C8)."""
    for extender in context.configuration.extenders:
        tls = extender.tls
        if tls.insecure and tls.ca:
            message = "a CA together with `insecure: true`"
            yield _refused(extender.at("tlsConfig.insecure"), message, "remove `insecure`")
        if tls.certificate != tls.key:
            has, lacks = ("certificate", "key") if tls.certificate else ("key", "certificate")
            message = f"a client {has} without its {lacks} has no effect"
            yield _warning(extender.at("tlsConfig"), message, "give both, as files or as data")


def no_certificate(context: ConfigurationContext) -> Iterator[_Found]:
    """Base64 data that is not PEM."""
    for extender in context.configuration.extenders:
        tls = extender.tls
        for name, text in tls.data.items():
            if name != "caData" and not (tls.certificate and tls.key):
                continue  # kube-scheduler does not read half a pair
            what = "private key" if name == "keyData" else "certificate"
            if not _is_pem(text, "KEY" if name == "keyData" else "CERTIFICATE"):
                at = extender.at(f"tlsConfig.{name}")
                message = f"`{name}` has no {what} in PEM"
                yield _refused(at, message, "encode a file that begins with `-----BEGIN`")


def _is_pem(text: str, kind: str) -> bool:
    try:
        data = base64.b64decode(text)
    except ValueError:
        return True  # `wrong-type` reports it
    return re.search(rf"-----BEGIN ([A-Z0-9]+ )*{kind}-----".encode(), data) is not None


def later_filter(context: ConfigurationContext) -> Iterator[_Found]:
    """A filter after ours: a pod that we counted on a node may go to another one (C11)."""
    ours = context.ours
    if ours is None or not ours.verbs["filter"]:
        return
    # kube-scheduler calls ignorable extenders last (C10).
    order = sorted(context.configuration.extenders, key=lambda e: e.ignorable)
    for extender in order[order.index(ours) + 1 :]:
        if extender.verbs["filter"]:
            name = extender.url or extender.place
            message = f"`{name}` filters after Placet and may reject a node that Placet counted"
            hint = f"put `{ours.place}` last"
            if extender.ignorable and not ours.ignorable:
                hint = (
                    "ignorable extenders come last: set `ignorable: false` and put it before Placet"
                )
            yield _found(context.worst, extender.place, message, hint)


def asked_twice(context: ConfigurationContext) -> Iterator[_Found]:
    """Two extenders with Placet's URL."""
    ours = context.ours
    if ours is None:
        return
    for extender in context.configuration.extenders:
        if extender.place != ours.place and extender.url == ours.url:
            message = f"kube-scheduler calls `{ours.url}` twice for each pod"
            yield _warning(extender.at("urlPrefix"), message, "remove one of the two")


def sampled_nodes(context: ConfigurationContext) -> Iterator[_Found]:
    """A sample of the nodes: a pod that fits only on other nodes stays pending (C12)."""
    if context.configuration.legacy:
        return  # a Policy does not have the field
    name = "percentageOfNodesToScore"
    value = context.configuration.value
    profiles = value.get("profiles")
    places = [(name, value.get(name))]
    for index, profile in enumerate(profiles if isinstance(profiles, list) else ()):
        if isinstance(profile, dict) and profile.get(name) is not None:
            places.append((f"profiles[{index}].{name}", profile[name]))
    for place, given in places:
        if isinstance(given, int | float) and not 0 <= given <= 100:
            yield _refused(place, f"`{given}` is not a percentage", f"write `{name}: 100`")
        elif given is None or (isinstance(given, int | float) and given != 100):
            message = (
                "with 100 nodes or more Placet gets a sample of them, and a pod that fits on no "
                "node of the sample stays pending"
            )
            yield _warning(place, message, f"write `{name}: 100`")


def shared_lease(context: ConfigurationContext) -> Iterator[_Found]:
    """A second scheduler that waits for the first one's Lease."""
    value = context.configuration.value
    lease = mapping(value, "leaderElection")
    names = [profile.get("schedulerName") for profile in mappings(value, "profiles")]
    second = names and all(isinstance(n, str) and n != "default-scheduler" for n in names)
    if (
        second
        and lease.get("leaderElect") is not False
        and lease.get("resourceName") in (None, "", "kube-scheduler")
        and lease.get("resourceNamespace") in (None, "", "kube-system")
    ):
        message = f"`{names[0]}` waits for the Lease of the cluster's first kube-scheduler"
        hint = f"write `resourceName: {names[0]}` there"
        yield _warning("leaderElection.resourceName", message, hint)


def placets_lease(context: ConfigurationContext) -> Iterator[_Found]:
    """kube-scheduler's Lease is that of Placet's replicas."""
    lease = mapping(context.configuration.value, "leaderElection")
    name = lease.get("resourceName") or "kube-scheduler"
    namespace = lease.get("resourceNamespace") or "kube-system"
    if lease.get("leaderElect") is not False and (namespace, name) == context.lease:
        message = (
            f"kube-scheduler holds the Lease `{namespace}/{name}`, which is that of Placet: "
            "Placet never decides by counts"
        )
        hint = f"write `resourceName: {name}-scheduler`, or serve with another `--lease`"
        yield _error("leaderElection.resourceName", message, hint)


def bind_timeout(context: ConfigurationContext) -> Iterator[_Found]:
    """A longer wait for volumes than Placet knows of, which matters where it does not bind."""
    if context.ours is None or context.ours.verbs["bind"]:
        return
    for index, profile in enumerate(mappings(context.configuration.value, "profiles")):
        for place, plugin in enumerate(mappings(profile, "pluginConfig")):
            given = mapping(plugin, "args").get("bindTimeoutSeconds")
            if plugin.get("name") != "VolumeBinding" or not isinstance(given, int):
                continue
            if given > context.bind_timeout:
                path = f"profiles[{index}].pluginConfig[{place}].args.bindTimeoutSeconds"
                message = (
                    f"a pod can wait {given} s for its volumes, and after a start Placet counts it "
                    f"for {context.bind_timeout:g} s"
                )
                hint = f"serve with `--bind-timeout {given}s`, and give it to this command too"
                yield _warning(path, message, hint)


# ---- the codes of the checks

OF_ALL: Mapping[str, Callable[[ConfigurationContext], Iterator[_Found]]] = {
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
    "placets-lease": placets_lease,
    "bind-timeout": bind_timeout,
}
OF_OURS: Mapping[str, Callable[[ExtenderEntry, ConfigurationContext], Iterator[_Found]]] = {
    "url": url,
    "service-name": service_name,
    "no-ca": no_ca,
    "no-encryption": no_encryption,
    "timeout": timeout,
    "verb": verb,
    "missing-verb": missing_verb,
    "unused-verb": unused_verb,
    "bind": bind,
    "no-binder": no_binder,
    "whole-nodes": whole_nodes,
    "ignorable": ignorable,
    "managed-resources": managed_resources,
    "gate": gate,
}

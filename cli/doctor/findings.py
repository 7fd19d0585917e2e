"""Checks of `placet doctor`: every problem that it reports in a kube-scheduler configuration.

A check is a function; OF_ALL and OF_OURS name it, and the name is the code of its findings. An
error means that kube-scheduler refuses to start, that a call cannot succeed, or that a strict bound
can be passed. A warning means that the configuration works, but not as well as it could.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from cli.command import CommandError
from cli.doctor import connection_checks, fields, gate_checks, profile_checks
from cli.doctor.configuration_text import FLAGS, configurations
from cli.doctor.context import ConfigurationContext, choose
from cli.doctor.extender import ExtenderEntry
from cli.doctor.found import Found, error, found, refused, some, warning
from cli.doctor.generator import VERBS, own_lease
from cli.render import FieldFinding, FieldPlace
from engine.objects.api_types import mapping, mappings
from engine.objects.gate import GATE
from grammar.messages.diagnostics import nearest
from grammar.values.errors import EvaluationError
from grammar.values.time import SECOND, Duration


def examine(context: ConfigurationContext, probed: Iterable[Found] = ()) -> list[FieldFinding]:
    """The findings in a configuration by line, where lines are known; errors first on a line.

    `probed` are those of a probe of the running Placet.
    """
    all_found = [(code, *each) for code, check in OF_ALL.items() for each in check(context)]
    if (ours := context.ours) is not None:
        all_found += [
            (code, *each) for code, check in OF_OURS.items() for each in check(ours, context)
        ]
    all_found += [("probe", *each) for each in probed]
    # A value of a wrong type counts as zero, which the other checks must not report.
    unread = {path for code, path, _ in all_found if code == "wrong-type"}
    source, line = context.configuration.source, context.configuration.line
    findings = [
        (replace(diagnostic, code=code), FieldPlace(source, line(path), path))
        for code, path, diagnostic in all_found
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


# ---- the calls to Placet: verbs, content, pods, and what happens without an answer


def verb(ours: ExtenderEntry, _context: ConfigurationContext) -> Iterator[Found]:
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
        yield error(ours.at(f"{name}Verb"), message, f"write `{name}Verb: {name}`")


def missing_verb(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """Verbs that Placet has and kube-scheduler does not call."""
    if not any(ours.verbs.values()):
        message = "no verb is set, so kube-scheduler never calls Placet"
        yield error(ours.place, message, "write `filterVerb: filter`")
        return
    if not ours.verbs["filter"]:
        message = "without a `filterVerb` policies reject nothing"
        yield found(context.worst, ours.at("filterVerb"), message, "write `filterVerb: filter`")
    elif not ours.verbs["preempt"]:
        message = (
            "without a `preemptVerb` pods are evicted from nodes that policies reject afterwards"
        )
        yield warning(ours.at("preemptVerb"), message, "write `preemptVerb: preempt`")
    needs = context.requirements
    if needs is not None and needs.scores and not ours.verbs["prioritize"]:
        message = f"without a `prioritizeVerb` {some(needs.scores)} score nothing"
        hint = "write `prioritizeVerb: prioritize` and `weight: 10`"
        yield warning(ours.at("prioritizeVerb"), message, hint)


def unused_verb(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """A `prioritizeVerb` that no policy needs: a call more for every pod."""
    needs = context.requirements
    if needs is not None and not needs.scores and ours.verbs["prioritize"]:
        message = (
            "no clause of these policies scores, so calls of the `prioritizeVerb` change nothing"
        )
        hint = "remove `prioritizeVerb` and `weight` until a policy has a score or a preference"
        yield warning(ours.at("prioritizeVerb"), message, hint)


def no_binder(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """Clauses that are checked again before the binding, which kube-scheduler makes itself."""
    needs = context.requirements
    if needs is None or ours.verbs["bind"]:
        return
    at, hint = ours.at("bindVerb"), "write `bindVerb: bind`"
    if not context.binds:
        hint += ", and serve with `--bind`"
    if needs.cards:
        message = f"without a `bindVerb` no pod gets the cards of {some(needs.cards)}"
        yield error(at, message, hint)
    if needs.waiting:
        message = f"without a `bindVerb` no pod waits for {some(needs.waiting)}"
        yield error(at, message, hint)
    if needs.at_bind:
        message = f"without a `bindVerb` {some(needs.at_bind)} are not checked at binding"
        yield warning(at, message, hint)
    if needs.amounts:
        message = (
            f"without a `bindVerb` the sums of {some(needs.amounts)} do not have the pods that "
            "are still on their way, so their bounds can be passed"
        )
        yield warning(at, message, f"write each as a `limit` with a `sum`; or {hint}")
    if bounds := [name for name in needs.strict if name not in needs.waiting]:
        message = (
            f"without a `bindVerb` the bounds of {some(bounds)} are not checked "
            "against the newest state before the binding"
        )
        yield warning(at, message, hint)


def bind(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """A `bindVerb` for a Placet that does not bind, and the reverse."""
    at = ours.at("bindVerb")
    if ours.verbs["bind"] and not context.binds:
        message = "`placet serve` has no verb bind without `--bind`: no pod can be bound"
        hint = "serve with `--bind` and give it to this command too, or remove `bindVerb`"
        yield error(at, message, hint)
    elif context.binds and not ours.verbs["bind"]:
        message = "`placet serve --bind` may bind pods, and kube-scheduler never asks it to"
        yield warning(at, message, "write `bindVerb: bind`, or serve without `--bind`")


def whole_nodes(ours: ExtenderEntry, _context: ConfigurationContext) -> Iterator[Found]:
    """Whole nodes instead of names: kube-scheduler forgets the pods on them (C20)."""
    if not ours.node_cache_capable:
        message = (
            "without `nodeCacheCapable: true` kube-scheduler sends whole nodes, and treats every "
            "node in the answer as idle"
        )
        yield warning(ours.at("nodeCacheCapable"), message, "write `nodeCacheCapable: true`")


def ignorable(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """Pods that pass when Placet does not answer (C31, C46)."""
    if not ours.ignorable:
        return
    at, hint = ours.at("ignorable"), "write `ignorable: false`"
    if context.requirements is None:
        message = "`ignorable: true` schedules pods without policies when Placet does not answer"
        more = f"{hint}, or give `--policies` to show that none of them is strict"
        yield warning(at, message, more)
    elif context.requirements.strict:
        strict = some(context.requirements.strict)
        message = f"`ignorable: true` lets pods pass {strict} when Placet does not answer"
        yield error(at, message, hint)
    elif context.requirements.cards:
        cards = some(context.requirements.cards)
        message = f"with `ignorable: true` pods run without the cards of {cards} after an error"
        yield error(at, message, hint)
    if ours.verbs["bind"]:
        message = (
            "with `ignorable: true` and a `bindVerb` kube-scheduler binds the pod itself after an "
            "error, while Placet may still be binding it"
        )
        yield warning(at, message, hint)


def managed_resources(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """Pods for which Placet is not called (C9), and amounts that nobody checks (C10)."""
    at = ours.at("managedResources")
    if ours.managed and all(resource.name != GATE for resource in ours.managed):
        names = some([resource.name for resource in ours.managed])
        message = f"policies have no effect on pods that request none of {names}"
        hint = "remove `managedResources`, so that Placet is called for every pod"
        yield found(context.worst, at, message, hint)
    for index, resource in enumerate(ours.managed):
        if resource.ignored and resource.name != GATE:
            message = f"kube-scheduler does not check whether a node has enough `{resource.name}`"
            amount = f'peer.requests["{resource.name}"]'
            hint = (
                "remove `ignoredByScheduler`, or write a policy that counts the resource, with "
                f"`limit … {{ sum {amount} … per node at most … strict }}` or a `cards` clause"
            )
            yield warning(f"{at}[{index}].ignoredByScheduler", message, hint)


def gate(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
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
        yield found(severity, path, message, hint)


# ---- the whole configuration: its version, its fields, and all of its extenders

_VERSION = "kubescheduler.config.k8s.io/v1"


def version(context: ConfigurationContext) -> Iterator[Found]:
    """An `apiVersion` or `kind` that kube-scheduler 1.36 does not read."""
    given = context.configuration.value.get("apiVersion")
    kind = context.configuration.value.get("kind")
    if (given, kind) == (_VERSION, "KubeSchedulerConfiguration"):
        return
    converts = "`placet scheduler-config --from FILE` writes a KubeSchedulerConfiguration of it"
    if context.configuration.legacy:
        message = "kube-scheduler 1.23 and later do not read a Policy"
        yield warning("kind", message, converts)
        return
    hint = f"write `apiVersion: {_VERSION}` and `kind: KubeSchedulerConfiguration`"
    if kind is None and "extenders" not in context.configuration.value:
        message = "this is a part of a configuration, as the framework's design shows it"
        yield refused("kind", message, converts)
    elif kind is None or given is None:
        missing = "kind" if kind is None else "apiVersion"
        yield refused(missing, f"there is no `{missing}`", hint)
    else:
        is_older = isinstance(given, str) and given.startswith("kubescheduler.config.k8s.io/")
        message = f"kube-scheduler 1.36 does not read `{given}`, only `{_VERSION}`"
        yield error("apiVersion", message, f"{hint}; {converts}" if is_older else hint)


# Fields of a Policy, and fields that were beside the extenders before there were profiles.
_MOVED = frozenset(
    {"predicates", "priorities", "schedulerName", "plugins", "pluginConfig", "algorithmSource"}
)


def unknown_field(context: ConfigurationContext) -> Iterator[Found]:
    """A field that kube-scheduler does not know. Unknown fields of a Policy have no effect."""
    legacy = context.configuration.legacy
    for path, name, known in fields.unknown(context.configuration.value, legacy=legacy):
        close = nearest(name, known)
        hint = f"a similar name exists: `{close}`" if close else "remove it"
        if path in _MOVED:
            hint = "`placet scheduler-config --from FILE` writes what has become of it"
        if legacy:
            yield warning(path, f"there is no field `{name}`: it has no effect", hint)
        else:
            yield refused(path, f"there is no field `{name}`", hint)


def repeated_field(context: ConfigurationContext) -> Iterator[Found]:
    """A field that is written twice."""
    for path in context.configuration.document.repeated:
        yield refused(path, f"`{path}` is written twice", "remove one of the two")


def wrong_type(context: ConfigurationContext) -> Iterator[Found]:
    """A value of another type than its field, or outside its bounds."""
    configuration = context.configuration
    legacy, is_json = configuration.legacy, configuration.is_json
    for path, wanted, hint in fields.mistyped(
        configuration.value, legacy=legacy, is_json=is_json and not legacy
    ):
        where = f"`{path}`" if path else "the configuration"
        yield refused(path, f"{where} is not {wanted}", hint)


def text(context: ConfigurationContext) -> Iterator[Found]:
    """JSON that is none, and a document that kube-scheduler never reads."""
    configuration = context.configuration
    if configuration.is_json and not configuration.legacy:
        try:
            json.loads(configuration.text)
        except ValueError as found_error:
            message = f"what begins with a brace is read as JSON, and it is none: {found_error}"
            yield refused("", message, "correct it, or write the first line as YAML without braces")
            return
    if not configuration.is_first:
        message = "kube-scheduler reads only the first document of a file, and this is another one"
        yield error("", message, "write all into one document, and remove the line `---`")


def flag(context: ConfigurationContext) -> Iterator[Found]:
    """Flags of the manifest that kube-scheduler 1.36 does not have, or ignores."""
    flags, value = context.configuration.manifest_flags, context.configuration.value
    for name in flags:
        if name not in FLAGS:
            close = nearest(name, FLAGS)
            hint = f"a similar flag exists: `--{close}`" if close else "remove it from the manifest"
            yield refused("", f"the manifest gives the flag `--{name}`, which is unknown", hint)
    if "kubeconfig" in flags and not mapping(value, "clientConnection").get("kubeconfig"):
        message = "kube-scheduler ignores its flag `--kubeconfig` beside `--config`"
        hint = f"write `kubeconfig: {flags['kubeconfig']}` into `clientConnection`"
        yield warning("clientConnection", message, hint)


def backoff(context: ConfigurationContext) -> Iterator[Found]:
    """A longest wait between attempts that is shorter than the first one."""
    value, most = context.configuration.value, "podMaxBackoffSeconds"
    first, longest = (
        default if value.get(name) is None else value[name]
        for name, default in (("podInitialBackoffSeconds", 1), (most, 10))
    )
    if all(isinstance(each, int | float) for each in (first, longest)) and longest < first:
        message = f"`{most}` is {longest}, less than `podInitialBackoffSeconds` with {first}"
        yield refused(most, message, f"write `{most}: {first}` or more")


def election(context: ConfigurationContext) -> Iterator[Found]:
    """Times of the leader election that do not fit together, and a lock that is not a Lease."""
    given, place = context.configuration.election, "leaderElection"
    if context.configuration.legacy or given.get("leaderElect") is False:
        return
    if given.get("resourceLock") not in (None, "", "leases"):
        message = f"`resourceLock` is `{given['resourceLock']}`, and only `leases` exists"
        yield refused(f"{place}.resourceLock", message, "write `resourceLock: leases`")
    times: dict[str, int] = {}
    for name, default in (("leaseDuration", 15), ("renewDeadline", 10), ("retryPeriod", 2)):
        try:
            nanos = Duration.parse(given.get(name, "0s")).nanos
        except (EvaluationError, TypeError):
            return
        times[name] = nanos or default * SECOND
        if nanos < 0:
            message = f"`{name}` is negative"
            yield refused(f"{place}.{name}", message, f"write `{name}: {default}s`")
            return
    if times["leaseDuration"] <= times["renewDeadline"]:
        message = "`leaseDuration` is not longer than `renewDeadline`"
        yield refused(f"{place}.leaseDuration", message, "write a longer one; 15 s is usual")
    # client-go adds up to a fifth to each period.
    if times["renewDeadline"] <= times["retryPeriod"] * 6 / 5:
        message = "`renewDeadline` is not longer than 1.2 times the `retryPeriod`"
        yield refused(f"{place}.renewDeadline", message, "write a longer one; 10 s is usual")


def no_extender(context: ConfigurationContext) -> Iterator[Found]:
    """No extenders, or several of which any could be Placet."""
    extenders = context.configuration.extenders
    if not extenders:
        message = "there are no extenders, so kube-scheduler never calls Placet"
        yield error("extenders", message, "add the output of `placet scheduler-config --section`")
    elif context.ours is None:
        message = f"it is unclear which of the {len(extenders)} extenders is Placet"
        if len(extenders) == 1:
            message = "nothing in the URL of the only extender shows that it is Placet"
        hint = "give its `urlPrefix` with `--url`, or add the output of `placet scheduler-config"
        yield error("extenders", message, f"{hint} --section`")


def two_binders(context: ConfigurationContext) -> Iterator[Found]:
    """More than one `bindVerb` (C10)."""
    binders = [e for e in context.configuration.extenders if e.verbs["bind"]]
    if len(binders) > 1:
        message = f"{len(binders)} extenders have a `bindVerb`"
        yield refused(binders[1].at("bindVerb"), message, "keep it in one of them")


def weight(context: ConfigurationContext) -> Iterator[Found]:
    """A `prioritizeVerb` without a positive weight (C10)."""
    for extender in context.configuration.extenders:
        if extender.verbs["prioritize"] and extender.weight <= 0:
            rule = "with a `prioritizeVerb` the `weight` must be greater than 0"
            hint = "`weight: 10` makes a score count as much as that of a built-in plugin"
            yield refused(extender.at("weight"), f"{rule}, but it is {extender.weight}", hint)


def resource_name(context: ConfigurationContext) -> Iterator[Found]:
    """Managed resources that are not extended resources, or that two extenders have (C10)."""
    taken: set[str] = set()
    for extender in context.configuration.extenders:
        for index, resource in enumerate(extender.managed):
            at = extender.at(f"managedResources[{index}].name")
            if not fields.is_extended(resource.name):
                message = f"`{resource.name}` is not an extended resource"
                yield refused(at, message, "write one with a domain, as in `example.com/gpu`")
            elif resource.name in taken:
                message = f"`{resource.name}` is managed twice"
                yield refused(at, message, "keep it in one extender only")
            taken.add(resource.name)


def later_filter(context: ConfigurationContext) -> Iterator[Found]:
    """A filter after ours: a pod that we counted on a node may go to another one (C11).

    Without strict counts that is harmless, and Placet may as well come first.
    """
    ours, needs = context.ours, context.requirements
    if ours is None or not ours.verbs["filter"] or (needs is not None and not needs.strict):
        return
    # kube-scheduler calls ignorable extenders last (C10).
    order = sorted(context.configuration.extenders, key=lambda e: e.ignorable)
    for extender in order[order.index(ours) + 1 :]:
        if extender.verbs["filter"] and extender.url != ours.url:
            name = extender.url or extender.place
            message = f"`{name}` filters after Placet and may reject a node that Placet counted"
            hint = f"put `{ours.place}` last"
            if extender.ignorable and not ours.ignorable:
                hint = (
                    "ignorable extenders come last: set `ignorable: false` and put it before Placet"
                )
            if needs is None:
                hint += ", or give `--policies` to show that none of them is strict"
            yield found(context.worst, extender.place, message, hint)


def asked_twice(context: ConfigurationContext) -> Iterator[Found]:
    """Two extenders with Placet's URL and a common verb; each may have verbs of its own."""
    ours = context.ours
    if ours is None:
        return
    for extender in context.configuration.extenders:
        verbs = [name for name in VERBS if ours.verbs[name] and extender.verbs[name]]
        if extender.place != ours.place and extender.url == ours.url and verbs:
            message = f"kube-scheduler calls {some(verbs)} of `{ours.url}` twice for each pod"
            hint = "remove one of the two extenders, or these verbs from one of them"
            yield warning(extender.at("urlPrefix"), message, hint)


def sampled_nodes(context: ConfigurationContext) -> Iterator[Found]:
    """A sample of the nodes: a pod that fits only on other nodes stays pending (C12)."""
    if context.configuration.legacy:
        return  # a Policy does not have the field
    name, value = "percentageOfNodesToScore", context.configuration.value
    written = mappings(value, "profiles")
    places = {name: value.get(name)}
    places |= {f"profiles[{i}].{name}": profile.get(name) for i, profile in enumerate(written)}
    for place, given in places.items():
        if isinstance(given, int | float) and not 0 <= given <= 100:
            yield refused(place, f"`{given}` is not a percentage", f"write `{name}: 100`")
            continue
        if place == name and written and all(each.get(name) is not None for each in written):
            continue  # each profile has its own
        if given is None and place != name:
            continue  # the profile has that of all
        if given is None or (isinstance(given, int | float) and given != 100):
            message = (
                "with 100 nodes or more Placet gets a sample of them, and a pod that fits on no "
                "node of the sample stays pending"
            )
            yield warning(place, message, f"write `{name}: 100`")


def shared_lease(context: ConfigurationContext) -> Iterator[Found]:
    """A second scheduler that waits for the first one's Lease."""
    value = context.configuration.value
    lease = context.configuration.election
    names = [profile.get("schedulerName") for profile in mappings(value, "profiles")]
    second = names and all(isinstance(n, str) and n != "default-scheduler" for n in names)
    if (
        second
        and lease.get("leaderElect") is not False
        and lease.get("resourceName") in (None, "", "kube-scheduler")
        and lease.get("resourceNamespace") in (None, "", "kube-system")
    ):
        message = f"`{names[0]}` waits for the Lease of the cluster's first kube-scheduler"
        hint = f"write `resourceName: {own_lease(str(names[0]), context.lease)}` there"
        yield warning("leaderElection.resourceName", message, hint)


def placets_lease(context: ConfigurationContext) -> Iterator[Found]:
    """kube-scheduler's Lease is that of Placet's replicas."""
    lease = context.configuration.election
    name = lease.get("resourceName") or "kube-scheduler"
    namespace = lease.get("resourceNamespace") or "kube-system"
    if lease.get("leaderElect") is not False and (namespace, name) == context.lease:
        message = (
            f"kube-scheduler holds the Lease `{namespace}/{name}`, which is that of Placet: "
            "Placet never decides by counts"
        )
        hint = f"write `resourceName: {name}-scheduler`, or serve with another `--lease`"
        yield error("leaderElection.resourceName", message, hint)


def bind_timeout(context: ConfigurationContext) -> Iterator[Found]:
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
                yield warning(path, message, hint)


# ---- the codes of the checks

OF_ALL: Mapping[str, Callable[[ConfigurationContext], Iterator[Found]]] = {
    "version": version,
    "unknown-field": unknown_field,
    "repeated-field": repeated_field,
    "wrong-type": wrong_type,
    "text": text,
    "flag": flag,
    "backoff": backoff,
    "election": election,
    "profile": profile_checks.profiles,
    "plugin": profile_checks.plugins,
    "plugin-args": profile_checks.arguments,
    "no-extender": no_extender,
    "two-binders": two_binders,
    "weight": weight,
    "resource-name": resource_name,
    "tls-conflict": connection_checks.tls_conflict,
    "no-certificate": connection_checks.no_certificate,
    "later-filter": later_filter,
    "asked-twice": asked_twice,
    "sampled-nodes": sampled_nodes,
    "shared-lease": shared_lease,
    "placets-lease": placets_lease,
    "bind-timeout": bind_timeout,
}
OF_OURS: Mapping[str, Callable[[ExtenderEntry, ConfigurationContext], Iterator[Found]]] = {
    "url": connection_checks.url,
    "service-name": connection_checks.service_name,
    "no-ca": connection_checks.no_ca,
    "no-encryption": connection_checks.no_encryption,
    "timeout": connection_checks.timeout,
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

"""Findings of `placet doctor`: the checks of a kube-scheduler configuration.

A check is a function, whose name is the code of its findings; OF_ALL, OF_OURS and OF_ENTRIES list
them. Those of OF_ENTRIES look at each entry that is Placet. Bindings may be held for a gang or a
condition. All verbs of an entry share an `httpTimeout`, so bind then has a separate entry. An error
means that kube-scheduler refuses to start, that a call cannot succeed, or that a strict bound can
be passed. A warning means that the configuration works, but not as well as it could.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import yaml

from cli.command import CommandError
from cli.doctor import connection_checks
from cli.doctor.configuration_text import SchedulerConfiguration, configurations, is_json
from cli.doctor.context import ConfigurationContext, Found, error, found, refused, some, warning
from cli.doctor.generator import GROUP, KIND, VERBS, VERSION, Json, own_lease
from cli.doctor.schema import (
    ExtenderEntry,
    KubeSchedulerConfiguration,
    SchemaReader,
    is_extended,
    placets,
)
from cli.render import FieldFinding, FieldPlace
from engine.objects.api_types import mapping, mappings
from engine.objects.gate import GATE
from grammar.messages.diagnostics import nearest


def examine(
    context: ConfigurationContext, asked: Iterable[tuple[str, Found]] = ()
) -> list[FieldFinding]:
    """The findings in a configuration by line, where lines are known; errors first on a line.

    `asked` are those of programs that were asked, with codes: of the running Placet and of
    kube-scheduler.
    """
    configuration = context.configuration
    # Whatever else there is to say of what kube-scheduler does not read.
    is_first, legacy = configuration.is_first, configuration.legacy
    only = {"version": version} if legacy else {} if is_first else {"text": text}
    misread = [] if only else configuration.misread
    all_found = [(each.code, refused(each.path, each.message, each.hint)) for each in misread]
    for code, check in (only or OF_ALL).items():
        all_found += ((code, each) for each in check(context))
    ours = context.entries[:0] if only else context.entries
    for checks, entries in ((OF_OURS, ours[:1]), (OF_ENTRIES, ours)):
        for code, of_entry in checks.items():
            all_found += ((code, each) for entry in entries for each in of_entry(entry, context))
    all_found += asked
    # A value of a wrong type counts as absent, which the other checks must not report.
    unread = [f"{each.path}." for each in misread if each.code == "wrong-type"]
    findings = [
        (
            replace(diagnostic, code=code),
            FieldPlace(configuration.source, configuration.line(path), path),
        )
        for code, (path, diagnostic) in all_found
        # Neither was the field unread, nor a part of it.
        if code == "wrong-type"
        or not any(each.startswith((f"{path}.", f"{path}[")) for each in unread)
    ]
    return sorted(findings, key=lambda f: (f[1].line, f[0].severity))


# ---- the calls to Placet: verbs, content, pods, and what happens without an answer


def verb(entry: ExtenderEntry, _context: ConfigurationContext) -> Iterator[Found]:
    """Paths that Placet does not have (C1)."""
    for name, path in entry.verbs.items():
        # The prefix has the rest of the path, or none of it.
        correct = (name,) if entry.path else (name, f"api/scheduler/{name}")
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
        yield error(entry.at(f"{name}Verb"), message, f"write `{name}Verb: {name}`")


def missing_verb(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """Verbs that Placet has and kube-scheduler does not call."""
    calls = {name for name in VERBS if context.entry_of(name) is not None}
    if not calls:
        message = "no verb is set, so kube-scheduler never calls Placet"
        yield error(ours.place, message, "write `filterVerb: filter`")
        return
    if "filter" not in calls:
        message = "without a `filterVerb` policies reject nothing"
        yield found(context.worst, ours.at("filterVerb"), message, "write `filterVerb: filter`")
    elif "preempt" not in calls:
        message = (
            "without a `preemptVerb` pods are evicted from nodes that policies reject afterwards"
        )
        yield warning(ours.at("preemptVerb"), message, "write `preemptVerb: preempt`")
    needs = context.requirements
    if needs is not None and needs.scores and "prioritize" not in calls:
        message = f"without a `prioritizeVerb` {some(needs.scores)} score nothing"
        hint = "write `prioritizeVerb: prioritize` and `weight: 10`"
        yield warning(ours.at("prioritizeVerb"), message, hint)


def whole_nodes(entry: ExtenderEntry, _context: ConfigurationContext) -> Iterator[Found]:
    """Whole nodes instead of names: kube-scheduler forgets the pods on them (C20)."""
    if not entry.node_cache_capable and not entry.only_binds:
        message = (
            "without `nodeCacheCapable: true` kube-scheduler sends whole nodes, and treats every "
            "node in the answer as idle"
        )
        yield warning(entry.at("nodeCacheCapable"), message, "write `nodeCacheCapable: true`")


def ignorable(entry: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """Pods that pass when Placet does not answer (C31, C46)."""
    if not entry.ignorable:
        return
    at, hint, needs = entry.at("ignorable"), "write `ignorable: false`", context.requirements
    if needs is None:
        message = "`ignorable: true` schedules pods without policies when Placet does not answer"
        more = f"{hint}, or give `--policies` to show that none of them is strict"
        if not entry.only_binds:
            yield warning(at, message, more)
    elif needs.strict and not entry.only_binds:
        strict = some(needs.strict)
        message = f"`ignorable: true` lets pods pass {strict} when Placet does not answer"
        yield error(at, message, hint)
    elif needs.cards:
        cards = some(needs.cards)
        message = f"with `ignorable: true` pods run without the cards of {cards} after an error"
        yield error(at, message, hint)
    elif needs.waiting and entry.verbs["bind"]:
        waiting = some(needs.waiting)
        message = (
            f"with `ignorable: true` kube-scheduler binds pods that wait in vain for {waiting}"
        )
        yield error(at, message, hint)
    if entry.verbs["bind"]:
        message = (
            "with `ignorable: true` and a `bindVerb` kube-scheduler binds the pod itself after an "
            "error, while Placet may still be binding it"
        )
        yield warning(at, message, hint)


def managed_resources(entry: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """Pods for which Placet is not called (C9), and amounts that nobody checks (C10)."""
    at, resources = entry.at("managedResources"), entry.managed_resources
    if resources and all(resource.name != GATE for resource in resources):
        names = some([resource.name for resource in resources])
        message, severity = "policies have no effect on pods that request none of", context.worst
        if entry.only_binds:
            message, severity = "kube-scheduler itself binds pods that request none of", "warning"
        hint = "remove `managedResources`, so that Placet is called for every pod"
        yield found(severity, at, f"{message} {names}", hint)
    ours = context.entries[0].managed_resources
    if entry.only_binds and not resources and ours:
        names = some([resource.name for resource in ours])
        message = f"Placet binds every pod, also those that request none of {names}"
        hint = "name another resource here, which the pods request that wait at bind, and no others"
        yield warning(at, message, hint)
    for index, resource in enumerate(resources):
        if resource.ignored_by_scheduler and resource.name != GATE:
            message = f"kube-scheduler does not check whether a node has enough `{resource.name}`"
            amount = f'peer.requests["{resource.name}"]'
            hint = (
                "remove `ignoredByScheduler`, or write a policy that counts the resource, with "
                f"`limit … {{ sum {amount} … per node at most … strict }}` or a `cards` clause"
            )
            yield warning(f"{at}[{index}].ignoredByScheduler", message, hint)


def gate(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """What does not fit together: the marker must be in both or in none."""
    asks = any(resource.name == GATE for resource in ours.managed_resources)
    at, add = ours.at("managedResources"), f"write `managedResources: [{{name: {GATE}}}]`"
    if asks and not context.gate:
        message = (
            f"without `placet serve --gate` nobody reports pods that were created without `{GATE}`"
        )
        yield warning(at, message, "serve with `--gate`, and give it to this command too")
    if context.gate and not asks:
        message = (
            f"`placet serve --gate` takes pods without `{GATE}` for pods that kube-scheduler does "
            "not ask about, but it asks about every pod"
        )
        yield found(context.worst, at, message, f"{add}, or serve without `--gate`")


# ---- the whole configuration: its version, its fields, and all of its extenders


def version(context: ConfigurationContext) -> Iterator[Found]:
    """An `apiVersion` or `kind` that kube-scheduler does not read."""
    value = context.configuration.document.value
    given, kind = value.get("apiVersion"), value.get("kind")
    converts = f"`placet scheduler-config --from FILE` writes a {KIND} of it"
    hint = f"write `apiVersion: {VERSION}` and `kind: {KIND}`"
    if context.configuration.legacy:
        yield error("kind", "kube-scheduler 1.23 and later do not read a Policy", converts)
    elif kind is None and "extenders" not in value:
        message = "this is a part of a configuration, as the framework's design shows it"
        yield refused("kind", message, converts)
    elif kind is None or given is None:
        missing = "kind" if kind is None else "apiVersion"
        yield refused(missing, f"there is no `{missing}`", hint)
    elif (given, kind) != (VERSION, KIND):
        is_older = isinstance(given, str) and given.startswith(f"{GROUP}/")
        message = f"kube-scheduler 1.36 does not read `{given}`, only `{VERSION}`"
        yield error("apiVersion", message, f"{hint}; {converts}" if is_older else hint)


def text(context: ConfigurationContext) -> Iterator[Found]:
    """JSON that is none, and a document that kube-scheduler never reads."""
    configuration = context.configuration
    if is_json(configuration.text):
        try:
            json.loads(configuration.text)
        except ValueError as problem:
            message = f"what begins with a brace is read as JSON, and it is none: {problem}"
            yield refused("", message, "correct it, or write the first line as YAML without braces")
            return
    if not configuration.is_first:
        message = "kube-scheduler reads only the first document of a file, and this is another one"
        yield error("", message, "write all into one document, and remove the line `---`")


def flag(context: ConfigurationContext) -> Iterator[Found]:
    """A flag of the manifest that kube-scheduler ignores."""
    given = context.configuration.flags.get("kubeconfig")
    if given is not None and not context.configuration.fields.client_connection.kubeconfig:
        message = "kube-scheduler ignores its flag `--kubeconfig` beside `--config`"
        hint = f"write `kubeconfig: {given}` into `clientConnection`"
        yield warning("clientConnection", message, hint)


def no_extender(context: ConfigurationContext) -> Iterator[Found]:
    """No extenders, or some of which none is known to be Placet."""
    if not context.configuration.extenders:
        message = "there are no extenders, so kube-scheduler never calls Placet"
        yield error("extenders", message, "add the output of `placet scheduler-config --section`")
    elif not context.entries:
        message = "no extender is known to be Placet"
        hint = "give its `urlPrefix` with `--url`, or add the output of `placet scheduler-config"
        yield error("extenders", message, f"{hint} --section`")


def two_binders(context: ConfigurationContext) -> Iterator[Found]:
    """More than one `bindVerb` (C10)."""
    binders = [each for each in context.configuration.extenders if each.bind_verb]
    if len(binders) > 1:
        message = f"{len(binders)} extenders have a `bindVerb`"
        yield refused(binders[1].at("bindVerb"), message, "keep it in one of them")


def weight(context: ConfigurationContext) -> Iterator[Found]:
    """A `prioritizeVerb` without a positive weight (C10)."""
    for each in context.configuration.extenders:
        if each.prioritize_verb and each.weight <= 0:
            rule = "with a `prioritizeVerb` the `weight` must be greater than 0"
            hint = "`weight: 10` makes a score count as much as that of a built-in plugin"
            yield refused(each.at("weight"), f"{rule}, but it is {each.weight}", hint)


def resource_name(context: ConfigurationContext) -> Iterator[Found]:
    """Managed resources that are not extended resources, or that two extenders have (C10)."""
    taken: set[str] = set()
    for extender in context.configuration.extenders:
        for index, resource in enumerate(extender.managed_resources):
            at = extender.at(f"managedResources[{index}].name")
            if not is_extended(resource.name):
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
    ours, needs = context.entry_of("filter"), context.requirements
    if ours is None or (needs is not None and needs.is_whole and not needs.strict):
        return
    # kube-scheduler calls ignorable extenders last (C10).
    order = sorted(context.configuration.extenders, key=lambda e: e.ignorable)
    for extender in order[order.index(ours) + 1 :]:
        if extender.filter_verb and extender not in context.entries:
            name = extender.url_prefix or extender.place
            message = f"`{name}` filters after Placet and may reject a node that Placet counted"
            hint = f"put `{ours.place}` last"
            if extender.ignorable and not ours.ignorable:
                hint = (
                    "ignorable extenders come last: set `ignorable: false` and put it before Placet"
                )
            if needs is None or not needs.strict:
                hint += ", or give `--policies` to show that none of them is strict"
            yield found(context.worst, extender.place, message, hint)


def asked_twice(context: ConfigurationContext) -> Iterator[Found]:
    """Two extenders with Placet's URL and a common verb; each may have verbs of its own."""
    for extender in context.entries[1:]:
        ours = context.entries[0]
        if verbs := [name for name in VERBS if ours.verbs[name] and extender.verbs[name]]:
            message = (
                f"kube-scheduler calls {some(verbs)} of `{ours.url_prefix}` twice for each pod"
            )
            hint = "remove one of the two extenders, or these verbs from one of them"
            yield warning(extender.at("urlPrefix"), message, hint)


def sampled_nodes(context: ConfigurationContext) -> Iterator[Found]:
    """A sample of the nodes: a pod that fits only on other nodes stays pending (C12)."""
    name, value = "percentageOfNodesToScore", context.configuration.document.value
    own = [profile.get(name) for profile in mappings(value, "profiles")]
    # A profile without a percentage has that of all.
    places = {name: value.get(name)}
    places |= {f"profiles[{i}].{name}": given for i, given in enumerate(own) if given is not None}
    for place, given in places.items():
        if isinstance(given, int | float) and not 0 <= given <= 100:
            yield refused(place, f"`{given}` is not a percentage", f"write `{name}: 100`")
        elif given != 100 and (place != name or None in (own or [None])):
            message = (
                "with 100 nodes or more Placet gets a sample of them, and a pod that fits on no "
                "node of the sample stays pending"
            )
            yield warning(place, message, f"write `{name}: 100`")


def shared_lease(context: ConfigurationContext) -> Iterator[Found]:
    """A second scheduler that waits for the first one's Lease."""
    names = [profile.scheduler_name for profile in context.configuration.fields.profiles]
    if all(
        name not in ("", "default-scheduler") for name in names or [""]
    ) and context.configuration.lease == ("kube-system", "kube-scheduler"):
        message = f"`{names[0]}` waits for the Lease of the cluster's first kube-scheduler"
        hint = f"write `resourceName: {own_lease(names[0], context.lease)}` there"
        yield warning("leaderElection.resourceName", message, hint)


def placets_lease(context: ConfigurationContext) -> Iterator[Found]:
    """kube-scheduler's Lease is that of Placet's replicas."""
    held = context.configuration.lease
    if held is not None and held == context.lease:
        message = (
            f"kube-scheduler holds the Lease `{'/'.join(held)}`, which is that of Placet: "
            "Placet never decides by counts"
        )
        hint = f"write `resourceName: {held[1]}-scheduler`, or serve with another `--lease`"
        yield error("leaderElection.resourceName", message, hint)


# ---- bind: which entry has the verb, and how long it may take

_GANGS = "GangScheduling"
# The features with which a PodGroup preempts as a whole, and the first version where each does.
_GROUP_PREEMPTION = {"WorkloadAwarePreemption": "1.36", "GenericWorkload": "1.37"}


def no_binder(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """Clauses that are checked again before the binding, which kube-scheduler makes itself."""
    needs = context.requirements
    if needs is None or context.entry_of("bind") is not None:
        return
    serve = "" if context.binds else ", and serve with `--bind`"
    hint = f"write `bindVerb: bind`{serve}"
    fields = f"`bindVerb: bind` and `httpTimeout: {needs.bind_timeout(context.http_timeout):g}s`"
    apart = f"add an entry with the same `urlPrefix`, {fields}{serve}"
    newest = "against the newest state before the binding"
    at_bind = [name for name in needs.at_bind if name not in needs.waiting]
    strict = [name for name in needs.strict if name not in needs.waiting]
    for finding, names, before, after, how in (
        (error, needs.cards, "no pod gets the cards of ", "", hint),
        (error, needs.waiting, "no pod waits for ", "", apart),
        (warning, at_bind, "", " are not checked at binding", hint),
        (warning, strict, "the bounds of ", f" are not checked {newest}", hint),
    ):
        if names:
            message = f"without a `bindVerb` {before}{some(names)}{after}"
            yield finding(ours.at("bindVerb"), message, how)


def bind(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """A `bindVerb` for a Placet that does not bind, and the reverse."""
    binder = context.entry_of("bind")
    if binder is not None and not context.binds:
        message = "`placet serve` has no verb bind without `--bind`: no pod can be bound"
        hint = "serve with `--bind` and give it to this command too, or remove `bindVerb`"
        yield error(binder.at("bindVerb"), message, hint)
    elif context.binds and binder is None:
        message = "`placet serve --bind` may bind pods, and kube-scheduler never asks it to"
        hint = "write `bindVerb: bind`, or serve without `--bind`"
        yield warning(ours.at("bindVerb"), message, hint)


def waiting_bind(_ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """A timeout of bind that ends before policies let the binding go."""
    needs, binder = context.requirements, context.entry_of("bind")
    if needs is None or not needs.waiting or binder is None:
        return
    has, needed = binder.patience, needs.bind_timeout(context.http_timeout)
    if has >= needed:
        return
    waits = f"for {some(needs.waiting)} a binding may take {needed:g} s"
    if binder.only_binds:
        message = f"kube-scheduler gives a binding up after {has:g} s, and {waits}"
        hint = f"write `httpTimeout: {needed:g}s`"
    else:
        message = f"bind has the `httpTimeout` of the other verbs, {has:g} s, and {waits}"
        hint = (
            f"move `bindVerb` to an entry of its own with the same `urlPrefix` and "
            f"`httpTimeout: {needed:g}s`"
        )
    yield error(binder.at("httpTimeout"), message, hint)


def two_gangs(context: ConfigurationContext) -> Iterator[Found]:
    """Gangs of kube-scheduler beside those of policies."""
    needs = context.requirements
    if needs is None or not (gangs := needs.words.get("gang")):
        return
    message = (
        f"`{_GANGS}` of kube-scheduler and {some(gangs)} must not gather the same pods: "
        "Placet does not see the nodes that kube-scheduler has chosen for the others"
    )
    profiles = mappings(context.configuration.document.value, "profiles")
    all_off = bool(profiles)
    for index, plugins in enumerate(mapping(profile, "plugins") for profile in profiles):
        for point in plugins:
            for place, each in enumerate(mappings(mapping(plugins, point), "enabled")):
                if each.get("name") == _GANGS:
                    at = f"profiles[{index}].plugins.{point}.enabled[{place}].name"
                    yield error(at, message, "remove the plugin, or the `gang` clauses")
        off = mappings(mapping(plugins, "multiPoint"), "disabled")
        all_off = all_off and any(each.get("name") in (_GANGS, "*") for each in off)
    if _is_on(_GANGS, context) and not all_off:
        hint = f"remove `{_GANGS}=true` from `--feature-gates`, or the `gang` clauses"
        yield error("", message, hint)


def _is_on(gate: str, context: ConfigurationContext) -> bool:
    """Whether a flag switches an alpha feature of kube-scheduler on."""
    gates = context.configuration.flags.get("feature-gates", "").split(",")
    given = dict(each.strip().partition("=")[::2] for each in gates)
    return given.get(gate, given.get("AllAlpha", "false")).strip().lower() in ("true", "t", "1")


def group_preemption(context: ConfigurationContext) -> Iterator[Found]:
    """Clauses about evictions for PodGroups, about which kube-scheduler asks no extender."""
    needs = context.requirements
    gates = [gate for gate in _GROUP_PREEMPTION if _is_on(gate, context)]
    if gates and needs is not None and (clauses := needs.words.get("preempt")):
        message = (
            f"with `{gates[0]}` kube-scheduler {_GROUP_PREEMPTION[gates[0]]} evicts pods for "
            f"PodGroups without asking an extender, whatever {some(clauses)} say"
        )
        hint = "give pods that must stay a priority that no PodGroup exceeds"
        yield warning("", message, hint)


def broken_policies(context: ConfigurationContext) -> Iterator[Found]:
    """Policies of the cluster that are not in force as they are written."""
    for each in () if context.requirements is None else context.requirements.broken:
        message = f"policy `{each.policy}` has errors, so {each.instead}: {each.because}"
        yield warning("", message, "correct the policy")


# ---- the codes of the checks

OfAll = Callable[[ConfigurationContext], Iterator[Found]]
OfEntry = Callable[[ExtenderEntry, ConfigurationContext], Iterator[Found]]
Check = TypeVar("Check", OfAll, OfEntry)


def _by_code(*checks: Check) -> Mapping[str, Check]:
    return {each.__name__.replace("_", "-"): each for each in checks}


OF_ALL = _by_code(
    *(version, text, flag, no_extender, two_binders),
    *(weight, resource_name, connection_checks.tls_conflict, connection_checks.no_certificate),
    *(later_filter, asked_twice, sampled_nodes, shared_lease, placets_lease),
    *(two_gangs, group_preemption, broken_policies),
)
OF_OURS = _by_code(
    *(connection_checks.url, connection_checks.service_name, missing_verb, gate),
    *(bind, no_binder, waiting_bind),
)
OF_ENTRIES = _by_code(
    *(connection_checks.no_ca, connection_checks.no_encryption, connection_checks.timeout),
    *(verb, whole_nodes, ignorable, managed_resources),
)


# ---- configurations that are written: generated, or converted from older ones

# What a converted field becomes for a finding; what becomes None is left out.
_CORRECTED: Mapping[str, object] = {
    "sampled-nodes": 100,
    "whole-nodes": True,
    "weight": 10,
    "resource-name": None,
    "bind": None,
}


def refuse_unsound(text: str, http_timeout: float, url: str) -> None:
    """Raises CommandError for a configuration with an error, generated for Placet at the URL."""
    for diagnostic, _ in _written(text, http_timeout, url, binds=True):
        if diagnostic.severity == "error":
            raise CommandError(diagnostic.message, diagnostic.hint or "")


def _written(text: str, http_timeout: float, url: str, *, binds: bool) -> list[FieldFinding]:
    """The findings in a text that is written for a Placet, which has the flags that it needs."""
    (configuration,) = configurations([("the configuration", text)])
    context = ConfigurationContext(
        configuration, *placets(configuration.extenders, url), http_timeout
    )
    return examine(replace(context, binds=binds and context.entry_of("bind") is not None))


def converted(
    configuration: SchedulerConfiguration, new: Sequence[Json], http_timeout: float, url: str
) -> tuple[str, list[str]]:
    """A KubeSchedulerConfiguration v1, made of any configuration, and the differences and errors.

    The extenders are taken whole, and fields that v1 has. `new` are the extenders of a Placet at
    the URL: they are added if there are none, and say whether it may bind pods.
    """
    known, notes = _known(configuration)
    if not known.get("extenders"):
        notes.append("it has no extenders: Placet is added")
        known["extenders"] = [*new]
    made = {"apiVersion": VERSION, "kind": KIND, **known}
    binds = any("bindVerb" in each for each in new)
    # A deletion in a list moves what is behind it.
    for diagnostic, place in reversed(_written(_dumped(made), http_timeout, url, binds=binds)):
        if diagnostic.code in _CORRECTED:
            value = _CORRECTED[diagnostic.code]
            became = "left out" if value is None else json.dumps(value)
            path = place.path.removesuffix(".name")
            _correct(made, path, value)
            notes.append(f"{diagnostic.message}, so `{path}` is {became} now")
        elif diagnostic.severity == "error":
            notes.append(f"{diagnostic.message}: {diagnostic.hint}")
    # Nobody calls an extender without a verb.
    kept = [each for each in made["extenders"] if any(name.endswith("Verb") for name in each)]
    return _dumped(made | {"extenders": kept}), notes


def _dumped(document: Json) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=100)


def _correct(document: Json, path: str, value: object) -> None:
    """Writes a value at a path, or deletes what is there for None."""
    *parents, last = (int(n) if n.isdigit() else n for n in re.findall(r"\w+", path))
    inside: Any = document
    for name in parents:
        inside = inside[name]
    if value is None:
        del inside[last]
    else:
        inside[last] = value


def _known(configuration: SchedulerConfiguration) -> tuple[Json, list[str]]:
    """The fields of version v1 without `apiVersion` and `kind`, and what is different in them."""
    value, reader = configuration.document.value, SchemaReader(folded=True)
    known: Json = reader.read(value, KubeSchedulerConfiguration)
    notes = [f"`{each.path}` is not converted: {each.message}" for each in reader.misread]
    known = {name: known[name] for name in known if name not in ("apiVersion", "kind")}
    version = value.get("apiVersion")
    if configuration.legacy:
        notes.append(
            "kube-scheduler 1.23 and later do not read a Policy: its extenders stay, and default "
            "plugins do what its usual predicates and priorities did"
        )
    elif version != VERSION:
        was = f"`{version}`" if version else "no `apiVersion`"
        notes.append(f"`apiVersion` is `{VERSION}`: it was {was}")
        if isinstance(own := value.get("schedulerName"), str) and "profiles" not in known:
            notes.append("`schedulerName` is that of a profile now")
            known["profiles"] = [{"schedulerName": own}]
        for place, profile in enumerate(known.get("profiles", ())):
            for name in ("plugins", "pluginConfig"):
                if profile.pop(name, None):
                    path = f"profiles[{place}].{name}"
                    notes.append(f"`{path}` is not converted: the plugins of 1.36 are others")
    lock = known.get("leaderElection", {}).pop("resourceLock", "leases")
    if lock != "leases":
        notes.append(f"`resourceLock` is `leases`: `{lock}` no longer exists")
    return known, notes

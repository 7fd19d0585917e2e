"""Checks of a configuration as a whole: its version, its fields, and how extenders get along."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

from cli.scheduling import shapes
from cli.scheduling.case import Case
from cli.scheduling.entry import Entry
from cli.scheduling.finding import Finding

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


def _how_to_be_last(other: Entry, ours: Entry) -> str:
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


def _name(extender: Entry) -> str:
    return extender.url or extender.place

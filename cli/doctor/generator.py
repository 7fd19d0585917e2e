"""Generator of kube-scheduler configurations: fields with their reasons, as YAML or JSON."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from cli.doctor.kube_versions import KNOWN_MINOR, api_versions
from grammar.values.time import SECOND, Duration

# In the order of a scheduling cycle. Each is also the path of the verb at Placet.
VERBS = ("filter", "prioritize", "preempt", "bind")
# Those of them that `placet serve` has without `--bind`.
DEFAULT_VERBS = ("filter", "prioritize", "preempt")
# The namespace and name of the Lease of Placet's replicas: the default of `placet serve --lease`.
OUR_LEASE = ("kube-system", "placet")
# The URL of a Placet beside kube-scheduler.
OUR_URL = "http://127.0.0.1:12345/api/scheduler"
Scalar = str | int | bool | bytes | Duration


@dataclass(frozen=True, slots=True)
class GeneratedField:
    """One field. Its value can be a mapping of fields, or a list of mappings of fields.

    `why` is the comment above it, which gives the reason for its value. The first field of a
    mapping in a list has no comment.
    """

    name: str
    value: Scalar | Fields | list[Fields]
    why: str = ""


Fields = tuple[GeneratedField, ...]


@dataclass(frozen=True, slots=True)
class Tls:
    """The `tlsConfig`: Placet's CA and kube-scheduler's certificate; each part may be None.

    Bytes are the content of a file, a text is its path on kube-scheduler's machine.
    """

    ca: bytes | str | None = None
    certificate: bytes | str | None = None
    key: bytes | str | None = None
    server_name: str = ""
    insecure: bool = False

    def fields(self) -> Iterator[GeneratedField]:
        if self.insecure:
            yield GeneratedField("insecure", True, "trusts any server: for trials only")
        if self.server_name:
            yield GeneratedField("serverName", self.server_name, "the name in Placet's certificate")
        for name, given in (("ca", self.ca), ("cert", self.certificate), ("key", self.key)):
            why = "without a CA kube-scheduler trusts any server" if name == "ca" else ""
            if given is not None:
                yield GeneratedField(
                    f"{name}{'Data' if isinstance(given, bytes) else 'File'}", given, why
                )


@dataclass(frozen=True, slots=True)
class Extender:
    """What kube-scheduler is told of Placet. With a `bind_timeout`, bind has an entry of its own.

    That entry asks about every pod, because only one entry may name a managed resource.
    """

    url: str
    verbs: tuple[str, ...] = DEFAULT_VERBS
    weight: int = 10
    http_timeout: Duration = Duration(5 * SECOND)  # noqa: RUF009 - it is immutable
    node_cache_capable: bool = True
    ignorable: bool = False
    tls: Tls | None = None
    managed_resources: tuple[str, ...] = ()
    # More resources, which kube-scheduler itself ignores.
    ignored_resources: tuple[str, ...] = ()
    bind_timeout: Duration | None = None

    def binding(self, bind_timeout: Duration) -> Extender:
        """The same, with an entry for bind alone."""
        verbs = tuple(verb for verb in VERBS if verb in (*self.verbs, "bind"))
        return replace(self, verbs=verbs, bind_timeout=bind_timeout)

    @property
    def entries(self) -> list[Fields]:
        """Its entries of `extenders`."""
        if self.bind_timeout is None or "bind" not in self.verbs:
            return [tuple(self._fields(self.verbs))]
        verbs = tuple(verb for verb in self.verbs if verb != "bind")
        others = [tuple(self._fields(verbs))] if verbs else []
        return [*others, tuple(self._bind_fields(self.bind_timeout))]

    def _bind_fields(self, timeout: Duration) -> Iterator[GeneratedField]:
        resources = bool(self.managed_resources or self.ignored_resources)
        yield GeneratedField("urlPrefix", self.url)
        yield GeneratedField("bindVerb", "bind", _WHY_EVERY if resources else _WHY_VERB["bind"])
        yield from self._connection()
        yield GeneratedField("httpTimeout", timeout, _WHY_LONG)
        yield GeneratedField("ignorable", False, _WHY_HELD)

    def _connection(self) -> Iterator[GeneratedField]:
        if self.url.lower().startswith("https:"):
            yield GeneratedField("enableHTTPS", True)
        if self.tls is not None and (tls := tuple(self.tls.fields())):
            yield GeneratedField("tlsConfig", tls)

    def _fields(self, verbs: tuple[str, ...]) -> Iterator[GeneratedField]:
        yield GeneratedField("urlPrefix", self.url)
        yield from (GeneratedField(f"{verb}Verb", verb, _WHY_VERB[verb]) for verb in verbs)
        if "prioritize" in verbs:
            yield GeneratedField("weight", self.weight, _WHY_WEIGHT if self.weight == 10 else "")
        yield from self._connection()
        why = "the same as `placet serve --http-timeout`, which answers in four fifths of it"
        yield GeneratedField("httpTimeout", self.http_timeout, why)
        why = _WHY_NAMES if self.node_cache_capable else _WHY_OBJECTS
        yield GeneratedField("nodeCacheCapable", self.node_cache_capable, why)
        if resources := list(self._resources()):
            why = "pods that request none of these are scheduled without policies"
            yield GeneratedField("managedResources", resources, why)
        why = _WHY_IGNORED if self.ignorable else _WHY_NEEDED
        yield GeneratedField("ignorable", self.ignorable, why)

    def _resources(self) -> Iterator[Fields]:
        yield from ((GeneratedField("name", name),) for name in self.managed_resources)
        for name in self.ignored_resources:
            why = "kube-scheduler no longer checks whether a node has enough of it"
            yield GeneratedField("name", name), GeneratedField("ignoredByScheduler", True, why)


def configuration(
    extender: Extender,
    name: str = "",
    kubeconfig: str = "",
    api_version: str = api_versions(KNOWN_MINOR)[0],
) -> Iterator[GeneratedField]:
    """A whole KubeSchedulerConfiguration. Empty texts mean kube-scheduler's defaults."""
    yield GeneratedField("apiVersion", api_version)
    yield GeneratedField("kind", "KubeSchedulerConfiguration")
    if kubeconfig:
        why = "kube-scheduler ignores its flag --kubeconfig when it has --config"
        yield GeneratedField("clientConnection", (GeneratedField("kubeconfig", kubeconfig, why),))
    if name:
        why = "a Lease of its own: with that of kube-scheduler it would wait forever"
        lease = (
            GeneratedField("leaderElect", True),
            GeneratedField("resourceName", own_lease(name), why),
        )
        yield GeneratedField("leaderElection", lease)
        yield GeneratedField("profiles", [(GeneratedField("schedulerName", name),)])
    yield from section(extender)


def own_lease(name: str, placets: tuple[str, str] | None = OUR_LEASE) -> str:
    """The name of the Lease of a second kube-scheduler whose pods have this `schedulerName`.

    `placets` is the namespace and name of the Lease of Placet's replicas.
    """
    # Whichever of the two holds a common Lease, the other one waits for ever.
    is_placets = name == OUR_LEASE[1] or (placets is not None and name == placets[1])
    return f"{name}-scheduler" if is_placets else name


def section(extender: Extender) -> Fields:
    """The fields that an existing KubeSchedulerConfiguration needs for Placet."""
    return (
        GeneratedField("percentageOfNodesToScore", 100, _WHY_ALL),
        GeneratedField("extenders", extender.entries),
    )


def policy(extender: Extender) -> Fields:
    """The Policy that kube-scheduler read up to 1.22, in which one field has another name."""
    renamed = [
        tuple(
            GeneratedField("enableHttps", f.value) if f.name == "enableHTTPS" else f for f in entry
        )
        for entry in extender.entries
    ]
    return (
        GeneratedField("kind", "Policy"),
        GeneratedField("apiVersion", "v1"),
        GeneratedField("extenders", renamed),
    )


def base64_text(data: bytes) -> str:
    """Bytes in base64, as in JSON and YAML of Kubernetes."""
    return base64.b64encode(data).decode("ascii")


_WHY_VERB = {
    "filter": "",
    "prioritize": "",
    "preempt": "otherwise pods are evicted from nodes that are rejected afterwards",
    "bind": "at most one extender may have it; needs `placet serve --bind`",
}
_WHY_EVERY = "of every pod: one entry alone may name a resource; needs `placet serve --bind`"
_WHY_LONG = "longer than any policy has a binding wait; kube-scheduler goes on meanwhile"
_WHY_HELD = "true would bind pods whose wait ends in vain"
_WHY_WEIGHT = "each of our 0 to 10 points counts 10 times this: 100, as a built-in plugin at most"
_WHY_ALL = "with less, Placet gets only a sample of the nodes if there are 100 or more"
_WHY_NAMES = "with whole nodes, kube-scheduler 1.36 treats every node as idle when it scores"
_WHY_OBJECTS = "whole nodes in requests: kube-scheduler 1.36 then treats every node as idle"
_WHY_NEEDED = "true would schedule pods without policies when Placet does not answer"
_WHY_IGNORED = "when Placet does not answer, pods are scheduled without policies"


# ---- text: YAML with comments, and JSON for schedulers that read nothing else

# Texts that need no quotes in any version of YAML.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*(:[A-Za-z0-9_./-]+)*")
_WORDS_OF_YAML = frozenset("y n yes no on off true false null".split())


def yaml_text(fields: Iterable[GeneratedField]) -> str:
    """YAML in block style; the reason for a field is a comment above it."""
    return "".join(f"{line}\n" for line in _lines(fields, ""))


def json_text(fields: Iterable[GeneratedField]) -> str:
    """Indented JSON; durations are nanoseconds, as in a Policy."""
    return json.dumps(_plain(tuple(fields)), indent=2) + "\n"


def _lines(fields: Iterable[GeneratedField], indent: str) -> Iterator[str]:
    for field in fields:
        if field.why:
            yield f"{indent}# {field.why}"
        match field.value:
            case tuple() as inside:
                yield f"{indent}{field.name}:"
                yield from _lines(inside, f"{indent}  ")
            case list() as items:
                yield f"{indent}{field.name}:"
                for item in items:
                    yield from _item(item, f"{indent}  ")
            case scalar:
                yield f"{indent}{field.name}: {_scalar(scalar)}"


def _item(fields: Fields, indent: str) -> Iterator[str]:
    first, *others = _lines(fields, f"{indent}  ")
    yield f"{indent}- {first.strip()}"
    yield from others


def _scalar(value: Scalar) -> str:
    match value:
        case bool() | int():
            return json.dumps(value)
        case Duration():
            return str(value)
        case bytes():
            return base64_text(value)
        case str():
            plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS_OF_YAML
            return value if plain else json.dumps(value)
    assert_never(value)


def _plain(value: Scalar | Fields | list[Fields]) -> object:
    match value:
        case Duration(nanos=nanos):
            return nanos
        case bytes():
            return base64_text(value)
        case tuple():
            return {field.name: _plain(field.value) for field in value}
        case list():
            return [_plain(item) for item in value]
        case scalar:
            return scalar

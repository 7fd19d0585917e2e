"""Configurations of kube-scheduler in YAML and JSON, with the line that each field is on.

A Policy, or a configuration of an older version, is converted to v1. The extenders are taken whole,
and fields that v1 has. A note names everything else: it is not converted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import yaml

from cli.command import CommandError, read_input
from cli.command import read_text as read_file_text
from cli.doctor.generator import KIND, VERSION, Json
from cli.doctor.schema import (
    ExtenderEntry,
    ExtenderFields,
    KubeSchedulerConfiguration,
    Misread,
    SchemaReader,
    is_extended,
    placets,
)
from engine.objects.api_types import mapping, mappings
from policies.documents import Document, DocumentError, join
from policies.documents import read as read_documents

_STDIN = "-"
_KIND = re.compile(
    rf"""["']?kind["']?\s*:\s*["']?({KIND}|Policy)\b|(^|[{{,\n])\s*["']?extenders["']?\s*:"""
)
# Fields that only a Policy has, in lower case; and those by which a configuration is known.
_OF_POLICY = frozenset({"predicates", "priorities"})
_FIELDS = _OF_POLICY | {"extenders", "plugins", "pluginConfig", "profiles"}


def read_text(name: str) -> tuple[str, str]:
    """The name and the text of a file, or of standard input. Raises CommandError."""
    if name == _STDIN:
        return "standard input", read_input()
    return name, read_file_text(name, "check the path")


def existing(path: str) -> str | None:
    """The text of a file of this machine; None if there is none. Raises CommandError."""
    return read_text(path)[1] if Path(path).is_file() else None


def read(text: str, name: str) -> list[Document]:
    """The documents of a text; what follows a configuration may be no document.

    Raises CommandError for what is neither YAML nor JSON.
    """
    found: list[Document] = []
    try:
        found.extend(read_documents(text.replace("\t", " ") if is_json(text) else text))
    except DocumentError as error:
        if not any(isinstance(e.value, dict) and _is_configuration(e.value) for e in found):
            raise CommandError(f"`{name}` {error}", "correct the file") from None
    return found


@dataclass(frozen=True, slots=True)
class Manifest:
    """Manifest of a kube-scheduler's pod; `flags` are those of its command line, without dashes."""

    host_network: bool
    dns_policy: str
    flags: Mapping[str, str]

    @property
    def resolves_services(self) -> bool:
        """Whether the pod resolves service names; on the host's network only with a `dnsPolicy`."""
        if self.dns_policy == "ClusterFirst":
            return not self.host_network
        return self.dns_policy == "ClusterFirstWithHostNet"


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    """Scheduler configuration: a KubeSchedulerConfiguration or a Policy, correct or not.

    `source` names its file, and `text` is that file or the text of a ConfigMap's key. `before` is
    the number of lines before that text in the file, None if unknown. `fields` are those that are
    correct, in the form of version v1, and `misread` are the others.
    """

    source: str
    text: str
    document: Document
    before: int | None
    legacy: bool
    fields: KubeSchedulerConfiguration
    misread: Sequence[Misread]
    manifest: Manifest | None = None

    @classmethod
    def of(
        cls, source: str, text: str, document: Document, before: int | None = 0
    ) -> SchedulerConfiguration:
        legacy = is_policy(document.value)
        reader = SchemaReader(folded=legacy, is_json=is_json(text))
        found = reader.document(document.value, is_policy=legacy)
        fields = msgspec.convert(found, KubeSchedulerConfiguration)
        return cls(source, text, document, before, legacy, fields, reader.misread)

    @property
    def value(self) -> dict[str, Any]:
        assert isinstance(self.document.value, dict), "a configuration is a mapping"
        return self.document.value

    @property
    def is_first(self) -> bool:
        """Whether this document is the first of the text."""
        head = self.text.splitlines()[: self.document.line("") - 1]
        lines = [line.partition("#")[0].strip() for line in head if not line.startswith("%")]
        return "".join(lines) in ("", "---")

    @property
    def flags(self) -> Mapping[str, str]:
        """The flags of its manifest."""
        return {} if self.manifest is None else self.manifest.flags

    @property
    def lease(self) -> tuple[str, str] | None:
        """The namespace and name of its Lease, None without one; flags replace its fields."""
        given, flag = self.fields.leader_election, "leader-elect-resource-"
        if self.flags.get("leader-elect", str(given.leader_elect)).lower() in ("false", "0", "f"):
            return None
        namespace = self.flags.get(f"{flag}namespace", given.resource_namespace) or "kube-system"
        return namespace, self.flags.get(f"{flag}name", given.resource_name) or "kube-scheduler"

    @property
    def extenders(self) -> tuple[ExtenderEntry, ...]:
        return ExtenderEntry.all_of(self.fields.extenders)

    def line(self, path: str) -> int:
        """The line of a path in the source; 0 is unknown."""
        return 0 if self.before is None else self.before + self.document.line(path)


def is_json(text: str) -> bool:
    """Whether kube-scheduler reads a text as JSON: anything that begins with a brace."""
    return text.lstrip().startswith("{")


def is_policy(value: Mapping[str, Any]) -> bool:
    """Whether a configuration is a Policy, with a `kind` or as older documents print it."""
    if value.get("kind") is not None:
        return bool(value["kind"] == "Policy")
    return not _OF_POLICY.isdisjoint(map(str.lower, value))


def configurations(
    texts: Sequence[tuple[str, str]], open_file: Callable[[str], str | None]
) -> list[SchedulerConfiguration]:
    """The configurations in some texts, which are given with their names.

    If the texts have none but the manifest of a kube-scheduler, `open_file` reads the file of its
    `--config`. Raises CommandError if there is no configuration.
    """
    documents = [(name, text, each) for name, text in texts for each in read(text, name)]
    found = [c for name, text, document in documents for c in _inside(document, name, text)]
    manifests = [m for *_, document in documents if (m := _manifest(document.value)) is not None]
    names = ", ".join(f"`{name}`" for name, _ in texts)
    if not found and manifests:
        found = _started_with(manifests[0], names, open_file)
    if not found:
        raise CommandError(
            f"there is no KubeSchedulerConfiguration in {names}",
            "`placet scheduler-config` writes one",
        )
    # With several manifests it is unknown which one uses the configuration.
    manifest = manifests[0] if len(manifests) == 1 else None
    return [replace(c, manifest=manifest) for c in found]


def _inside(document: Document, name: str, text: str) -> Iterator[SchedulerConfiguration]:
    """The configurations in a document: itself, or those in a ConfigMap or in a list of them."""
    value = document.value
    if not isinstance(value, dict):
        return
    kind, items = value.get("kind"), value.get("items")
    if _is_configuration(value):
        yield SchedulerConfiguration.of(name, text, document)
    elif kind == "ConfigMap":
        yield from _in_config_map(document, name)
    elif kind in ("List", "ConfigMapList", None) and isinstance(items, list):
        for place, item in enumerate(items):
            # In the answer of an API server items have no kind.
            if isinstance(item, dict) and item.get("kind", "ConfigMap") == "ConfigMap":
                inside = replace(document, value=item, root=f"items[{place}]")
                yield from _in_config_map(inside, name)


def _is_configuration(value: Mapping[str, Any]) -> bool:
    """Whether a document is a configuration: by its kind, or by fields if the kind is not known.

    Other APIs have a Policy too.
    """
    kind, version = value.get("kind"), value.get("apiVersion")
    if kind == KIND or (kind == "Policy" and version in (None, "v1")):
        return True
    has_fields = not (_FIELDS if kind is None else {"extenders"}).isdisjoint(value)
    return has_fields and "metadata" not in value


def _in_config_map(outer: Document, name: str) -> Iterator[SchedulerConfiguration]:
    metadata = mapping(outer.value, "metadata")
    for key, text in mapping(outer.value, "data").items():
        if not isinstance(text, str) or not _KIND.search(text):
            continue
        label = "/".join(str(p) for p in (*map(metadata.get, ("namespace", "name")), key) if p)
        for document in read(text, f"{name} {label}"):
            if isinstance(document.value, dict) and _is_configuration(document.value):
                block = outer.scalar(join("data", key))
                before = block.start_mark.line + 1 if block and block.style == "|" else None
                source = name if before is not None else f"{name} {label}"
                yield SchedulerConfiguration.of(source, text, document, before)


def _started_with(
    manifest: Manifest, names: str, open_file: Callable[[str], str | None]
) -> list[SchedulerConfiguration]:
    """The configurations in the file that a manifest names. Raises CommandError."""
    path = manifest.flags.get("config")
    if path is None:
        raise CommandError(
            f"kube-scheduler is started without `--config` in {names}, so it has no extenders",
            "write one with `placet scheduler-config`, of a Policy with its `--from FILE`; mount "
            "it, and pass it with `--config`",
        )
    if (text := open_file(path)) is not None:
        return [c for document in read(text, path) for c in _inside(document, path, text)]
    raise CommandError(
        f"kube-scheduler is started with `{path}`, which is not on this machine",
        "give that file as an argument too",
    )


def _manifest(value: Any) -> Manifest | None:
    """The manifest of a pod or workload that runs kube-scheduler; None for other values."""
    if not isinstance(value, dict):
        return None
    spec = mapping(value, "spec")
    spec = mapping(mapping(spec, "template"), "spec") or spec
    for container in mappings(spec, "containers"):
        words = [str(w) for key in ("command", "args") for w in container.get(key) or ()]
        program = PurePosixPath(words[0]).name if words else ""
        if program == "kube-scheduler" or "kube-scheduler" in str(container.get("image", "")):
            dns = str(spec.get("dnsPolicy") or "ClusterFirst")
            return Manifest(spec.get("hostNetwork") is True, dns, _flags(words))
    return None


def _flags(words: Sequence[str]) -> dict[str, str]:
    """The flags of a command line, without dashes; the value of one that is alone is `true`."""
    found: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], "-"], strict=False):
        if word.startswith("-") and word.strip("-"):
            name, equals, value = word.lstrip("-").partition("=")
            found[name] = value if equals else "true" if following.startswith("-") else following
    return found


_OTHERS = "the plugins of 1.36 are others"
_WHY_UNBOUND = (
    "because `placet serve` binds no pod without `--bind`: to keep it, give the verb to `--verbs`"
)


@dataclass(frozen=True, slots=True)
class Conversion:
    """Conversion: a KubeSchedulerConfiguration v1, and a sentence for each difference."""

    document: Json
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        return yaml.safe_dump(self.document, sort_keys=False, width=100)


def convert(
    configuration: SchedulerConfiguration,
    new: Sequence[Json],
    *,
    url: str | None = None,
    binds: bool = False,
) -> Conversion:
    """The conversion of any configuration. `new` are its extenders if it has none at all.

    Only an extender with the `url` or with a URL of Placet is changed to what Placet needs. `binds`
    says whether Placet may bind pods.
    """
    notes = list[str]()
    known = _known(configuration, notes)
    entries = _extenders(known.get("extenders", []), url, notes, binds=binds)
    known["extenders"] = [each for each, _ in entries]
    is_placet = any(is_ours for _, is_ours in entries)
    if not entries:
        notes.append("it has no extenders: Placet is added")
        known["extenders"] = [*new]
    elif not is_placet:
        notes.append("no extender has a URL of Placet, so that of each stays as it is")
    name = "percentageOfNodesToScore"
    parts = [each.get(name, known.get(name)) for each in mappings(known, "profiles") or [{}]]
    if (is_placet or not entries) and any(part != 100 for part in parts):
        notes.append("`percentageOfNodesToScore` is 100, so that Placet gets every node")
        known[name] = 100
        for profile in known.get("profiles", ()):
            profile.pop(name, None)
    if not any(known.get("profiles", ())):
        known.pop("profiles", None)
    return Conversion({"apiVersion": VERSION, "kind": KIND, **known}, tuple(dict.fromkeys(notes)))


def _known(configuration: SchedulerConfiguration, notes: list[str]) -> Json:
    """The fields of version v1 without `apiVersion` and `kind`."""
    value, legacy = configuration.value, configuration.legacy
    reader = SchemaReader(folded=True)
    known: Json = reader.document(value, is_policy=legacy)
    for each in reader.misread:
        why = f"it {each.message.removeprefix(f'`{each.path}` ')}"
        why = "there is no such field" if each.is_unknown else why
        notes.append(f"`{each.path}` is not converted: {why}")
    for name in ("apiVersion", "kind"):
        known.pop(name, None)
    version = value.get("apiVersion")
    if legacy:
        notes.append("kube-scheduler 1.23 and later do not read a Policy: its extenders stay")
        notes += (f"`{name}` is not converted: {_OTHERS}" for name in known if name != "extenders")
        return {"extenders": known.get("extenders", [])}
    if version != VERSION:
        was = f"`{version}`" if version else "no `apiVersion`"
        notes.append(f"`apiVersion` is `{VERSION}`: it was {was}")
        if isinstance(own := value.get("schedulerName"), str) and "profiles" not in known:
            notes.append("`schedulerName` is that of a profile now")
            known["profiles"] = [{"schedulerName": own}]
        for place, profile in enumerate(known.get("profiles", ())):
            for name in ("plugins", "pluginConfig"):
                if profile.pop(name, None):
                    notes.append(f"`profiles[{place}].{name}` is not converted: {_OTHERS}")
    if (lock := mapping(known, "leaderElection").get("resourceLock")) not in (None, "leases"):
        notes.append(f"`resourceLock` is `leases`: `{lock}` no longer exists")
        known["leaderElection"]["resourceLock"] = "leases"
    return known


# ---- extenders


def _extenders(
    given: Sequence[Json], url: str | None, notes: list[str], *, binds: bool
) -> list[tuple[Json, bool]]:
    """The extenders, and whether each is Placet."""
    entries = ExtenderEntry.all_of(msgspec.convert(given, list[ExtenderFields]))
    ours, _ = placets(entries, url)
    made = [dict(each) for each in given]
    for fields, entry in zip(made, entries, strict=True):
        _correct(fields, entry, notes, is_ours=entry in ours)
    for entry in () if binds else ours:
        if made[entries.index(entry)].pop("bindVerb", None):
            name = f"the `bindVerb` of `{entry.url_prefix}` is left out"
            notes.append(f"{name}, {_WHY_UNBOUND}")
    return [
        (fields, entry in ours)
        for fields, entry in zip(made, entries, strict=True)
        if binds or not (entry in ours and entry.only_binds)
    ]


def _correct(made: Json, entry: ExtenderEntry, notes: list[str], *, is_ours: bool) -> None:
    """Gives an extender what kube-scheduler 1.36 and Placet need."""
    name = f"`{entry.url_prefix}`"
    if entry.prioritize_verb and entry.weight <= 0:
        made["weight"] = 10 if is_ours else 1
        notes.append(f"the `weight` of {name} is {made['weight']}: 0 is refused")
    resources = mappings(made, "managedResources")
    sound = [each for each in resources if is_extended(each.get("name", ""))]
    notes += (
        f"the managed resource `{each.get('name')}` of {name} is left out: it is not an extended "
        "resource, as `example.com/foo` is"
        for each in resources
        if each not in sound
    )
    if sound:
        made["managedResources"] = sound
    elif resources:
        del made["managedResources"]
        notes.append(f"{name} is called for every pod, because it manages no resource any more")
    if is_ours and not entry.only_binds and not entry.node_cache_capable:
        made["nodeCacheCapable"] = True
        notes.append(f"`nodeCacheCapable` of {name} is true: Placet has its own view of the nodes")

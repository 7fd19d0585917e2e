"""Configurations of kube-scheduler in YAML and JSON, with the line that each field is on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from cli.command import STANDARD_INPUT, CommandError, read_input
from cli.command import read_text as read_file_text
from cli.doctor.generator import KIND
from cli.doctor.schema import (
    ExtenderEntry,
    KubeSchedulerConfiguration,
    Misread,
    SchemaReader,
)
from engine.objects.api_types import mapping, mappings
from policies.documents import Document, DocumentError, join
from policies.documents import read as read_documents

_KIND = re.compile(
    rf"""["']?kind["']?\s*:\s*["']?({KIND}|Policy)\b|(^|[{{,\n])\s*["']?extenders["']?\s*:"""
)
# Fields that only a Policy has, in lower case; and those by which a configuration is known.
_OF_POLICY = frozenset({"predicates", "priorities"})
_FIELDS = _OF_POLICY | {"extenders", "plugins", "pluginConfig", "profiles"}


def read_text(name: str) -> tuple[str, str]:
    """The name and the text of a file, or of standard input. Raises CommandError."""
    if Path(name) == STANDARD_INPUT:
        return "standard input", read_input()
    return name, read_file_text(name, "check the path")


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
        of_cluster = "ClusterFirstWithHostNet" if self.host_network else "ClusterFirst"
        return self.dns_policy in (of_cluster, "ClusterFirstWithHostNet")


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
        value, kind = document.value, document.value.get("kind")
        # Older documents print a Policy without its kind.
        of_policy = kind is None and not _OF_POLICY.isdisjoint(map(str.lower, value))
        legacy = kind == "Policy" or of_policy
        reader = SchemaReader(folded=legacy, is_json=is_json(text))
        found = reader.read(value, KubeSchedulerConfiguration)
        fields = msgspec.convert(found, KubeSchedulerConfiguration)
        twice = [
            Misread("repeated-field", path, f"`{path}` is written twice", "remove one of the two")
            for path in document.repeated
        ]
        misread = [*reader.misread, *twice]
        return cls(source, text, document, before, legacy, fields, misread)

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
        return tuple(
            ExtenderEntry(**msgspec.structs.asdict(each), place=f"extenders[{index}]")
            for index, each in enumerate(self.fields.extenders)
        )

    def line(self, path: str) -> int:
        """The line of a path in the source; 0 is unknown."""
        return 0 if self.before is None else self.before + self.document.line(path)


def is_json(text: str) -> bool:
    """Whether kube-scheduler reads a text as JSON: anything that begins with a brace."""
    return text.lstrip().startswith("{")


def configurations(texts: Sequence[tuple[str, str]]) -> list[SchedulerConfiguration]:
    """The configurations in some texts, which are given with their names.

    If the texts have none but the manifest of a kube-scheduler, the file of its `--config` is read.
    Raises CommandError if there is no configuration.
    """
    documents = [(name, text, each) for name, text in texts for each in read(text, name)]
    found = [c for name, text, document in documents for c in _inside(document, name, text)]
    manifests = [m for *_, document in documents if (m := _manifest(document.value)) is not None]
    names = ", ".join(f"`{name}`" for name, _ in texts)
    if not found and manifests:
        found = _started_with(manifests[0], names)
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
    elif kind in ("List", "ConfigMapList", None) and isinstance(items, list):
        for place, item in enumerate(items):
            yield from _inside(replace(document, value=item, root=f"items[{place}]"), name, text)
    elif kind in ("ConfigMap", None):  # in the answer of an API server items have no kind
        yield from _in_config_map(document, name)


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


def _started_with(manifest: Manifest, names: str) -> list[SchedulerConfiguration]:
    """The configurations in the file that a manifest names. Raises CommandError."""
    path = manifest.flags.get("config")
    if path is None:
        raise CommandError(
            f"kube-scheduler is started without `--config` in {names}, so it has no extenders",
            "write one with `placet scheduler-config`, of a Policy with its `--from FILE`; mount "
            "it, and pass it with `--config`",
        )
    if not Path(path).is_file():
        message = f"kube-scheduler is started with `{path}`, which is not on this machine"
        raise CommandError(message, "give that file as an argument too")
    _, text = read_text(path)
    return [c for document in read(text, path) for c in _inside(document, path, text)]


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

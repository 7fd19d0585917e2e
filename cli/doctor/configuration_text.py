"""YAML and JSON as people write them: values, and the line that each of them is on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from cli.command import CommandError, read_input
from cli.command import read_text as read_file_text
from cli.doctor.extender import ExtenderEntry, entry
from engine.objects.api_types import mapping, mappings
from policies.documents import Document, DocumentError, join
from policies.documents import read as read_documents

_STDIN = "-"


def read_text(name: str) -> tuple[str, str]:
    """The name and the text of a file, or of standard input. Raises CommandError."""
    if name == _STDIN:
        return "standard input", read_input()
    return name, read_file_text(name, "check the path")


def existing(path: str) -> str | None:
    """The text of a file of this machine; None if there is none. Raises CommandError."""
    return read_text(path)[1] if Path(path).is_file() else None


def read(text: str, name: str) -> list[Document]:
    """The documents of a text. Raises CommandError for what is neither YAML nor JSON."""
    try:
        return read_documents(text)
    except DocumentError as error:
        raise CommandError(f"`{name}` {error}", "correct the file") from None


POLICY = "Policy"
_KINDS = ("KubeSchedulerConfiguration", POLICY)
_KIND = re.compile(rf"""["']?kind["']?\s*:\s*["']?({"|".join(_KINDS)})\b""")
# Fields that only a Policy has, in lower case, and fields that only other configurations have.
_OF_POLICY = frozenset({"predicates", "priorities"})
_OF_CONFIGURATION = frozenset({"plugins", "pluginConfig", "profiles"})
_LISTS = ("List", "ConfigMapList")
# The flags of kube-scheduler 1.36.
FLAGS = frozenset(
    """
    allow-metric-labels allow-metric-labels-manifest authentication-kubeconfig
    authentication-skip-lookup authentication-token-webhook-cache-ttl
    authentication-tolerate-lookup-failure authorization-always-allow-paths authorization-kubeconfig
    authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl
    bind-address cert-dir client-ca-file config contention-profiling disable-http2-serving
    disabled-metrics emulated-version feature-gates h help http2-max-streams-per-connection
    kube-api-burst kube-api-content-type kube-api-qps kubeconfig leader-elect
    leader-elect-lease-duration leader-elect-renew-deadline leader-elect-resource-lock
    leader-elect-resource-name leader-elect-resource-namespace leader-elect-retry-period
    log-flush-frequency log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size
    log-text-split-stream logging-format master min-compatibility-version permit-address-sharing
    permit-port-sharing pod-max-in-unschedulable-pods-duration profiling requestheader-allowed-names
    requestheader-client-ca-file requestheader-extra-headers-prefix requestheader-group-headers
    requestheader-uid-headers requestheader-username-headers secure-port
    show-hidden-metrics-for-version tls-cert-file tls-cipher-suites tls-curve-preferences
    tls-min-version tls-private-key-file tls-sni-cert-key v version vmodule write-config-to
    """.split()
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The pod of a kube-scheduler; `flags` are those of its command line, without dashes."""

    host_network: bool
    dns_policy: str | None
    flags: Mapping[str, str]
    # The path of that file on the host, if its folder is mounted from there.
    on_host: str | None

    @property
    def config(self) -> str | None:
        """The path of its configuration; None without one."""
        return self.flags.get("config")

    @property
    def resolves_services(self) -> bool:
        """Whether the pod resolves service names; on the host's network only with a `dnsPolicy`."""
        if self.dns_policy in (None, "ClusterFirst"):
            return not self.host_network
        return self.dns_policy == "ClusterFirstWithHostNet"


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    """A KubeSchedulerConfiguration or a Policy, correct or not.

    `source` names its file, and `text` is that file or the text of a ConfigMap's key. `before` is
    the number of lines before that text in the file, None if unknown.
    """

    source: str
    text: str
    document: Document
    before: int | None = 0
    manifest: Manifest | None = None

    @property
    def value(self) -> dict[str, Any]:
        assert isinstance(self.document.value, dict), "a configuration is a mapping"
        return self.document.value

    @property
    def is_first(self) -> bool:
        """Whether no other document is before it in its text."""
        head = [line.partition("#")[0].strip() for line in self._head if not line.startswith("%")]
        return "".join(head) in ("", "---")

    @property
    def _head(self) -> list[str]:
        return self.text.splitlines()[: self.document.line("") - 1]

    @property
    def is_json(self) -> bool:
        """Whether kube-scheduler reads it as JSON: anything that begins with a brace."""
        return self.text.lstrip().startswith("{")

    @property
    def election(self) -> dict[str, Any]:
        """Its `leaderElection`, with the flags of kube-scheduler that replace its fields."""
        given, flags = mapping(self.value, "leaderElection"), self.manifest_flags
        for name in ("resourceName", "resourceNamespace"):
            if (flag := f"leader-elect-resource-{name[8:].lower()}") in flags:
                given = given | {name: flags[flag]}
        if "leader-elect" in flags:
            given = given | {
                "leaderElect": flags["leader-elect"].lower() not in ("false", "0", "f")
            }
        return given

    @property
    def manifest_flags(self) -> Mapping[str, str]:
        return {} if self.manifest is None else self.manifest.flags

    @property
    def has_kind(self) -> bool:
        """Whether it says what it is; documents of the framework's design do not."""
        return self.value.get("kind") is not None

    @property
    def legacy(self) -> bool:
        """Whether it is a Policy, with a `kind` or as older documents print it."""
        if self.has_kind:
            return self.value.get("kind") == POLICY
        return not _OF_POLICY.isdisjoint(map(str.lower, self.value))

    @property
    def extenders(self) -> tuple[ExtenderEntry, ...]:
        written = self.value.get("extenders")
        items = written if isinstance(written, list) else []
        return tuple(
            entry(item, f"extenders[{place}]", legacy=self.legacy)
            for place, item in enumerate(items)
        )

    def line(self, path: str) -> int:
        """The line of a path in the source; 0 is unknown."""
        return 0 if self.before is None else self.before + self.document.line(path)


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
    value = document.value
    if not isinstance(value, dict):
        return
    kind = value.get("kind")
    if _is_configuration(value) or ("metadata" not in value and _looks_like_one(value)):
        yield SchedulerConfiguration(name, text, document)
    elif kind == "ConfigMap":
        yield from _in_config_map(document, value, "", name)
    elif kind in (*_LISTS, None) and isinstance(value.get("items"), list):
        for place, item in enumerate(value["items"]):
            if isinstance(item, dict) and item.get("kind", "ConfigMap") == "ConfigMap":
                yield from _in_config_map(document, item, f"items[{place}]", name)


def _is_configuration(value: Mapping[str, Any]) -> bool:
    """Whether it is a configuration by its kind; other APIs have a Policy too."""
    kind, version = value.get("kind"), value.get("apiVersion")
    return kind in _KINDS and (kind != POLICY or version in (None, "v1"))


def _looks_like_one(value: Mapping[str, Any]) -> bool:
    """Whether it is a configuration by its fields, as one without a `kind` or with a wrong one."""
    if "kind" in value:
        return "extenders" in value
    return not (_OF_CONFIGURATION | _OF_POLICY | {"extenders"}).isdisjoint(value)


def _in_config_map(
    outer: Document, value: Mapping[str, Any], path: str, name: str
) -> Iterator[SchedulerConfiguration]:
    data = value.get("data")
    for key, text in data.items() if isinstance(data, dict) else ():
        if not isinstance(text, str) or not _KIND.search(text):
            continue
        metadata = mapping(value, "metadata")
        parts = (metadata.get("namespace"), metadata.get("name"), key)
        label = "/".join(str(part) for part in parts if part)
        for document in read(text, f"{name} {label}"):
            if isinstance(document.value, dict) and _is_configuration(document.value):
                block = outer.scalar(join(join(path, "data"), key))
                before = block.start_mark.line + 1 if block and block.style == "|" else None
                source = name if before is not None else f"{name} {label}"
                yield SchedulerConfiguration(source, text, document, before)


def _started_with(
    manifest: Manifest, names: str, open_file: Callable[[str], str | None]
) -> list[SchedulerConfiguration]:
    if unknown := next((name for name in manifest.flags if name not in FLAGS), ""):
        raise CommandError(
            f"kube-scheduler 1.36 refuses to start: it has no flag `--{unknown}`",
            "pass a KubeSchedulerConfiguration with `--config`; `placet scheduler-config --from "
            "FILE` writes one of a Policy",
        )
    if manifest.config is None:
        raise CommandError(
            f"kube-scheduler is started without `--config` in {names}, so it has no extenders",
            "write one with `placet scheduler-config`, mount it, and pass it with `--config`",
        )
    for path in dict.fromkeys(filter(None, (manifest.on_host, manifest.config))):
        text = open_file(path)
        if text is not None:
            return [c for document in read(text, path) for c in _inside(document, path, text)]
    raise CommandError(
        f"kube-scheduler is started with `{manifest.config}`, which is not on this machine",
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
            flags, dns = _flags(words), spec.get("dnsPolicy")
            return Manifest(
                spec.get("hostNetwork") is True,
                dns if isinstance(dns, str) else None,
                flags,
                _on_host(flags["config"], spec, container) if "config" in flags else None,
            )
    return None


def _flags(words: Sequence[str]) -> dict[str, str]:
    """The flags of a command line, without dashes; the value of one that is alone is `true`."""
    found: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], "-"], strict=False):
        if word.startswith("-") and word.strip("-"):
            name, equals, value = word.lstrip("-").partition("=")
            alone = "true" if following.startswith("-") else following
            found[name] = value if equals else alone
    return found


def _on_host(path: str, spec: Mapping[str, Any], container: Mapping[str, Any]) -> str | None:
    volumes = {v.get("name"): mapping(v, "hostPath").get("path") for v in mappings(spec, "volumes")}
    for mount in mappings(container, "volumeMounts"):
        at, host = mount.get("mountPath"), volumes.get(mount.get("name"))
        if isinstance(at, str) and isinstance(host, str) and PurePosixPath(path).is_relative_to(at):
            return str(PurePosixPath(host) / PurePosixPath(path).relative_to(at))
    return None

"""Schema: the fields of a KubeSchedulerConfiguration v1, with their types.

It has all fields but those that belong to a plugin. kube-scheduler refuses to start with an unknown
field or a wrong type. An entry of its extenders tells whether it is Placet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, get_args, get_origin, get_type_hints
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Meta, Struct

from cli.doctor.generator import VERBS
from grammar.messages.diagnostics import nearest
from grammar.values.errors import EvaluationError
from grammar.values.object_names import is_qualified
from grammar.values.time import SECOND, Duration
from policies.documents import join

# The syntax of Go's time.ParseDuration, which has no days and weeks.
_GO_TIME = r"\A[+-]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)\Z"
_BASE64 = (
    r"\A\n*(([A-Za-z0-9+/]\n*){4})*(([A-Za-z0-9+/]\n*){2}=\n*=\n*|([A-Za-z0-9+/]\n*){3}=\n*)?\Z"
)
_UNQUOTED = "write it without quotes"
_WHOLE = "write it without quotes and decimals"
_UNIT = "write a number with a unit, as in `5s`"
_ENCODED = "`base64 -w0 FILE` writes it, and so does `placet scheduler-config --ca FILE`"


def _kind(title: str, hint: str, **limits: Any) -> Meta:
    """What a wrong value is not, and what to do."""
    return Meta(title=title, description=hint, **limits)


def _whole(low: int, high: int, what: str) -> Meta:
    return _kind(f"a whole number of {what}", _WHOLE, ge=low, le=high)


Text = Annotated[str, _kind("a text", "put it in quotes")]
Flag = Annotated[bool, _kind("`true` or `false`", _UNQUOTED)]
Time = Annotated[str, _kind("a duration", _UNIT, pattern=_GO_TIME)]
Base64 = Annotated[str, _kind("a text in base64", _ENCODED, pattern=_BASE64)]
Number = Annotated[
    float, _kind("a number of 32 bits", _UNQUOTED, ge=-3.4028235e38, le=3.4028235e38)
]
Int32 = Annotated[int, _whole(-(2**31), 2**31 - 1, "32 bits")]
Int64 = Annotated[int, _whole(-(2**63), 2**63 - 1, "64 bits")]


class TlsConfig(Struct, frozen=True, rename="camel"):
    """TLS settings of an extender; of each part the file or its content, or neither."""

    insecure: Flag = False
    server_name: Text = ""
    cert_file: Text = ""
    key_file: Text = ""
    ca_file: Text = ""
    cert_data: Base64 = ""
    key_data: Base64 = ""
    ca_data: Base64 = ""

    @property
    def parts(self) -> Mapping[str, tuple[str, str]]:
        """The content and the file of `ca`, `cert` and `key`, of those that have one."""
        found = (
            (part, (getattr(self, f"{part}_data"), getattr(self, f"{part}_file")))
            for part in ("ca", "cert", "key")
        )
        return {part: given for part, given in found if any(given)}


class ManagedResource(Struct, frozen=True, rename="camel"):
    """An item of `managedResources`."""

    name: Text = ""
    ignored_by_scheduler: Flag = False


class ExtenderFields(Struct, frozen=True, rename="camel"):
    """An item of `extenders`. A Policy writes `enableHttps`, and `httpTimeout` in nanoseconds."""

    url_prefix: Text = ""
    filter_verb: Text = ""
    preempt_verb: Text = ""
    prioritize_verb: Text = ""
    weight: Int64 = 0
    bind_verb: Text = ""
    enable_https: Flag = msgspec.field(default=False, name="enableHTTPS")
    tls_config: TlsConfig = TlsConfig()
    http_timeout: Time = ""
    node_cache_capable: Flag = False
    managed_resources: list[ManagedResource] = []
    ignorable: Flag = False


class LeaderElection(Struct, frozen=True, rename="camel"):
    """The `leaderElection`."""

    leader_elect: Flag = True
    lease_duration: Time = ""
    renew_deadline: Time = ""
    retry_period: Time = ""
    resource_lock: Text = ""
    resource_name: Text = ""
    resource_namespace: Text = ""


class ClientConnection(Struct, frozen=True, rename="camel"):
    """The `clientConnection`."""

    kubeconfig: Text = ""
    accept_content_types: Text = ""
    content_type: Text = ""
    qps: Number = 0
    burst: Annotated[int, _whole(0, 2**31 - 1, "at least 0")] = 0


class Profile(Struct, frozen=True, rename="camel"):
    """A profile, whose plugins and their arguments kube-scheduler itself checks."""

    scheduler_name: Text = ""
    percentage_of_nodes_to_score: Int32 = 0
    plugins: Any = None
    plugin_config: Any = None


class KubeSchedulerConfiguration(Struct, frozen=True, rename="camel"):
    """A whole configuration of version v1."""

    api_version: Text = ""
    kind: Text = ""
    parallelism: Annotated[int, _whole(1, 2**31 - 1, "at least 1")] = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: Flag = True
    enable_contention_profiling: Flag = True
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Annotated[int, _whole(1, 2**63 - 1, "at least 1")] = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: list[Profile] = []
    extenders: list[ExtenderFields] = []
    delay_cache_until_active: Flag = False


@dataclass(frozen=True, slots=True)
class Misread:
    """Misread field: unknown to the schema, of a wrong type, or repeated, as its code says."""

    code: str
    path: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class SchemaReader:
    """Reader of a document by a schema; `misread` gets the fields that the schema does not take.

    With `folded` the case of names does not matter, and durations may be nanoseconds, as in a
    Policy, of which only the extenders have such fields. In JSON a whole number has no decimals.
    """

    folded: bool = False
    is_json: bool = False
    misread: list[Misread] = field(default_factory=list)

    def read(self, value: Any, kind: Any, path: str = "") -> Any:
        """The value with the fields that the schema takes, with their names in the right case.

        None stands for what it does not take.
        """
        if kind is Any or (value is None and kind != Time):
            return value  # elsewhere null counts as absent
        if get_origin(kind) is Annotated:
            return self._scalar(value, kind, path)
        is_list = get_origin(kind) is list
        if is_list and isinstance(value, list):
            (item,) = get_args(kind)
            return [self.read(each, item, f"{path}[{i}]") or {} for i, each in enumerate(value)]
        if not is_list and isinstance(value, dict):
            return self._mapping(value, kind, path)
        wanted = "a list" if is_list else "a mapping of fields"
        return self._refuse(path, wanted, "see `placet scheduler-config`")

    def _scalar(self, value: Any, kind: Any, path: str) -> Any:
        plain, meta = get_args(kind)
        if isinstance(value, float) and value.is_integer() and plain is int:
            value = value if self.is_json else int(value)
        try:
            if kind == Time and self.folded and isinstance(value, int):
                return str(Duration.of(value))
            found = msgspec.convert(value, kind)
            if kind == Time:
                Duration.parse(found)  # one that is too long is none
        except (msgspec.ValidationError, EvaluationError):
            return self._refuse(path, meta.title, meta.description)
        return found

    def _mapping(self, value: Mapping[str, Any], kind: type[Struct], path: str) -> dict[str, Any]:
        types = get_type_hints(kind, include_extras=True)
        kinds = {each.encode_name: types[each.name] for each in msgspec.structs.fields(kind)}
        cases = {name.lower(): name for name in kinds} if self.folded else {}
        made = {}
        for written, inner in value.items():
            place, name = join(path, written), cases.get(written.lower(), written)
            if name not in kinds:
                close = nearest(written, kinds)
                hint = f"a similar name exists: `{close}`" if close else "remove it"
                message = f"there is no field `{written}`"
                self.misread.append(Misread("unknown-field", place, message, hint))
            elif (found := self.read(inner, kinds[name], place)) is not None:
                made[name] = found
        return made

    def _refuse(self, path: str, wanted: str, hint: str) -> None:
        where = f"`{path}`" if path else "the configuration"
        self.misread.append(Misread("wrong-type", path, f"{where} is not {wanted}", hint))


OUR_PATH = "/api/scheduler"
OUR_PORT = 12345
# kube-scheduler's timeout if none is set (C2).
DEFAULT_TIMEOUT = 5.0


class ExtenderEntry(ExtenderFields, frozen=True, kw_only=True):
    """An entry of `extenders` as kube-scheduler reads it, at its place.

    Missing values and values of a wrong type are zero: `wrong-type` reports them.
    """

    place: str

    def at(self, name: str) -> str:
        return f"{self.place}.{name}"

    @property
    def verbs(self) -> Mapping[str, str]:
        """The path of each verb, empty if kube-scheduler does not call it."""
        return {name: getattr(self, f"{name}_verb") for name in VERBS}

    @property
    def only_binds(self) -> bool:
        """Whether bind is its only verb: kube-scheduler calls it beside its scheduling cycles."""
        return [name for name, path in self.verbs.items() if path] == ["bind"]

    @property
    def timeout(self) -> float | None:
        """The `httpTimeout` in seconds; None for 0, which kube-scheduler treats as not set."""
        return Duration.parse(self.http_timeout or "0").nanos / SECOND or None

    @property
    def patience(self) -> float:
        """How long kube-scheduler waits for an answer, in seconds."""
        return DEFAULT_TIMEOUT if self.timeout is None else self.timeout

    @property
    def prefix(self) -> SplitResult:
        """The parts of its URL, all empty if it is none."""
        try:
            parts = urlsplit(self.url_prefix)
            _ = parts.port  # a wrong one is found when it is read
        except ValueError:
            return urlsplit("")
        return urlsplit("") if re.search(r"\s", self.url_prefix) else parts

    @property
    def host(self) -> str:
        return self.prefix.hostname or ""

    @property
    def port(self) -> int:
        return self.prefix.port or {"http": 80, "https": 443}.get(self.prefix.scheme, 0)

    @property
    def path(self) -> str:
        return self.prefix.path.rstrip("/")

    @property
    def is_local(self) -> bool:
        """Whether its host is kube-scheduler's own machine."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    def has_url(self, url: str) -> bool:
        return self.url_prefix.rstrip("/") == url.rstrip("/")


def placets(
    extenders: Sequence[ExtenderEntry], url: str | None = None
) -> tuple[tuple[ExtenderEntry, ...], str]:
    """The entries that are Placet, that with filter first, and why; none if it is unclear.

    All of them have one URL: the `url`, else the one that looks most like Placet. An only entry may
    be of another extender, and advice for Placet would break it.
    """
    port, path = f":{OUR_PORT}", OUR_PATH
    by_url = [each for each in extenders if url is not None and each.has_url(url)]
    chosen = [("it has the URL of `--url`", by_url)]
    for marks in ((port, path), (path,), (port,), ("placet",)):
        because = f"its URL has {' and '.join(f'`{mark}`' for mark in marks)}"
        marked = [each for each in extenders if all(mark in each.url_prefix for mark in marks)]
        chosen.append((because, marked))
    by_verb = [each for each in extenders if each.preempt_verb == "preempt"]
    for because, found in (*chosen, ("it has the verb `preempt`", by_verb)):
        if found and all(each.has_url(found[0].url_prefix) for each in found):
            ours = (each for each in extenders if each.has_url(found[0].url_prefix))
            return tuple(sorted(ours, key=lambda each: not each.filter_verb)), because
    return (), ""


def is_extended(name: str) -> bool:
    """Whether an extender can manage a resource of this name (C10)."""
    # A quota of it has the prefix.
    has_prefix, is_native = name.startswith("requests."), "kubernetes.io/" in name
    return "/" in name and not is_native and not has_prefix and is_qualified(f"requests.{name}")

"""Schema: the fields of a KubeSchedulerConfiguration v1 and of a Policy v1, with their types.

It has all fields of both but those that belong to a plugin. kube-scheduler refuses to start with an
unknown field of its configuration, or with a wrong type in either of the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from grammar.messages.diagnostics import nearest
from grammar.values.errors import EvaluationError
from grammar.values.time import Duration
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
Count = Annotated[int, _whole(1, 2**31 - 1, "at least 1")]
Seconds = Annotated[int, _whole(1, 2**63 - 1, "at least 1")]
Burst = Annotated[int, _whole(0, 2**31 - 1, "at least 0")]


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
        found = {
            "ca": (self.ca_data, self.ca_file),
            "cert": (self.cert_data, self.cert_file),
            "key": (self.key_data, self.key_file),
        }
        return {part: given for part, given in found.items() if any(given)}


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
    burst: Burst = 0


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
    parallelism: Count = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: Flag = True
    enable_contention_profiling: Flag = True
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Seconds = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: list[Profile] = []
    extenders: list[ExtenderFields] = []
    delay_cache_until_active: Flag = False


class SchedulerPolicy(Struct, frozen=True, rename="camel"):
    """A whole Policy of version v1, which kube-scheduler read up to 1.22."""

    api_version: Text = ""
    kind: Text = ""
    predicates: Any = None
    priorities: Any = None
    extenders: list[ExtenderFields] = []
    hard_pod_affinity_symmetric_weight: Int32 = 0
    always_check_all_predicates: Flag = False


@dataclass(frozen=True, slots=True)
class Misread:
    """Misread field: unknown to the schema, or of a wrong type."""

    path: str
    message: str
    hint: str
    is_unknown: bool = False


@dataclass(frozen=True, slots=True)
class SchemaReader:
    """Reader of a document by a schema; `misread` gets the fields that the schema does not take.

    With `folded` the case of names does not matter, and durations may be nanoseconds, as in a
    Policy. In JSON a whole number has no decimals.
    """

    folded: bool = False
    is_json: bool = False
    misread: list[Misread] = field(default_factory=list)

    def document(self, value: Any, *, is_policy: bool) -> dict[str, Any]:
        """The fields of a whole document, with those of a Policy in the form of version v1."""
        kind = SchedulerPolicy if is_policy else KubeSchedulerConfiguration
        found: dict[str, Any] | None = self.read(value, kind)
        return found or {}

    def read(self, value: Any, kind: Any, path: str = "") -> Any:
        """The value with the fields that the schema takes, with their names in the right case.

        None stands for what it does not take.
        """
        if kind is Any or (value is None and kind != Time):
            return value  # elsewhere null counts as absent
        if get_origin(kind) is Annotated:
            return self._scalar(value, kind, path)
        if get_origin(kind) is not list:
            if isinstance(value, dict):
                return self._mapping(value, kind, path)
            self._refuse(path, "a mapping of fields", "see `placet scheduler-config`")
        elif isinstance(value, list):
            (item,) = get_args(kind)
            return [self.read(each, item, f"{path}[{i}]") or {} for i, each in enumerate(value)]
        else:
            self._refuse(path, "a list", "see `placet scheduler-config`")
        return None

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
                self.misread.append(Misread(place, message, hint, is_unknown=True))
            elif (found := self.read(inner, kinds[name], place)) is not None:
                made[name] = found
        return made

    def _refuse(self, path: str, wanted: str, hint: str) -> None:
        where = f"`{path}`" if path else "the configuration"
        self.misread.append(Misread(path, f"{where} is not {wanted}", hint))

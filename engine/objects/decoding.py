"""Decoders of Kubernetes JSON: scalars that are written as text, and structs from the schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import msgspec

from engine.errors import BadObjectError
from grammar.meaning.schema import Schema
from grammar.tree.types import Type
from grammar.values.errors import EvaluationError
from grammar.values.quantity import LARGEST, Quantity
from grammar.values.time import Duration, Timestamp

# The int of the language and of Go. A larger number must not reach an expression.
JsonInt = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


# msgspec decodes a dataclass from a JSON object and never calls the hook for it. So msgspec sees a
# stand-in class for each of these types, and type checkers see the type itself.


class _StandIn(type):
    """The class of the stand-ins. msgspec checks the hook's value with it; the check passes."""

    name: str
    parse: Callable[[str], object]

    def __instancecheck__(cls, value: object) -> bool:
        return True


_NUMBER = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?:[numkMGTPE]|[KMGTPE]i)?\Z", re.ASCII
)


def _amount(text: str) -> Quantity:
    """The quantity that an object has of something. One below 0 is 0: nothing takes less.

    The API server takes numbers of any length. An object with one that the language has no value
    for counts all the same, with the nearest value. Raises EvaluationError for other texts.
    """
    try:
        found = Quantity.parse(text)
    except EvaluationError:
        number = _NUMBER.match(text)
        if number is None:
            raise
        found = LARGEST if float(number[1]) >= 1 else Quantity.ZERO
    return found if found.nanos >= 0 else Quantity.ZERO


if TYPE_CHECKING:
    JsonQuantity = Quantity
    JsonTimestamp = Timestamp
    JsonDuration = Duration
else:
    JsonQuantity = _StandIn("JsonQuantity", (), {"name": "quantity", "parse": _amount})
    JsonTimestamp = _StandIn("JsonTimestamp", (), {"name": "timestamp", "parse": Timestamp.parse})
    JsonDuration = _StandIn("JsonDuration", (), {"name": "duration", "parse": Duration.parse})


# The names of types in msgspec's own messages.
_JSON_TYPES: dict[type, str] = {
    bool: "bool",
    int: "int",
    float: "float",
    list: "array",
    dict: "object",
    type(None): "null",
}


def decode_scalar(type_: Any, value: object) -> object:
    """The value of a quantity, timestamp or duration: the hook of a decoder.

    Raises ValueError, to which msgspec adds the path.
    """
    if type(value) is not str:
        value = _as_text(type_, value)
    try:
        return type_.parse(value)
    except EvaluationError as error:
        raise ValueError(f"`{value}` is not a {type_.name}; {error}") from None


def _as_text(type_: Any, value: object) -> str:
    """The text of a value. As in Kubernetes, a quantity may be a number, or null for 0."""
    if type_ is JsonQuantity:
        if value is None:
            return "0"
        if type(value) in (int, float):
            return str(value)
    raise ValueError(f"expected `{type_.name}`, got `{_JSON_TYPES[type(value)]}`")


T = TypeVar("T")

_SCALARS: dict[str, Any] = {
    "bool": bool,
    "int": JsonInt,
    "double": float,
    "string": str,
    "quantity": JsonQuantity,
    "timestamp": JsonTimestamp,
    "duration": JsonDuration,
    "dyn": JsonInt | str,
}
_MISTAKE = re.compile(r"(.*) - at `\$\.?(.*)`")


class ObjectDecoder(Generic[T]):
    """Decodes the JSON of one kind of object; `kind` is its name in error texts."""

    def __init__(self, kind: str, struct: type[T]) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(struct, dec_hook=decode_scalar)

    def decode(self, data: bytes | msgspec.Raw) -> T:
        """The object. As in the API server, unknown fields are skipped and null means absent.

        Raises BadObjectError, naming the path.
        """
        try:
            return self._decoder.decode(data)
        except RecursionError:
            raise BadObjectError(f"bad {self._kind}: nested too deeply") from None
        except UnicodeDecodeError:
            raise BadObjectError(f"bad {self._kind}: the text is not UTF-8") from None
        except msgspec.MsgspecError as error:
            raise BadObjectError(self._explain(str(error))) from None

    def _explain(self, text: str) -> str:
        found = _MISTAKE.fullmatch(text)
        reason, path = found.groups() if found else (text, "")
        # Every field may be null, but no user should try that.
        reason = reason.replace(" | null`", "`").replace("`str`", "`string`")
        reason = reason.replace("JSON is malformed", "malformed JSON")
        where = f" at `{path}`" if path else ""
        return f"bad {self._kind}{where}: {reason[:1].lower()}{reason[1:]}"


class StructFactory:
    """Makes Struct types for records of the schema and for the records that these refer to.

    The types have the schema's API fields (no short forms, no computed members), None where the
    JSON has no value. They are frozen, and the garbage collector does not track them, because API
    objects have no cycles.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._structs: dict[str, type[msgspec.Struct]] = {}

    def struct(self, name: str) -> type[msgspec.Struct]:
        """The type for a record. Repeated calls return the same type."""
        if name not in self._structs:
            fields = [
                (field.name, self._annotation(field.type) | None, None)
                for field in self._schema.records[name].fields.values()
                if field.derived is None and not field.native
            ]
            self._structs[name] = msgspec.defstruct(name, fields, frozen=True, gc=False)
        return self._structs[name]

    def _annotation(self, type_: Type) -> Any:
        match type_.name:
            case "list":
                item: Any = self._annotation(type_.args[0])
                return tuple[item, ...]
            case "map":
                value: Any = self._annotation(type_.args[1])
                return dict[str, value]
            case name if type_.is_record:
                return self.struct(name)
            case name:
                return _SCALARS[name]


def revision_of(version: str) -> int:
    """The number of a resource version, 0 for one that is not a number of 64 bits."""
    return int(version) if version.isascii() and version.isdigit() and len(version) < 20 else 0

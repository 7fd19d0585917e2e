"""The API types of Pod and Node: msgspec Structs made from the schema, and their decoder."""

from __future__ import annotations

import re
from typing import Any, Generic, TypeVar

import msgspec

from engine.errors import BadObjectError
from engine.scalars import JsonDuration, JsonInt, JsonQuantity, JsonTimestamp, decode_scalar
from grammar.schema import Schema
from grammar.types import Type

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
    """Decodes the JSON of one kind of object; `kind` is what error texts call it."""

    def __init__(self, kind: str, struct: type[T]) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(struct, dec_hook=decode_scalar)

    def decode(self, data: bytes | msgspec.Raw) -> T:
        """The object. Unknown fields are skipped and null is absent, as for the API server.

        Raises BadObjectError, naming the path, for anything that is not such an object.
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
        # Every field may be null, which is nothing that the reader of the error should try.
        reason = reason.replace(" | null`", "`").replace("`str`", "`string`")
        reason = reason.replace("JSON is malformed", "malformed JSON")
        where = f" at `{path}`" if path else ""
        return f"bad {self._kind}{where}: {reason[:1].lower()}{reason[1:]}"


class StructFactory:
    """Makes a Struct type for each record that is asked for, and for those it refers to.

    The types have the attributes of the schema's API fields (no short forms, no computed members),
    None where the JSON has nothing. They are frozen, and untracked by the garbage collector, as API
    objects have no cycles.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._structs: dict[str, type[msgspec.Struct]] = {}

    def struct(self, name: str) -> type[msgspec.Struct]:
        """The type for a record; the same one each time."""
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

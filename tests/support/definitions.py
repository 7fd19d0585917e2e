"""CRDs, generated from the structs and from rules that types cannot express.

`make crds` writes those that ship.

The schemas are structural (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/
custom-resource-definitions/#specifying-a-structural-schema), and the checks in them are CEL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec.inspect import (
    BoolType,
    DictType,
    Field,
    IntType,
    LiteralType,
    Metadata,
    StrType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from cli.commands.crds import FOLDER
from policies import resource
from policies.manifest_text import GROUP
from policies.manifests import bare
from policies.resource import ALPHA, KINDS, RESERVED_WEIGHT, STORED, VERSIONS

HEAD = "# Written by tests/support/definitions.py, from the structs of policies/resource.py.\n"

Schema = dict[str, Any]

_PLURALS = {
    "PlacementPolicy": ("placementpolicies", "plp"),
    "ClusterPlacementPolicy": ("clusterplacementpolicies", "cplp"),
}
# `kubectl get placet` lists the objects of all kinds. They are not in `all`: that is for what runs.
_CATEGORY = "placet"


def _rule(rule: str, message: str) -> Schema:
    """A check in CEL, and the message if it is false."""
    return {"rule": rule, "message": message}


_SELECTIVE = _rule(
    "(has(self.matchLabels) && size(self.matchLabels) > 0)"
    " || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
    "is empty and would select every node",
)
_VALUES = _rule(
    "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0"
    " : self.operator in ['Exists', 'DoesNotExist'] ? !has(self.values) || size(self.values) == 0"
    " : true",
    "In and NotIn need values, Exists and DoesNotExist take none",
)
_NUMBER = _rule(
    "self.operator in ['Gt', 'Lt'] ? has(self.values) && size(self.values) == 1"
    " && self.values[0].matches('^[+-]?[0-9]{1,18}$') : true",
    "Gt and Lt need one whole number",
)
_ROUNDED = _rule(
    "!has(self.rounding) || type(self.targetSize) == string", "only a percentage is rounded"
)
_SPEC = (
    _rule(
        "!(has(self.placementPolicy) && has(self.policy))",
        "placementPolicy and policy are two names of one field: keep one of them",
    ),
    _rule(
        "!(has(self.placementPolicy) || has(self.policy))"
        " || has(self.nodeSelector) || has(self.annotationSelector)",
        "a targetSize needs a nodeSelector or an annotationSelector",
    ),
    _rule(
        "has(self.placementPolicy) || has(self.policy) || has(self.rules)",
        "has no effect: set placementPolicy or rules",
    ),
)
_RULES: Mapping[type, tuple[Schema, ...]] = {
    resource.LabelRequirement: (_VALUES,),
    resource.NodeRequirement: (_VALUES, _NUMBER),
    resource.NodeSelector: (_SELECTIVE,),
    resource.BoundedTarget: (_ROUNDED,),
    resource.Spec: _SPEC,
    resource.ClusterSpec: _SPEC,
}
_WEIGHT: Mapping[str, Schema] = {
    STORED: _rule(f"self > {RESERVED_WEIGHT}", "must be greater than 100: 0 to 100 are reserved"),
    ALPHA: _rule(f"self >= {RESERVED_WEIGHT}", "must be at least 100: 0 to 99 are reserved"),
}
_SIZE = _rule(
    "type(self) == int ? self >= 0 && self <= 2147483647 : self.matches('^(100|[0-9]{1,2})%$')",
    "must be a number of pods or a percentage from 0% to 100%",
)
# What definitions have beside the types of fields, and the text about each field.
_INT32, _TIME = {"format": "int32"}, {"format": "date-time"}
_MORE: Mapping[str, Schema] = {
    **dict.fromkeys(("weight", "perMinute", "atOnce"), _INT32),
    **dict.fromkeys(("since", "lastTransitionTime"), _TIME),
    "conditions": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
}
_ROWS = Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines()
_TEXTS = dict(row.split(": ", 1) for row in _ROWS if not row.startswith("#"))
# Required here but optional in the structs, whose checks have better messages.
_REQUIRED: Mapping[type, list[str]] = {
    resource.Spec: ["podSelector"],
    resource.ClusterSpec: ["podSelector"],
}
_CONDITION = '.status.conditions[?(@.type=="{}")].{}'
# The columns of `kubectl get`, and the columns that `-o wide` adds.
_COLUMNS = (
    ("Ready", "string", _CONDITION.format("Ready", "status")),
    ("Reason", "string", _CONDITION.format("Ready", "reason")),
    ("Mode", "string", ".status.mode"),
    ("Target", "string", ".status.target"),
    ("Placed", "integer", ".status.placedPods"),
    ("Matched", "integer", ".status.matchedPods"),
    ("Weight", "integer", ".spec.weight"),
    ("Age", "date", ".metadata.creationTimestamp"),
)
_WIDE_COLUMNS = (
    ("Conflicting", "string", _CONDITION.format("Conflicting", "message")),
    ("Violations", "integer", ".status.violations"),
    ("Message", "string", _CONDITION.format("Ready", "message")),
)


def definitions() -> dict[str, Schema]:
    """Each CustomResourceDefinition by the name of its file."""
    return {f"{GROUP}_{_PLURALS[kind][0]}.yaml": _definition(kind) for kind in KINDS}


def _definition(kind: str) -> Schema:
    plural, short = _PLURALS[kind]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": [_CATEGORY],
            },
            "scope": "Namespaced" if kind == "PlacementPolicy" else "Cluster",
            "conversion": {"strategy": "None"},
            "versions": [_version(kind, version) for version in VERSIONS],
        },
    }


def _version(kind: str, version: str) -> Schema:
    return {
        "name": version,
        "served": True,
        "storage": version == STORED,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            *({"name": name, "type": of, "jsonPath": path} for name, of, path in _COLUMNS),
            *(
                {"name": name, "type": of, "jsonPath": path, "priority": 1}
                for name, of, path in _WIDE_COLUMNS
            ),
        ],
        "schema": {"openAPIV3Schema": _object(KINDS[kind], version)},
    }


def _object(kind: type[msgspec.Struct], version: str) -> Schema:
    """The schema of a whole object; the API server checks its metadata."""
    known = type_info(kind)
    assert isinstance(known, StructType)
    schema = _schema(known, version)
    fields = schema["properties"]
    fields["apiVersion"] = fields["kind"] = {"type": "string"}
    fields["metadata"] = {"type": "object"}
    return {"description": kind.__doc__} | schema | {"required": ["spec"]}


def _schema(kind: Type, version: str) -> Schema:
    match kind:
        case Metadata():
            return _schema(kind.type, version)
        case UnionType() if bare(kind) is not kind:
            return _schema(bare(kind), version)
        case UnionType() if any(isinstance(part, BoolType) for part in kind.types):
            # A schema has one type, but the values of parameters have the types that policies
            # declare.
            return {"x-kubernetes-preserve-unknown-fields": True}
        case UnionType():
            return {"x-kubernetes-int-or-string": True, "maxLength": 16} | _checks([_SIZE])
        case StructType():
            return _struct(kind, version)
        case DictType():
            values = _schema(kind.value_type, version)
            limits = _limits(maxProperties=kind.max_length)
            return {"type": "object", **limits, "additionalProperties": values}
        case VarTupleType():
            items = _schema(kind.item_type, version)
            return {"type": "array", **_limits(maxItems=kind.max_length), "items": items}
        case LiteralType():
            return {"type": "string", "enum": list(kind.values)}
        case StrType():
            limits = _limits(minLength=kind.min_length, maxLength=kind.max_length)
            return {"type": "string", **limits}
        case BoolType():
            return {"type": "boolean"}
        case IntType():
            limits = _limits(minimum=kind.ge, maximum=kind.le)
            return {"type": "integer", "format": "int64", **limits}
        case _:
            raise TypeError(f"there is no schema for {kind}")


def _struct(kind: StructType, version: str) -> Schema:
    properties = {field.encode_name: _field(kind.cls, field, version) for field in kind.fields}
    if issubclass(kind.cls, resource.Spec):
        properties["weight"] |= _checks([_WEIGHT[version]])
    required = [f.encode_name for f in kind.fields if f.required] + _REQUIRED.get(kind.cls, [])
    schema: Schema = {"type": "object", "properties": properties}
    return schema | ({"required": required} if required else {}) | _checks(_RULES.get(kind.cls, ()))


def _field(owner: type, field: Field, version: str) -> Schema:
    """The schema of a field; an empty default is left out."""
    name, default = field.encode_name, field.default
    said = (_TEXTS.get(f"{each.__name__}.{name}") for each in owner.__mro__)
    text = next(filter(None, said), "")
    more: Schema = ({"description": text} if text else {}) | _MORE.get(name, {})
    # A format is more precise than that of the type.
    schema = more | _schema(field.type, version) | {k: v for k, v in more.items() if k == "format"}
    has_default = isinstance(default, int | str) and bool(default)
    return schema | ({"default": default} if has_default else {})


def _limits(**limits: int | None) -> Schema:
    return {name: limit for name, limit in limits.items() if limit is not None}


def _checks(rules: Sequence[Schema]) -> Schema:
    return {"x-kubernetes-validations": [*rules]} if rules else {}


def texts() -> dict[str, str]:
    """The definitions as YAML, by the name of their file."""
    # The way through JSON copies shared parts, which YAML would write as aliases.
    plain = msgspec.json.decode(msgspec.json.encode(definitions()))
    return {
        name: HEAD + yaml.safe_dump(made, sort_keys=False, width=100)
        for name, made in plain.items()
    }


if __name__ == "__main__":
    for file, text in texts().items():
        (FOLDER / file).write_text(text, encoding="utf-8")

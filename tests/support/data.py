"""Tables of data, as policies declare them."""

from __future__ import annotations

from engine.program.tables import TableSpec
from tests.support.engines import registry_of

RACKS = (
    'from configmap "kube-system/racks" key "racks.csv" by "rack" '
    "columns { watts: double, owner: string }"
)
CLAIMS = (
    'from objects "v1/PersistentVolumeClaim" by object.metadata.namespace + "/" '
    "+ object.metadata.name columns { volume = string(object.spec.volumeName) }"
)


def spec_of(source: str, name: str = "load") -> TableSpec:
    """The table of a source that one policy declares."""
    text = f'cluster policy p {{ for pods where true data "{name}" {{ {source} }}'
    rule = f'filter "f" {{ require size(data.{name}) < 1000000 missing pass }} }}'
    (spec,) = registry_of(f"{text} {rule}").tables.values()
    return spec

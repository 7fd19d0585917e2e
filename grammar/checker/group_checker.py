"""Group checker: what a `group` may be by, and what expressions read of the group.

The policy checker asks it. `with_group` gives an environment in which expressions read a group.
"""

from __future__ import annotations

from dataclasses import replace

from grammar.meaning.environment import Environment
from grammar.meaning.schema import Record, Schema
from grammar.tree.groups import Group

# The record of the schema with the fields that every group has besides its `value`.
_FIELDS = "NodeGroup"


def with_group(environment: Environment, group: Group) -> Environment:
    """The environment in which expressions read this checked group."""
    schema = environment.schema
    assert schema is not None, "policies have a schema"
    common = schema.records[_FIELDS].fields
    value = replace(common["value"], type=group.by.type)
    record = Record(group.type.name, {**common, "value": value}, f"The group `{group.name}`.")
    return replace(
        environment,
        variables={**environment.variables, group.name: group.type},
        schema=Schema({**schema.records, record.name: record}),
        groups={**environment.groups, group.name: group},
    )

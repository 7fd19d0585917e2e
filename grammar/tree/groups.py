"""Groups: the sets of nodes with one value of an expression that a policy gives a name.

The same rules as in `grammar.tree.ast` hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from grammar.tree.ast import NO_SPAN, Expr
from grammar.tree.source import Span
from grammar.tree.types import Type

# What the name of the type of a group begins with.
GROUP = "Group of "


@dataclass(frozen=True, slots=True)
class Group:
    """`group NAME by EXPR`: the name stands for the group of the node that is being evaluated.

    `by` reads the node alone. A node without a value is in no group.
    """

    name: str
    by: Expr
    span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)

    @property
    def type(self) -> Type:
        """The type of the name."""
        return Type(f"{GROUP}{self.name}")


def is_group(kind: Type) -> bool:
    """Whether a type is that of a group."""
    return kind.name.startswith(GROUP)

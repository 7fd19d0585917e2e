"""Groups and counts: the sets of nodes, and the numbers of pods, that a policy gives a name.

The same rules as in `grammar.tree.ast` hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from grammar.tree.ast import NO_SPAN, Expr
from grammar.tree.clause_parts import Per, PodSet
from grammar.tree.source import Span
from grammar.tree.types import DOUBLE, INT, QUANTITY, Type

# What the name of the type of a group begins with.
GROUP = "Group of "
# What may be read where the name of a count is read: a count of the cluster, or one of nodes.
COUNT, COUNT_OF_NODES = "count", "count of nodes"


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


@dataclass(frozen=True, slots=True)
class Count:
    """`count NAME [per …] = [sum a of] [all] [STATE] pods where e`: a number of pods, or a sum.

    It is of the cluster, of the node that is being evaluated, or of its group.
    """

    name: str
    pods: PodSet
    per: Per
    span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)

    @property
    def type(self) -> Type:
        """The type of the name, once what each pod adds is checked."""
        amount = self.pods.amount
        if amount is None:
            return INT
        return amount.type if amount.type in (INT, QUANTITY) else DOUBLE

    @property
    def stands_for(self) -> str:
        """What may be read where its name is read."""
        return COUNT if self.per.scope == "cluster" else COUNT_OF_NODES


def is_group(kind: Type) -> bool:
    """Whether a type is that of a group."""
    return kind.name.startswith(GROUP)

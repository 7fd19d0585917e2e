"""`use "NAME"`: which policy that is, and its clauses put beside those of the one that uses it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from grammar import mistakes
from grammar.clauses import Policy, Use
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked

# What the names of the policies that come with Placet begin with.
LIBRARY = "library/"


def known_names(policies: Iterable[Checked], library: Iterable[Checked]) -> dict[str, Checked]:
    """Every name that a `use` can have: addresses, and those of the library behind `library/`."""
    found = {LIBRARY + c.policy.name: c for c in library}
    for checked in policies:
        found.setdefault(checked.policy.address, checked)
    return found


def resolve(checked: Checked, names: Mapping[str, Checked]) -> Checked:
    """The policy with the ones it uses, through what those use; mistakes are its diagnostics."""
    found: list[Diagnostic] = []
    used = tuple(_used(checked, names, [checked.policy.address], found))
    if not used and not found:
        return checked
    taken = {c.name for c in checked.policy.clauses}
    for use, other in used:
        for clause in other.policy.clauses:
            if clause.name in taken:
                found.append(mistakes.duplicate_name("the clause", clause.name, use.span))
            taken.add(clause.name)
    uses = tuple(other for _, other in used)
    return replace(checked, uses=uses, diagnostics=(*checked.diagnostics, *found))


def _used(
    checked: Checked, names: Mapping[str, Checked], path: list[str], found: list[Diagnostic]
) -> Iterable[tuple[Use, Checked]]:
    for use in (i for i in checked.policy.items if isinstance(i, Use)):
        other = _named(use.name, checked.policy, names)
        if other is None:
            found.append(mistakes.unknown_policy(use.name, names, use.span))
        elif other.policy.address in path:
            found.append(mistakes.recursion([*path, other.policy.address], use.span))
        elif other.broken:
            found.append(mistakes.broken_use(use.name, use.span))
        else:
            yield use, other
            inner = _used(other, names, [*path, other.policy.address], found)
            # A mistake further down is this policy's too, at the `use` that led there.
            yield from ((use, deeper) for _, deeper in inner)


def _named(name: str, user: Policy, names: Mapping[str, Checked]) -> Checked | None:
    """By its address; by its name alone in the namespace of the policy that uses it."""
    near = f"{user.namespace}/{name}" if user.namespace is not None else name
    return names.get(near) or names.get(name)

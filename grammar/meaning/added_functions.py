"""Added functions: those that installed packages give the language.

A package names each in the group `placet.functions` of its entry points, and makes it with
`function`. They are read once, when the functions of the language are, so every command, the server
and its checking processes have them.

What holds for them: arguments and results are plain (bool, int, double, string, lists and maps of
these); a result of another type, an exception and a call that takes too long are errors of the
evaluation, like a division by zero. A call cannot be interrupted, so a function that was slow is
not called for a while.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import cleandoc
from pathlib import Path
from time import monotonic
from typing import Any

from grammar.syntax.parser import parse_expression
from grammar.tree import ast
from grammar.tree.printer import print_expression
from grammar.tree.source import Source
from grammar.tree.types import BOOL, DOUBLE, INT, STRING, Overload, Type, list_of, map_of
from grammar.values.errors import EvaluationError

GROUP = "placet.functions"
_LOG = logging.getLogger("placet.functions")
# A call that takes longer closes its function for so long, in seconds.
SLOW, CLOSED = 0.05, 60.0
# What a call counts as, unless its author says otherwise: as many comparisons.
_STEPS = 100
_LONGEST_ERROR = 200
_LONGEST_DOC = 1000
_PLAIN = {str(each): each for each in (BOOL, INT, DOUBLE, STRING)}
_PYTHON: Mapping[Type, type] = {BOOL: bool, INT: int, DOUBLE: float, STRING: str}
_INT64 = range(-(2**63), 2**63)


# The name of a function, the types of its parameters and of its result.
Signature = tuple[str, tuple[Type, ...], Type]


class SignatureError(ValueError):
    """A signature that is not one; the message says what is wrong and how one is written."""


class AddedFunction:
    """A function of the language that is written in Python; it is still called as before."""

    def __init__(self, signature: Signature, call: Callable[..., Any], steps: int) -> None:
        self.name, self.params, self.result = signature
        self.steps = steps
        self._call, self._closed_until, self._took = call, 0.0, 0.0
        self.__doc__ = call.__doc__

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)

    @property
    def overload(self) -> Overload:
        """The function as the language calls it."""
        doc = cleandoc(self.__doc__ or "")[:_LONGEST_DOC]
        types = (self.name, self.params, self.result)
        return Overload(*types, self._guarded, work=lambda *_: self.steps, doc=doc)

    def _guarded(self, *args: object) -> object:
        """The result. Raises EvaluationError for everything that goes wrong."""
        began = monotonic()
        if began < self._closed_until:
            raise EvaluationError(
                f"`{self.name}` took {self._took:.2f} s, and is called again after a minute"
            )
        try:
            found = self._call(*args)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
            raise EvaluationError(f"`{self.name}` failed: {why}") from error
        finally:
            self._took = monotonic() - began
            if self._took > SLOW:
                self._closed_until = began + self._took + CLOSED
        return self._plain(found, self.result)

    def _plain(self, value: Any, wanted: Type) -> object:
        """The value as the language holds it, if it has the type. Raises EvaluationError."""
        if wanted.name == "list" and isinstance(value, list | tuple):
            return tuple(self._plain(each, wanted.args[0]) for each in value)
        if wanted.name == "map" and isinstance(value, Mapping):
            key, of = wanted.args
            return {self._plain(k, key): self._plain(each, of) for k, each in value.items()}
        if (kind := _PYTHON.get(wanted)) is not None and type(value) is kind:
            if kind is int and value not in _INT64:
                raise EvaluationError(f"`{self.name}` gave an int of more than 64 bits")
            return value
        raise EvaluationError(f"`{self.name}` gave a {type(value).__name__} in place of {wanted}")


def function(
    signature: str, *, steps: int = _STEPS
) -> Callable[[Callable[..., Any]], AddedFunction]:
    """Makes a function of the language, as in `@function("acme.rackOf(string) string")`.

    It must be pure: the same arguments give the same result, which is kept. `steps` is what a call
    counts as in `placet check --cost`, in comparisons. Raises SignatureError.
    """
    types = parsed(signature)

    def made(call: Callable[..., Any]) -> AddedFunction:
        return AddedFunction(types, call, steps)

    return made


def parsed(signature: str) -> Signature:
    """The name, the types of the parameters and the type of the result. Raises SignatureError."""
    head, end, result = signature.strip().rpartition(") ")
    match _expression(f"{head}{end}"):
        case ast.Call(name, ast.Ident() | ast.Select() as package, args):
            types = tuple(map(_type, args))
            return f"{print_expression(package)}.{name}", types, _type(_expression(result))
        case _:
            pass
    raise SignatureError(
        f"`{signature}` is not a signature: write `acme.rackOf(string, int) string`, with the "
        "name of your package before the dot"
    )


def _expression(text: str) -> ast.Expr | None:
    return parse_expression(Source("signature", text))[0]


def _type(written: ast.Expr | None) -> Type:
    match written:
        case ast.Ident(name) if name in _PLAIN:
            return _PLAIN[name]
        case ast.Call("list", None, (item,)):
            return list_of(_type(item))
        case ast.Call("map", None, (key, value)) if _type(key) in (STRING, INT, BOOL):
            return map_of(_type(key), _type(value))
        case _:
            pass
    shown = print_expression(written) if written is not None else ""
    raise SignatureError(
        f"`{shown}` is no type of a function: they are bool, int, double, string, `list(string)` "
        "and `map(string, int)`"
    )


# ---- those of installed packages


def added_functions() -> Sequence[Overload]:
    """The functions of all installed packages, in the order of their names.

    What cannot be read is said on standard error, and left out: policies that use it say that there
    is no such function.
    """
    if not any(map(_has_functions, sys.path)):
        return ()
    # Its import takes longer than the rest of the language's.
    from importlib.metadata import entry_points  # noqa: PLC0415

    found: dict[str, Overload] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda each: each.value):
        try:
            made = point.load()
        except Exception as error:  # noqa: BLE001 - anything can go wrong in another's module
            _complain(f"the function `{point.value}` cannot be read: {error}")
            continue
        if not isinstance(made, AddedFunction):
            _complain(f"`{point.value}` is not a function: make it with `@placet.function(…)`")
        elif made.name in found:
            _complain(f"the function `{made.name}` of `{point.value}` is there already")
        else:
            found[made.name] = made.overload
    return tuple(found[name] for name in sorted(found))


def _has_functions(folder: str) -> bool:
    """Whether a package in a folder of `sys.path` may have functions."""
    try:
        lists = Path(folder or ".").glob("*.dist-info/entry_points.txt")
        return any(GROUP in each.read_text("utf-8") for each in lists)
    except (OSError, UnicodeDecodeError):
        return False


def _complain(message: str) -> None:
    _LOG.warning("warning: %s", message)

"""Fixed forms: texts that a field or a label never is, because all its values have a known form.

An image of an operating system has its version behind its name, a type of machines its size behind
its family, and a zone the name of its region. Who compares the name alone with `==` or `in` gets a
condition that is false on every node. The check looks at one expression of a policy written out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from grammar.checker.parameters import is_example
from grammar.checks.known_words import compared, unwrapped
from grammar.meaning.environment import Environment
from grammar.meaning.macro_types import inside
from grammar.meaning.schema import print_as_written
from grammar.messages.diagnostics import Diagnostic, either, write_instead
from grammar.tree import ast
from grammar.tree.printer import print_string

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_SHORT = {"zone": _ZONE, "region": _REGION}


@dataclass(frozen=True, slots=True)
class _Form:
    """`part` matches what is only a part of a value; `meant` makes the condition for it.

    `meant` gets what is read, and the text. `why` says what a value has.
    """

    part: re.Pattern[str]
    meant: Callable[[str, str], str]
    why: str


def _starts(behind: str = "") -> Callable[[str, str], str]:
    """The condition that a value begins with the text, and with what follows it."""
    return lambda read, text: f"{read}.startsWith({print_string(text + behind)})"


def _image(read: str, text: str) -> str:
    if text.islower():
        return f"{read}.lowerAscii().startsWith({print_string(text)})"
    return _starts()(read, text)


def _runtime(read: str, text: str) -> str:
    if text[0].isdigit():
        return f"{read}.contains({print_string(f'://{text}.')})"
    return f"{read}.startsWith({print_string(f'{text}://')})"


def _provider(read: str, text: str) -> str:
    if "-" in text:
        return f"{read}.endsWith({print_string(f'/{text}')})"
    return f"{read}.startsWith({print_string(f'{text}://')})"


def _family(read: str, text: str) -> str:
    return f"{read}.matches({print_string(f'^{text}[.-]')})"


# The names of regions and zones of the providers that tell one from the other.
_AREA = r"(?:us|eu|ap|sa|ca|me|af|il|mx|cn)(?:-gov|-iso[bef]?)?-[a-z]+-\d"
_CONTINENT = r"(?:us|europe|asia|australia|northamerica|southamerica|me|africa)-[a-z]+\d+"
_OF_REGION = re.compile(rf"(?:{_AREA}|{_CONTINENT})\Z")
_OF_ZONE = re.compile(rf"(?:{_AREA}[a-f]|{_CONTINENT}-[a-f])\Z")

_FIELDS: Mapping[tuple[str, str], tuple[_Form, ...]] = {
    ("Container", "image"): (
        _Form(
            re.compile(r"(?:latest|stable|v?\d+(?:\.\d+)*)\Z"),
            lambda read, text: f"{read}.endsWith({print_string(f':{text}')})",
            "has its name before the tag, as in `registry.example/web:1.4.2`",
        ),
    ),
    ("NodeSystemInfo", "osImage"): (
        _Form(
            re.compile(r"[A-Za-z][\w-]*(?: \d+(?:\.\d+)?)?\Z"),
            _image,
            "has a version behind its name, as in `Ubuntu 24.04.1 LTS`",
        ),
    ),
    ("NodeSystemInfo", "kernelVersion"): (
        _Form(
            re.compile(r"\d+(?:\.\d+)?\Z"),
            _starts("."),
            "has three numbers and mostly more, as in `6.8.0-45-generic`",
        ),
    ),
    ("NodeSystemInfo", "containerRuntimeVersion"): (
        _Form(
            re.compile(r"[a-z][a-z-]*\Z|\d+(?:\.\d+)*\Z"),
            _runtime,
            "is a runtime and its version, as in `containerd://2.0.5`",
        ),
        _Form(
            re.compile(r"[a-z-]+://\d+(?:\.\d+)?\Z"),
            _starts("."),
            "has three numbers, as in `containerd://2.0.5`",
        ),
    ),
    ("NodeSpec", "podCIDR"): (
        _Form(
            re.compile(r"[\d.]+\Z"),
            _starts("/"),
            "has a length behind its address, as in `10.244.1.0/24`",
        ),
    ),
    ("NodeSpec", "providerID"): (
        _Form(
            re.compile(r"[A-Za-z0-9-]+\Z"),
            _provider,
            "is a provider and its machine, as in `aws:///us-east-1a/i-0abc`",
        ),
    ),
}
_LABELS: Mapping[str, tuple[_Form, ...]] = {
    "node.kubernetes.io/instance-type": (
        _Form(
            re.compile(r"[a-z]+\d+[a-z]*\Z"),
            _family,
            "has a size behind its family, as in `m5.large` and `n2-standard-4`",
        ),
    ),
    "nvidia.com/gpu.product": (
        _Form(
            re.compile(r"[A-Za-z]*\d+[A-Za-z]*\Z"),
            lambda read, text: f"{read}.contains({print_string(text)})",
            "has the maker before it and mostly the memory behind, as in `NVIDIA-A100-SXM4-40GB`",
        ),
    ),
    _ZONE: (
        _Form(
            _OF_REGION,
            lambda _, text: f"node.region == {print_string(text)}",
            "is a part of a region, as in `us-east-1a` and `europe-west1-b`",
        ),
    ),
    _REGION: (
        _Form(
            _OF_ZONE,
            lambda _, text: f"node.zone == {print_string(text)}",
            "has zones in it, as `us-east-1a` is one of `us-east-1`",
        ),
    ),
}


def parts_of_values(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0356) for each comparison with a text that is only a part of any value."""
    for read, values in compared(expr, environment):
        texts = [str(each.value) for each in values]
        shown = print_as_written(read, environment.schema)
        for form in () if any(map(is_example, texts)) else _forms(unwrapped(read)):
            if not all(map(form.part.match, texts)):
                continue
            assert isinstance(expr, ast.Binary), "it compares"
            made = [form.meant(shown, text) for text in texts]
            meant = either(made, denied=expr.op == "!=")
            if expr.op == "!=" and len(made) == 1 and " == " in made[0]:
                meant = made[0].replace(" == ", " != ")
            message = f"`{shown}` is never `{texts[0]}`: it {form.why}"
            yield write_instead("P0356", message, expr.span, meant)
            return


def _forms(read: ast.Expr) -> tuple[_Form, ...]:
    """The forms of the values of what is read."""
    match read:
        case ast.Select(ast.Ident("node"), "zone" | "region" as name):
            return _LABELS[_SHORT[name]]
        case ast.Select(operand, name) if (inside(operand.type).name, name) in _FIELDS:
            return _FIELDS[inside(operand.type).name, name]
        case ast.Index(ast.Select(operand, "labels"), ast.Literal(str() as key)) if inside(
            operand.type
        ).name in ("Node", "ObjectMeta"):
            return _LABELS.get(key, ())
        case _:
            return ()

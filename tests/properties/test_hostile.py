"""Texts made to be slow or deep: refused at once, or checked and compiled in a second."""

from __future__ import annotations

import json
import time

import pytest

from tests.properties.fuzzing import Pipeline

PIPELINE = Pipeline()
# Of processor time, on a slow machine; a fast one needs one or two.
SECONDS = 10.0


def policy(*items: str) -> str:
    return "\n".join(("cluster policy p {", *items, "}"))


def require(text: str) -> str:
    return policy(f'filter "f" {{ require {text} }}')


def tower(first: str, step: str, height: int) -> str:
    """`let`s, each made of the one before it, `_`."""
    lets = (f"let a{i} = {step.replace('_', f'a{i - 1}')}" for i in range(1, height))
    return policy(f"let a0 = {first}", *lets, f'filter "f" {{ require dyn(a{height - 1}) == 1 }}')


def nested(count: int) -> str:
    opened = "".join(f"node.pods.exists(p{i}, " for i in range(count))
    return require(f"{opened}true{')' * count}")


REFUSED_BY_SCAN = {
    "brackets": "[" * 2**20,
    "parentheses": require("(" * 2**20),
    "tokens": "x " * 30_000,
    "digits": require("9" * 60_000 + " > 1"),
    "hex digits": require("0x" + "f" * 60_000 + " > 1"),
    "weight": policy(f'score "s" weight {"9" * 60_000} {{ value 1 }}'),
    "skew": policy(f'spread "s" {{ over node.zone skew at most {"9" * 60_000} strict }}'),
}
# The code that each must have; None where it is legal.
BOUNDED = {
    "comprehensions": (nested(4), "P0401"),
    "more comprehensions": (nested(40), "P0401"),
    "evil pattern": (require('node.name.matches("(a+)+$")'), None),
    "repetitions": (require('node.name.matches("a{1000}{1000}")'), "P0119"),
    "more repetitions": (require('node.name.find("((a{100}){100}){100}") == ""'), "P0119"),
    "tower": (tower("pod.priority", "_ + _", 1000), "P0011"),
    "low tower": (tower("1", "_ + _", 40), "P0401"),
    "tower of texts": (tower('"aaaaaaaa"', "_ + _", 40), "P0401"),
    "tower of lists": (tower("[1]", "[_, _]", 40), "P0401"),
    "circle": (policy(*(f"let a{i} = a{(i + 1) % 900}" for i in range(900))), "P0011"),
    "minus": (require("-" * 9_000 + "1 > 1"), "P0011"),
    "negations": (require("!" * 9_000 + "true"), "P0011"),
    "differences": (require(" - ".join(["1"] * 9_000) + " > 1"), "P0011"),
    "fields": (require("node" + ".a" * 9_000), "P0011"),
    "indexes": (require("node" + "[1]" * 5_000), "P0011"),
    "quantity": (require(f'node.free["cpu"] > "{"9" * 60_000}"'), "P0106"),
    "exponent": (require('node.free["cpu"] > "1e999999999"'), "P0106"),
    "growth": (require('"a"' + '.replace("a", "aaaaaaaaaaaaaaaaaaaaaa")' * 40 + ' == ""'), "P0401"),
    "sets": (
        require("sets.equivalent(lists.range(60000), lists.range(60000).reverse())"),
        "P0401",
    ),
    "base64": (require(f'format.byte().validate("{"a" * 50_001}").hasValue()'), None),
    "labels of a domain": (
        require(f'format.dns1123Subdomain().validate("{"a-" * 25_000}").hasValue()'),
        None,
    ),
    "escapes of a URL": (require(f'url("/{"é" * 20_000}").getEscapedPath() == ""'), None),
    "parameters of a URL": (require(f'url("/?{"a&" * 25_000}").getQuery() == {{}}'), None),
    "precision": (require('"%.999999999f".format([1.0]) == ""'), "P0151"),
    "alternatives": (require(" || ".join(f'node.name == "a{i}"' for i in range(2_000))), None),
    "unknown names": (
        policy(
            *(f"let verylongname{i:04}x = 1" for i in range(1_000)),
            f'filter "f" {{ require {" && ".join(f"verylongnamf{i:04}y" for i in range(900))} }}',
        ),
        "P0101",
    ),
    "value of a parameter": (
        (
            f"cluster policy p (l: list(string) = {json.dumps([f'a{i}' for i in range(32)])}) {{"
            f' filter "f" {{ require {" || ".join(["pod.name in l"] * 300)} }} }}'
        ),
        None,
    ),
    "parameters": (
        (
            f"cluster policy p ({', '.join(f'p{i}: int = {i}' for i in range(900))}) {{ filter"
            f' "f" {{ require {" || ".join(f"pod.priority == p{i}" for i in range(900))} }} }}'
        ),
        None,
    ),
    "holes": (policy(f'filter "f" {{ require true message "{"{pod.name}" * 3_000}" }}'), None),
}


@pytest.mark.parametrize("name", REFUSED_BY_SCAN)
def test_refused_unread(name: str) -> None:
    started = time.process_time()
    found = PIPELINE.run(REFUSED_BY_SCAN[name]).diagnostics
    assert time.process_time() - started < 1  # 0.05 on a quiet machine
    assert [d.code for d in found] in (["P0004"], ["P0010"], ["P0011"])


# Each takes more than a second; others of their kind are fast.
_LARGE = ("alternatives", "holes", "value of a parameter")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.thorough) if name in _LARGE else name
        for name in BOUNDED
    ],
)
def test_bounded(name: str) -> None:
    text, code = BOUNDED[name]
    started = time.process_time()
    found = PIPELINE.run(text).diagnostics
    assert time.process_time() - started < SECONDS
    codes = {d.code for d in found if d.severity == "error"}
    assert codes == ({code} if code else set())

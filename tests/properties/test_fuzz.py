"""Only diagnostics come out of the language, whatever goes in."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties import strategies
from tests.properties.fuzzing import Pipeline
from tests.support.books import examples

PIPELINE = Pipeline()
GRAMMAR = files("grammar.syntax").joinpath("policy.lark").read_text(encoding="utf-8")
WORDS = sorted(set(re.findall(r"^[A-Z]+\.5: /([a-z]+)", GRAMMAR, re.MULTILINE)))
SIGNS = "{ } ( ) [ ] , : . .. ? ! + - * / % < <= == != && || = .? [?".split()
TOKENS = [
    *WORDS,
    *SIGNS,
    *'"a" "1Gi" "{pod.name}" "{" 1 0 100 2.5 5u 50% -1 0x10 1e3 b"x" `a`'.split(),
    *"pod node peer labels free exists matches has size name x a enforce fail # \n and not".split(),
]
SECONDS = 2.0  # many times what a text takes on a quiet machine
soup = st.lists(st.sampled_from(TOKENS), max_size=40).map(" ".join)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A policy with some of its characters left out, doubled, swapped or made others."""
    text = draw(strategies.policies())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        end = min(len(text), at + draw(st.integers(0, 12)))
        new = draw(st.one_of(st.sampled_from(TOKENS), st.text(max_size=3), st.just(text[at:end])))
        text = text[:at] + new + text[draw(st.sampled_from((at, end))) :]
    return text


def survives(text: str) -> None:
    started = time.monotonic()
    PIPELINE.run(text)
    assert time.monotonic() - started < SECONDS


@settings(max_examples=examples(150), deadline=None)
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    survives(text)


@settings(max_examples=examples(150), deadline=None)
@given(soup)
def test_words_of_the_language(text: str) -> None:
    survives(text)
    survives(f'cluster policy p {{ filter "f" {{ require {text} }} }}')


@settings(max_examples=examples(150), deadline=None)
@given(mutated())
def test_policies_that_went_wrong(text: str) -> None:
    survives(text)


@pytest.mark.process
def test_atheris_target_says_what_it_needs() -> None:
    """Without atheris it ends with one line; with it, after some runs."""
    target = Path(__file__).with_name("fuzz_language.py")
    done = subprocess.run(
        [sys.executable, target, "-runs=20"], capture_output=True, text=True, check=False
    )
    if done.returncode == 2:
        assert done.stderr == "atheris is not installed: `pip install atheris` first\n"
    else:
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", ["\0", "\ud800", "\ufeff", "policy", "\\", '"{', "{{{", "r'''"])
def test_texts_that_are_hardly_any(text: str) -> None:
    survives(text)


# ---- texts made to be slow or deep: refused at once, or checked and compiled in a second


# Of processor time, on a slow machine; a fast one needs one or two.
HOSTILE_SECONDS = 10.0


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
    assert time.process_time() - started < HOSTILE_SECONDS
    codes = {d.code for d in found if d.severity == "error"}
    assert codes == ({code} if code else set())

"""Only diagnostics come out of the language, whatever goes in."""

from __future__ import annotations

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
from tests.support.examples import examples

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

"""Own texts: whatever Placet answers by itself begins with `placet: `, wherever it is raised."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.errors import EngineError, WaitedInVainError, own_text, own_words
from server.errors import RequestError, failure_of

ROOT = Path(__file__).parents[2]
VERDICTS = {"Rejected", "Failed"}
ENCODERS = {"encode_filter_error", "encode_binding"}
# The beginning of the texts that name a policy in place of the words of its author.
OF_POLICY = "policy "


def every(base: type[Exception]) -> Iterator[type[Exception]]:
    yield base
    for each in base.__subclasses__():
        yield from every(each)


ERRORS = {each.__name__: each for base in (EngineError, RequestError) for each in every(base)}


@dataclass(frozen=True)
class Site:
    """A place where an answer is made: what is called there, and how its text begins.

    The beginning is None where it is no literal. A text of `own_text` begins with the mark.
    """

    place: str
    made: str
    begins: str | None
    of_clause: bool


def sites(*names: str) -> list[Site]:
    found = []
    for path in sorted(
        path for name in ("engine", "server") for path in (ROOT / name).rglob("*.py")
    ):
        tree = ast.parse(path.read_bytes())
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                made = (
                    node.func.id
                    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                    else ""
                )
                if isinstance(node, ast.Call) and made in names and node.args:
                    flags = {each.arg: ast.unparse(each.value) for each in node.keywords}
                    found.append(
                        Site(
                            f"{path.relative_to(ROOT)}:{node.lineno}",
                            made,
                            beginning(node.args[0], function, tree),
                            flags.get("of_clause") == "True",
                        )
                    )
    return found


def beginning(text: ast.expr, *scopes: ast.AST) -> str | None:
    """How a text begins, if that is a literal; a name stands for what is assigned to it."""
    match text:
        case ast.Constant(value=str(words)):
            return words
        case ast.JoinedStr(values=[ast.Constant(value=str(words)), *_]):
            return words
        case ast.Call(func=ast.Name(id="own_text")):
            return own_text("")
        case ast.Call(func=ast.Name(id="cut" | "shown"), args=[words, *_]):
            return beginning(words, *scopes)
        case ast.Name(id=name):
            for scope in scopes:
                for node in ast.walk(scope):
                    match node:
                        case ast.Assign(targets=[ast.Name(id=known)], value=value) if known == name:
                            return beginning(value, *scopes)
                        case _:
                            pass
        case _:
            pass
    return None


def error_of(kind: type[Exception]) -> Exception:
    """An error of this kind, whatever its own constructor takes."""
    error = kind.__new__(kind)
    if isinstance(error, EngineError):
        EngineError.__init__(error, "the words")
        return error
    return RequestError("the words")


def test_each_error_is_answered_in_the_words_of_placet_or_of_a_clause() -> None:
    """An error of a clause begins with what a policy says; any other one gets the mark.

    The text of an answer is that of a failure, none, or marked.
    """
    of_clauses = others = 0
    marked = (OF_POLICY, own_text(""))
    for site in sites(*ERRORS, *VERDICTS, *ENCODERS):
        kind = ERRORS.get(site.made)
        if site.made in ENCODERS:
            assert site.begins in (None, "", own_text("")), site
        elif kind is None or site.of_clause or kind is WaitedInVainError:
            of_clauses += kind is not None
            assert site.begins is None or site.begins.startswith(marked), site
        else:
            others += 1
            assert failure_of(error_of(kind)).text == own_text("the words"), site
            assert not (site.begins or "").startswith(own_text("")), f"the mark twice: {site}"
    assert of_clauses >= 12
    assert others >= 50


@pytest.mark.parametrize(
    "error", [KeyError("a secret"), EngineError(), EngineError(of_clause=True)]
)
def test_an_answer_without_words_is_marked_too(error: Exception) -> None:
    assert own_words(failure_of(error).text) in (
        "internal error: see the log of Placet",
        "no reason is given",
    )


def test_the_words_of_a_clause_stay_as_they_are() -> None:
    assert failure_of(EngineError("two per node", of_clause=True)).text == "two per node"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("placet: the pod is gone", "the pod is gone"),
        ("binding rejected: placet: the pod is gone", "the pod is gone"),
        ("", ""),
        ("the pod is gone", ""),
        ('Post "http://placet:12345/filter": no such host', ""),
        ("label it for placet: yes", ""),
    ],
)
def test_own_words_are_found_in_what_kube_scheduler_says(said: str, words: str) -> None:
    assert own_words(said) == words


@pytest.mark.parametrize(
    "text",
    [
        "`somebody-else` is the leader and is asked to hand over",
        "the Lease is new or was edited, so no replica is the leader for 15 s",
        "this replica is taking the Lease",
        "this replica has just become the leader and is listing pods",
        "cannot hold the Lease: `https://10.0.0.1:443` sent nothing for 5 s",
        "waiting until ReplicaSet web-5c of the pod is known",
        "waiting for in-flight pods: shop/web: zones",
        "the pod was not bound to the offered node; retrying",
        "policy shop/web gives cards at bind: serve with `--bind`",
        "the decision took longer than the request may",
        "the request's time is over",
        "not synced: waiting for policies before serving",
        "no cluster view: start placet serve without --no-cluster",
        "node not yet known",
    ],
)
def test_a_condition_from_before_the_mark_is_known(text: str) -> None:
    """It stays until kube-scheduler asks about the pod again."""
    assert own_words(text) == text
    assert own_words(f"another extender: {text}") == ""

"""Texts and what is made of them: formats, literals, names, versions and sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from grammar.clauses.reading import parse_int, unquote
from grammar.tree.types import BOOL, DOUBLE, DYN, INT, STRING, Type, list_of, optional_of
from grammar.values.errors import EvaluationError, StepLimitError
from grammar.values.format import format_text, refused
from grammar.values.object_names import is_label, is_label_value, is_qualified, is_subdomain
from grammar.values.strings import number
from tests.grammar.expressions import value


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("%s %d %f %e %b %o %x %X", [STRING, INT, DOUBLE, INT, BOOL, INT, STRING, INT]),
        ("100%% %s", [list_of(DOUBLE)]),
        ("%d %.2f", [DYN, DYN]),
        ("none", []),
    ],
)
def test_values_that_fit(text: str, kinds: list[Type]) -> None:
    assert refused(text, kinds) is None


@pytest.mark.parametrize(
    ("text", "kinds", "reason", "place"),
    [
        ("%.2f", [list_of(DOUBLE)], "`%.2f` does not accept a list(double)", 0),
        ("%s %d", [STRING, STRING], "`%d` does not accept a string", 1),
        ("%s", [optional_of(INT)], "`%s` does not accept an optional(int)", 0),
        ("%s %s", [STRING], "there is no value for `%s`", None),
        ("%s", [STRING, INT], "no clause of the text shows this value", 1),
        ("%q", [STRING], "`%q` is not a formatting clause", None),
        ("%.99999f", [DOUBLE], "the precision is more than 1,100 digits", None),
    ],
)
def test_values_that_do_not_fit(
    text: str, kinds: list[Type], reason: str, place: int | None
) -> None:
    assert refused(text, kinds) == (reason, place)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.0, "1"),
        (1e6, "1e+06"),
        (0.00001, "1e-05"),
        (999999.0, "999999"),
        (float("inf"), "Infinity"),
        ((1e6,), "[1000000]"),
    ],
)
def test_a_double_is_shown_as_its_string(value: object, shown: str) -> None:
    assert format_text("%s", (value,)) == shown


# ---- literals: the values that their texts stand for


STRINGS = {
    '""': "",
    "'a\"b'": 'a"b',
    '"a\'b"': "a'b",
    r'"\a\b\f\n\r\t\v\\\?\"\'\`"': "\a\b\f\n\r\t\v\\?\"'`",
    r"'\x41\X42\u0043\U00000044\105'": "ABCDE",
    r"'\377'": "ÿ",
    r"r'\n'": r"\n",
    r'R"\\"': r"\\",
    "'''a'b\nc'''": "a'b\nc",
    r'"""\""""': '"',
    r"r'''\'''": "\\",
    r"'\U0001f431'": "🐱",
}


@pytest.mark.parametrize(("token", "text"), STRINGS.items())
def test_strings(token: str, text: str) -> None:
    assert unquote(token) == text


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (r"'\q'", r"`\q` is not an escape sequence"),
        (r"'\8'", r"`\8` is not an escape sequence"),
        (r"'\400'", r"`\4` is not an escape sequence"),
        (r"'\x4'", r"`\x` is not an escape sequence"),
        (r"'\ud800'", r"`\ud800` is not a character"),
        (r"'\U00110000'", r"`\U00110000` is not a character"),
    ],
)
def test_what_is_no_escape(token: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^`") as failure:
        unquote(token)
    assert str(failure.value) == message


def test_numbers() -> None:
    """The range of an int is told by the parser, which knows its sign."""
    assert (parse_int("007"), parse_int("0xFF"), parse_int("0")) == (7, 255, 0)
    assert parse_int("9223372036854775808") == 2**63
    assert parse_int("0" * 5000 + "7") == 7
    assert parse_int("1" * 5000) > 2**63


# ---- names of objects: which texts the API server accepts


@pytest.mark.parametrize(
    ("check", "right", "wrong"),
    [
        (
            is_label,
            ("a", "a-b", "1a", "a" * 63),
            ("", "a.b", "A", "-a", "a-", "a" * 64, "a\n", "é"),
        ),
        (is_subdomain, ("a.b-c.1", "a" * 253), ("", "a..b", ".a", "a" * 254)),
        (is_qualified, ("A_b.c", "example.com/Tier"), ("", "/a", "a/", "a/b/c", "-a", "A.com/b")),
        (is_label_value, ("", "A.b_c-1"), ("-", "a b", "a" * 64)),
    ],
)
def test_names(check: Callable[[str], bool], right: Sequence[str], wrong: Sequence[str]) -> None:
    assert [check(text) for text in right] == [True] * len(right)
    assert [check(text) for text in wrong] == [False] * len(wrong)


# ---- functions of texts beyond those of the CEL conformance suite


def test_chance_is_the_same_everywhere() -> None:
    # The sum of a published test of the algorithm is not needed: other machines must agree.
    assert number("web-1", "node-1") == number("web-1", "node-1")
    assert number("ab", "c") != number("a", "bc")
    found = [number("pod", str(each)) for each in range(1000)]
    assert len(set(found)) == 1000
    assert 0.4 < sum(each > 2**31 for each in found) / 1000 < 0.6


# ---- versions of Kubernetes: the suffixes of providers are left out, its own pre-releases are not


SHOWN = {
    "v1.36.2": "1.36.2",
    "1.36.2": "1.36.2",
    "v1.31.4-gke.1372000": "1.31.4",
    "v1.30.2-eks-1552ad0": "1.30.2",
    "v1.29.3+k3s1": "1.29.3",
    "v1.28.6+rke2r1": "1.28.6",
    "v1.30.1-aliyun.1": "1.30.1",
    "v1.27.12-tke.5_2": "1.27.12",
    "v1.32.0-rc.1": "1.32.0-rc.1",
    "v1.32.0-rc.1+k3s1": "1.32.0-rc.1",
    "v1.32.0-rc.1.gke.5": "1.32.0-rc.1",
    "v1.33.0-alpha.0.17+4d1e4d1a": "1.33.0-alpha.0.17",
    "v1.32.0-beta": "1.32.0-beta",
    "v1.32.0-rcx.1": "1.32.0",
    "v1.36": "1.36.0",
    "v1.27+": "1.27.0",
}
FAILS = ["", "v1", "soon", "v1.x.2", "v01.2.3", "v1.2.3.4 ", "v1.31.4/gke", "v" + "1" * 300]


@pytest.mark.parametrize(("text", "shown"), SHOWN.items())
def test_version_is_that_of_kubernetes(text: str, shown: str) -> None:
    assert value(f'string(kubernetesVersion("{text}"))') == shown


@pytest.mark.parametrize("text", FAILS)
def test_other_texts_are_no_versions(text: str) -> None:
    with pytest.raises(EvaluationError, match="is not a version of Kubernetes"):
        value(f'kubernetesVersion("{text}")')


# ---- sets: lists compared without order and number


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("sets.contains([], [])", True),
        ("sets.contains([], [1])", False),
        ("sets.contains([1, 2, 3, 4], [2, 3])", True),
        ("sets.contains([1, 2.0, 3], [1.0, 2, 3])", True),
        ("sets.equivalent([], [])", True),
        ("sets.equivalent([1], [1, 1])", True),
        ("sets.equivalent([1], [1, 2])", False),
        ("sets.equivalent([1, 2, 3], [3, 2.0, 1])", True),
        ("sets.intersects([1], [])", False),
        ("sets.intersects([1], [1, 2])", True),
        ("sets.intersects([[1], [2, 3]], [[1, 2], [2, 3.0]])", True),
    ],
)
def test_cases_of_cel_go(text: str, wanted: bool) -> None:
    assert value(text) is wanted


def test_large_sets_take_steps() -> None:
    with pytest.raises(StepLimitError):
        value("sets.equivalent(lists.range(2000), lists.range(2000).reverse())")

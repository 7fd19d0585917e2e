"""Semver: semantic versions of Kubernetes' CEL library; a leading `v` is dropped.

`kubernetesVersion` reads the versions of kubelets and API servers. Providers put a suffix behind
them, as in `v1.31.4-gke.1372000`, which semver takes for a version before 1.31.4.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from operator import ge, gt, le, lt

from grammar.tree.types import BOOL, INT, SEMVER, STRING, Overload, function, member
from grammar.values.errors import EvaluationError, has_value
from grammar.values.sizes import PARSED, parsed, quoted

_NUMBER = r"(0|[1-9]\d{0,17})"
_VERSION = re.compile(
    rf"v?{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?\Z", re.ASCII
)
_KUBERNETES = re.compile(
    rf"v?{_NUMBER}\.{_NUMBER}(?:\.{_NUMBER})?(?:-((?:alpha|beta|rc)(?:\.\d{{1,18}})*))?"
    r"(?:[-+.][0-9A-Za-z.+_-]*)?\Z",
    re.ASCII,
)
_LOOSE = re.compile(r"v?0*(\d{1,18})(?:\.0*(\d{1,18}))?(?:\.0*(\d{1,18}))?([-+].*)?\Z", re.ASCII)


@functools.total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A semver; the build after `+` does not count for order or equality (semver.org §10)."""

    major: int
    minor: int
    patch: int
    pre: tuple[str, ...] = ()
    build: str = ""

    @staticmethod
    @functools.lru_cache(maxsize=4096)
    def parse(text: str) -> Semver:
        """The version of a text. Raises EvaluationError, whose message is a hint."""
        match = _VERSION.match(text) if len(text) <= PARSED else None
        pre = tuple(match[4].split(".")) if match and match[4] else ()
        bad = any(not p or (p.isdigit() and len(p) > 1 and p[0] == "0") for p in pre)
        if match is None or bad or (match[5] and "" in match[5].split(".")):
            raise EvaluationError('write all three numbers: `"1.33.0"`')
        return Semver(int(match[1]), int(match[2]), int(match[3]), pre, match[5] or "")

    @property
    def precedence(self) -> tuple[object, ...]:
        """The sort key: a pre-release comes before its release, and numbers before words."""
        pre = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in self.pre)
        return (self.major, self.minor, self.patch, not self.pre, pre)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.precedence == other.precedence

    def __lt__(self, other: Semver) -> bool:
        return self.precedence < other.precedence

    def __hash__(self) -> int:
        return hash(self.precedence)

    def __str__(self) -> str:
        pre = f"-{'.'.join(self.pre)}" if self.pre else ""
        return (
            f"{self.major}.{self.minor}.{self.patch}{pre}{f'+{self.build}' if self.build else ''}"
        )


def normalized(text: str, tolerant: bool) -> Semver:
    """The version of a text; if `tolerant`, without minor, without patch or with leading zeros."""
    if tolerant and len(text) <= PARSED and (match := _LOOSE.match(text)):
        if match[3] is None and match[4]:
            raise EvaluationError("a short version has no `-` and no `+`")
        numbers = ".".join(str(int(n or 0)) for n in match.groups()[:3])
        return Semver.parse(numbers + (match[4] or ""))
    return Semver.parse(text)


@functools.lru_cache(maxsize=4096)
def kubernetes_version(text: str) -> Semver:
    """The version of Kubernetes in a text, without the suffix of a provider.

    The pre-releases of Kubernetes itself, `alpha`, `beta` and `rc`, are kept. Raises
    EvaluationError.
    """
    match = _KUBERNETES.match(text) if len(text) <= PARSED else None
    if match is None:
        raise EvaluationError(f"{quoted(text)} is not a version of Kubernetes")
    pre = f"-{match[4]}" if match[4] else ""
    return Semver.parse(f"{match[1]}.{match[2]}.{match[3] or 0}{pre}")


def _parsed(text: object, _: object) -> int:
    return parsed(text)


OVERLOADS: tuple[Overload, ...] = (
    function("semver", (STRING,), SEMVER, Semver.parse, parsed),
    function("semver", (STRING, BOOL), SEMVER, normalized, _parsed),
    function("kubernetesVersion", (STRING,), SEMVER, kubernetes_version, parsed),
    function("isSemver", (STRING,), BOOL, has_value(Semver.parse), parsed),
    function("isSemver", (STRING, BOOL), BOOL, has_value(normalized), _parsed),
    function("string", (SEMVER,), STRING, str),
    *(
        function(op, (SEMVER, SEMVER), BOOL, c)
        for op, c in (("<", lt), ("<=", le), (">", gt), (">=", ge))
    ),
    member("isLessThan", (SEMVER, SEMVER), BOOL, lt),
    member("isGreaterThan", (SEMVER, SEMVER), BOOL, gt),
    member("compareTo", (SEMVER, SEMVER), INT, lambda a, b: (a > b) - (a < b)),
    member("major", (SEMVER,), INT, lambda v: v.major),
    member("minor", (SEMVER,), INT, lambda v: v.minor),
    member("patch", (SEMVER,), INT, lambda v: v.patch),
)

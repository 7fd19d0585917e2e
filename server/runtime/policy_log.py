"""PolicyLog: what a server logs about its policies: each thing when it becomes true, and not again.

It belongs to the policies of a running server and lives as long. Texts of policies come from many
users: a line has a bounded length and no control characters, and lines have a bounded rate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from logging import ERROR, WARNING, Logger

from engine.cluster.client import TokenBucket
from grammar.messages.diagnostics import Diagnostic, plain
from grammar.messages.texts import shown
from grammar.tree.source import Source
from policies.loader import UnreadFile
from policies.validation import CheckedFile, InForce, Validation

# The findings of one policy that are logged; `placet check` and the object's status have more.
MOST_FINDINGS = 10
MOST_TEXT = 1024
# A start logs everything at once; later, edits alone make lines.
_PER_SECOND, BURST = 5.0, 1000

# A file, and the number of a policy in it; without a number, the text of the file itself.
_Part = tuple[str, int | None]
# What is compared of a diagnostic: with its distance from the start of its policy, so that an edit
# of another policy in the same file does not change it.
_Finding = tuple[str, str, str, str | None, int]


class PolicyLog:
    """Logs the findings of a policy when they change, and which policies are enforced."""

    def __init__(self, log: Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._bucket = TokenBucket(_PER_SECOND, BURST, clock)
        self._left_out = 0
        self._findings: Mapping[_Part, Sequence[_Finding]] = {}
        self._states: frozenset[str] = frozenset()
        self._count = -1

    def read(
        self, problems: Sequence[UnreadFile], validation: Validation, in_force: InForce
    ) -> None:
        """The policies have been read again, with these results."""
        self._tell_states([f"{each.message} ({each.hint})" for each in problems], _kept(in_force))
        findings: dict[_Part, Sequence[_Finding]] = {}
        for file in validation.files:
            for part, start, diagnostics in _parts(file):
                findings[part] = [_finding(each, start) for each in diagnostics]
                if findings[part] != self._findings.get(part):
                    self._tell_findings(diagnostics, file.source)
        self._findings = findings
        count = len(in_force.active)
        if count != self._count:
            self._log.info("%d %s enforced", count, "policy" if count == 1 else "policies")
        self._count = count

    def _tell_states(self, *states: Sequence[str]) -> None:
        texts = [text for some in states for text in some]
        for text in texts:
            if text not in self._states:
                self._write(ERROR, text)
        self._states = frozenset(texts)

    def _tell_findings(self, diagnostics: Sequence[Diagnostic], source: Source) -> None:
        # Errors first, because they are what keeps a policy from being enforced.
        ordered = sorted(diagnostics, key=lambda found: found.severity != "error")
        for found in ordered[:MOST_FINDINGS]:
            self._write(ERROR if found.severity == "error" else WARNING, plain(found, source))
        if more := ordered[MOST_FINDINGS:]:
            word = "finding" if len(more) == 1 else "findings"
            self._write(WARNING, f"{source.name}: {len(more):,} more {word}")

    def _write(self, level: int, text: str) -> None:
        if not self._bucket.try_take():
            self._left_out += 1
            return
        if self._left_out:
            missing = "%d lines about policies were left out, because too many came at once"
            self._log.warning(missing, self._left_out)
            self._left_out = 0
        self._log.log(level, "%s", shown(text, MOST_TEXT))


def _kept(in_force: InForce) -> list[str]:
    """What is enforced instead of policies with errors."""
    stale = (each.checked.policy.address for each in in_force.stale)
    return [
        *(f"policy {address}: the last valid version stays enforced" for address in stale),
        *(
            f"policy {address} is not enforced: no valid version loaded yet"
            for address in in_force.idle
        ),
    ]


def _parts(file: CheckedFile) -> Iterator[tuple[_Part, int, Sequence[Diagnostic]]]:
    """The text of the file and each policy in it, with their start and their diagnostics."""
    name = file.source.name
    if file.unread:
        yield (name, None), 0, file.unread
    for number, checked in enumerate(file.policies):
        if checked.diagnostics:
            yield (name, number), checked.policy.span.start, checked.diagnostics


def _finding(found: Diagnostic, start: int) -> _Finding:
    return found.code, found.severity, found.message, found.hint, found.span.start - start

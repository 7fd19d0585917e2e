"""Repair: how a policy may have pods evicted that break its clauses where they are.

It is the value of the setting `repair`; its text is the canonical one. The rules of
`grammar.tree.ast` hold.
"""

from __future__ import annotations

from dataclasses import dataclass

MINUTES_OF_DAY = 24 * 60
# The most evictions of a minute, and moves at once, of one policy.
MOST_REPAIRS = 1000


@dataclass(frozen=True, slots=True)
class Repair:
    """At most so many evictions `per_minute`, and `at_once` pods that are on their way.

    With `local_data` pods lose what is on their node. Between two minutes of the day in UTC,
    `begins` and `ends`, pods are evicted, at any time where these are equal.
    """

    per_minute: int
    at_once: int = 1
    local_data: bool = False
    begins: int = 0
    ends: int = 0

    def __str__(self) -> str:
        once = f", {self.at_once} at once" if self.at_once != 1 else ""
        data = " local data" if self.local_data else ""
        window = ""
        if self.begins != self.ends:
            window = f' between "{time_of(self.begins)}" and "{time_of(self.ends)}"'
        return f"at most {self.per_minute} per minute{once}{data}{window}"

    def allows(self, minute: int) -> bool:
        """Whether pods are evicted in a minute of the day; a window may go over midnight."""
        if self.begins == self.ends:
            return True
        return (minute - self.begins) % MINUTES_OF_DAY < (self.ends - self.begins) % MINUTES_OF_DAY


def time_of(minute: int) -> str:
    """A minute of the day, as in `06:30`."""
    return f"{minute // 60:02}:{minute % 60:02}"


def minute_of(text: str) -> int | None:
    """The minute of a time such as `06:30`; None for another text."""
    hours, colon, minutes = text.partition(":")
    if not colon or not (len(hours) == len(minutes) == 2) or not (hours + minutes).isdecimal():
        return None
    if not text.isascii() or int(hours) > 23 or int(minutes) > 59:
        return None
    return int(hours) * 60 + int(minutes)

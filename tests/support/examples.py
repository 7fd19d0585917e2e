"""Numbers of examples and of random worlds: all of them, or a part, as the hypothesis profile says.

`make test` runs a twelfth, by the profile `quick`; `make thorough` runs all, by `thorough`.
"""

from __future__ import annotations

from hypothesis import settings

QUICK, THOROUGH = "quick", "thorough"


def register_profiles() -> None:
    """Makes `quick` the profile, unless `--hypothesis-profile` names the other one."""
    # How long an example takes says something of the machine.
    settings.register_profile(QUICK, max_examples=8, deadline=None)
    settings.register_profile(THOROUGH, max_examples=100, deadline=None)
    settings.load_profile(QUICK)


def examples(number: int) -> int:
    """The part of so many that runs; the number is that of `make thorough`."""
    return max(1, number * settings().max_examples // 100)

"""Questions and answers about drafts: a policy that is not in force is checked, or tried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from server.policy_answers import Problem

MOST_TEXT = 256 * 1024


class Session(msgspec.Struct, frozen=True):
    """The replica, and the token that requests with a draft need; each start makes another one."""

    replica: str
    token: str


class Draft(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text of policies, as in a file; the `name` of a manifest ends in `.yaml`."""

    text: Annotated[str, Meta(max_length=MOST_TEXT)]
    name: Annotated[str, Meta(max_length=253)] = "draft.policy"


class CheckedDraft(msgspec.Struct, frozen=True):
    """What `placet check` says of a draft."""

    diagnostics: Sequence[Problem]

"""Questions and answers about drafts: a policy that is not in force is checked, or tried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from policies.editor.completion import Candidate
from server.answers.policy_answers import Problem

MOST_TEXT = 256 * 1024
MOST_CLUSTER = 4 * 1024 * 1024


class DraftSession(msgspec.Struct, frozen=True):
    """The replica, and the token that requests with a draft need; each start makes another one."""

    replica: str
    token: str


class DraftText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text of policies, as in a file; the `name` of a manifest ends in `.yaml`."""

    text: Annotated[str, Meta(max_length=MOST_TEXT)]
    name: Annotated[str, Meta(max_length=253)] = "draft.policy"


class CheckedDraft(msgspec.Struct, frozen=True):
    """What `placet check` says of a draft."""

    diagnostics: Sequence[Problem]


class Point(DraftText, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A draft, and a place in it: `offset` counts the characters before it."""

    offset: Annotated[int, Meta(ge=0, le=MOST_TEXT)]


class CompletedDraft(msgspec.Struct, frozen=True):
    """What can stand at a place: each takes the place of the text from its `start` on."""

    candidates: Sequence[Candidate]


class DescribedName(msgspec.Struct, frozen=True):
    """What the name at a place stands for; null and nothing where there is none."""

    heading: str | None
    about: Sequence[str]


class Trial(DraftText, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A draft, and the cluster to try it on: the content of a cluster file, in YAML or JSON.

    Without one it is tried on the cluster of the server, as it is now.
    """

    cluster: Annotated[str, Meta(max_length=MOST_CLUSTER)] | None = None


class ChangedPod(msgspec.Struct, frozen=True):
    """A pod whose answer changes. `before` and `after` are the numbers of nodes that pass.

    `admits` and `rejects` are the nodes whose verdict changes, at most 20 of each. The best node is
    that with most points, the first by name of several; none if all have the same. An `error`
    says why there is no decision with the draft.
    """

    pod: str
    before: int
    after: int
    admits: Sequence[str]
    rejects: Sequence[str]
    bestBefore: str | None
    bestAfter: str | None
    error: str | None


class TriedDraft(msgspec.Struct, frozen=True):
    """What changes if the policies of a draft replace those of the same address, or join them.

    Nothing is tried if there are errors. The cluster has so many `nodes` and `pods`; so many pods
    were `asked` about, those without a node first.
    """

    diagnostics: Sequence[Problem]
    nodes: int
    pods: int
    asked: int
    changed: Sequence[ChangedPod]

"""Requirements: what policies need of a kube-scheduler configuration, and what a cluster does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli.doctor.generator import VERBS
from cli.world import in_force, read_policies
from engine.enforced import PolicyNotInForce
from engine.objects.api_types import mapping
from engine.objects.gate import ENABLED, GATE, OPT_IN, STRICT
from grammar.meaning.schema import load_schema
from grammar.tree.clause_parts import SchedulerNeed

Json = dict[str, Any]
NO_OBJECTS: Mapping[str, bytes] = {}


@dataclass(frozen=True, slots=True)
class SchedulerRequirements:
    """Requirements of policies: the clauses that need more than a `filterVerb`, as `policy/clause`.

    `cards` give pods cards when they are bound, and `waiting` hold bindings: for `longest_wait`
    seconds at most. `words` has all clauses by the word of their kind, and `scores` the bounds that
    are preferences. `namespaces` are those of policies, and `portable` the policies to tell to
    others. `is_whole` says that these are all policies: a cluster does not have those in files of a
    server. `broken` are those that are not in force as they are written.
    """

    strict: tuple[str, ...] = ()
    at_bind: tuple[str, ...] = ()
    cards: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    longest_wait: float = 0.0
    scores: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    portable: tuple[str, ...] = ()
    is_whole: bool = True
    broken: Sequence[PolicyNotInForce] = ()

    @property
    def verbs(self) -> tuple[str, ...]:
        """The verbs without which a clause has no effect, and `preempt`, in the order of VERBS."""
        needs = {"prioritize": self.scores, "bind": (*self.cards, *self.waiting)}
        return tuple(verb for verb in VERBS if needs.get(verb, True))

    def bind_timeout(self, http_timeout: float) -> float:
        """The `httpTimeout` in seconds that bind needs; 0 if no binding waits.

        `http_timeout` is that of `placet serve`, in which it creates a binding after the wait.
        """
        return self.longest_wait + http_timeout if self.waiting else 0.0


@dataclass(frozen=True, slots=True)
class Marking:
    """Marking of new pods: `by` are the objects that do it, `namespaces` those that opt in.

    `tells` says that new pods get what portable policies say: one of these is the webhook.
    """

    by: tuple[str, ...]
    namespaces: frozenset[str]
    tells: bool = False

    @classmethod
    def of(cls, objects: Sequence[Json], namespaces: Sequence[Json]) -> Marking:
        """From MutatingWebhookConfigurations, MutatingAdmissionPolicies and their bindings."""
        bound = {
            each["spec"].get("policyName")
            for each in objects
            if each["kind"] == "MutatingAdmissionPolicyBinding"
        }
        marking = [each for each in objects if _marks(each, bound)]
        by = (f"{each['kind']} {each['metadata']['name']}" for each in marking)
        tells = any(each["kind"] == "MutatingWebhookConfiguration" for each in marking)
        labels = ((each["metadata"]["name"], each["metadata"].get("labels")) for each in namespaces)
        inside = (name for name, found in labels if (found or {}).get(OPT_IN) in (ENABLED, STRICT))
        return cls(tuple(by), frozenset(inside), tells)


def _marks(found: Json, bound: set[str]) -> bool:
    if found["kind"] == "MutatingAdmissionPolicy":
        text = json.dumps(found["spec"].get("mutations"))
        return GATE in text and found["metadata"]["name"] in bound
    clients = [each["clientConfig"] for each in found.get("webhooks") or ()]
    paths = (
        client.get("url") or mapping(client, "service").get("path") or "" for client in clients
    )
    return any(path.endswith("/admission/gate") for path in paths)


def read_requirements(
    paths: Sequence[Path] | None, objects: Mapping[str, bytes] = NO_OBJECTS
) -> SchedulerRequirements:
    """The requirements of the policies in files and folders, and of those in a cluster.

    `objects` are the policy objects by `resource/key`; of these, policies with errors count for
    nothing, as they do there. Raises CommandError for policies in files with errors.
    """
    schema = load_schema()
    of_objects = in_force((), objects, schema)
    found = [*of_objects.in_force.policies]
    if paths is not None:
        found += read_policies(paths, schema).validation.policies
    policies = [policy.policy for policy in found]
    clauses = [
        (f"{policy.policy.address}/{clause.name}", clause)
        for policy in found
        if policy.policy.setting("mode", "enforce") != "audit"
        for part in (policy, *policy.uses)
        for clause in part.policy.clauses
    ]

    def needing(need: SchedulerNeed) -> tuple[str, ...]:
        return tuple(name for name, clause in clauses if need in clause.scheduler_needs)

    kinds = {c.keyword for _, c in clauses}
    words = {word: [name for name, c in clauses if c.keyword == word] for word in kinds}
    longest = (max(c.held_seconds for _, c in clauses if c.keyword == word) for word in words)
    return SchedulerRequirements(
        strict=needing("one decider"),
        at_bind=needing("check at binding"),
        cards=needing("binding with cards"),
        waiting=tuple(name for name, clause in clauses if clause.held_seconds),
        words=words,
        # A pod may wait for a clause of each kind, one after the other.
        longest_wait=sum(longest),
        scores=needing("scores"),
        namespaces=tuple(sorted({p.namespace for p in policies if p.namespace is not None})),
        portable=tuple(policy.address for policy in policies if policy.portable),
        is_whole=paths is not None,
        broken=of_objects.broken,
    )

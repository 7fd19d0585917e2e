"""Command `drift`: which pods break rules where they are, and what a repair would do."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence

import msgspec

from cli import replicas
from cli.command import WORLD, CommandError, Exit, flags_of
from cli.console import Part, first_rows, lines, table
from cli.sources import AskedCluster
from cli.world import World
from engine.drift.drift_document import DriftDocument, DriftedPod, clauses_of
from engine.drift.survey import Survey, answered
from engine.errors import EngineError
from engine.offline import offline_engine
from grammar.messages.texts import counted, named

EXAMPLES = """\
examples:
  placet drift
  placet drift shop/web -o json
  placet drift -n shop
  placet drift --cluster cluster.json --policies policies/
"""
# The pods of a table.
_MOST_ROWS = 50
# The policies of a message.
_MOST_NAMES = 5


ARGUMENTS = flags_of(f"{replicas.POLICY}{WORLD}{replicas.ASKED}")


def run(args: argparse.Namespace) -> int:
    """Asks the leader, or looks at the pods of a snapshot."""
    errors: Sequence[CommandError] = ()
    is_broken = False
    if args.cluster:
        world = AskedCluster(args).world()
        known = [each.policy.address for each in world.policies.policies]
        if args.policy is not None and args.policy not in known:
            hint = f"there is {named(known, _MOST_NAMES)}" if known else ""
            raise CommandError(f"there is no policy `{args.policy}` in force", hint)
        found, is_broken = _of_files(world), bool(world.policies.broken)
    elif args.policies or args.data:
        hint = "give --cluster SNAPSHOT too, or neither, to ask the running Placet"
        raise CommandError("policies are given without a cluster", hint)
    else:
        answers, errors = replicas.asked(args, "/drift", DriftDocument)
        # What the leader has seen, or the reason why nobody has.
        found = min(answers, key=lambda each: bool(each.problem))
    if found.problem:
        hint = "see the leader and its state with: placet status"
        raise CommandError(f"nobody knows what has drifted: {found.problem}", hint)
    found = _restricted(found, args.policy, args.namespace)
    code = replicas.put_answers(args, [found], _parts(found), errors)
    return Exit.FINDINGS if found.pods or is_broken else code


def _of_files(world: World) -> DriftDocument:
    cluster, bodies = world.cluster, world.cluster.pod_bodies
    engine = offline_engine(world.policies.registry, cluster, world.codec)
    survey = Survey("", engine, cluster, time.monotonic, lambda: cluster.now)
    try:
        return answered(survey.look(), lambda key: bytes(bodies[key]) if key in bodies else None)
    except EngineError as error:
        raise CommandError(str(error), "correct the policies") from None


def _restricted(found: DriftDocument, policy: str | None, namespace: str | None) -> DriftDocument:
    """The pods of a namespace, and what breaks a policy, if these are given."""
    pods = []
    for each in found.pods:
        broken = [clause for clause in each.clauses if policy in (None, clause.policy)]
        if broken and namespace in (None, each.pod.partition("/")[0]):
            pods.append(msgspec.structs.replace(each, clauses=broken))
    repairs = [each for each in found.repairs if policy in (None, each.policy)]
    return msgspec.structs.replace(found, pods=pods, clauses=clauses_of(pods), repairs=repairs)


def _parts(found: DriftDocument) -> Iterator[Part]:
    if not found.pods:
        yield f"no pod breaks a rule where it is: {counted(found.looked, 'pod')} at {found.at}"
    else:
        moving = sum(pod.moves for pod in found.pods)
        breaks = "breaks a rule" if len(found.pods) == 1 else "break rules"
        yield (
            f"{counted(len(found.pods), 'pod')} of {found.looked} {breaks} at {found.at}; "
            f"a repair would move {moving}"
        )
        every = found.clauses
        rows = [(c.policy, c.clause, c.kind, c.pods, c.movable, c.stuck, c.since) for c in every]
        yield ""
        yield table("policy", "clause", "kind", "pods", "moved", "stuck", "since", rows=rows)
        yield ""
        broken = []
        for pod in found.pods:
            clauses = lines(f"{each.policy}: {each.clause}" for each in pod.clauses)
            broken.append((pod.order, pod.pod, pod.node, clauses, _place(pod)))
        columns = ("order", "pod", "is on", "breaks", "would go to")
        yield from first_rows(*columns, rows=broken, most=_MOST_ROWS)
    for repair in found.repairs:
        numbers = f"{counted(repair.evicted, 'pod')} evicted"
        yield f"repair of {repair.policy}: {repair.state}, {numbers}; {repair.text}".rstrip("; ")
    if found.more:
        yield f"{counted(found.more, 'pod')} were not looked at after these"
    for text in found.skipped:
        yield f"not looked at: {text}"


def _place(pod: DriftedPod) -> str:
    if pod.kept:
        return f"stays: {pod.kept}"
    if not pod.places:
        return f"nowhere: {pod.reason}"
    more = pod.nodes - 1
    return f"{pod.places[0]}, or {counted(more, 'other node')}" if more else pod.places[0]

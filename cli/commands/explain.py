"""Command `explain`: the policies that apply to a pod, and why each node passes or fails."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from cli import replicas
from cli.command import POD, POD_FILE, RUNNING, WORLD, CommandError, Exit, flags_of
from cli.console import Part, put, put_document, table
from cli.explanation import (
    beginning,
    cause_lines,
    every_node,
    explained_part,
    head,
    not_in_force,
    one_node,
    readable_policies,
    then_and_now,
)
from cli.sources import asked_pod, question_namespace, source_of
from cli.streams import put_line
from cli.world import ForbiddenError, World, explained, in_force
from engine.explanation.cause import cause_of
from engine.explanation.document import PodExplanation
from engine.explanation.explanation import Asker, changes
from engine.facts import Cause
from grammar.meaning.schema import load_schema
from grammar.messages.diagnostics import nearest
from grammar.messages.texts import excerpt

if TYPE_CHECKING:
    from cli.live import LiveCluster

EXAMPLES = """\
examples:
  placet explain -n shop web-1
  placet explain -n shop web-1 node-3
  placet explain -n shop deploy/web
  placet explain -n shop
  placet explain shop/web-1 --cluster cluster.json --policies policies/
  placet explain --pod-file pod.yaml --context test --policies policies/
  helm template web | placet explain deploy/web --pod-file - --context test
  placet explain -n shop web-1 --decision
"""
# The most pending pods of a list, and the longest cause in it.
_MOST_PENDING, _SHORT = 100, 160
Json = dict[str, Any]


QUESTION = flags_of(f"""
{POD}{POD_FILE}
  [NODE]
    only this node, with each part of each expression
  -o --output wide|json|yaml|name
    all nodes and what would help, data, or the names of the nodes that pass
""")
ARGUMENTS = (
    *QUESTION,
    *flags_of(f"""
  --decision
    also show what the running Placet decided last, and what has changed since; it is found as
    `placet decisions` finds it
{WORLD}{RUNNING}
the running Placet, which is asked with --decision, and where no policy of the cluster applies:
{replicas.VIEW}"""),
)


def run(args: argparse.Namespace) -> int:
    if args.pod_file is not None and args.node is None and "/" not in (args.pod or ""):
        # With a file, a name alone is the node.
        args.pod, args.node = None, args.pod
    with source_of(args) as source:
        live = source.live
        if args.url is not None and not args.decision and live is None:
            raise CommandError("--url has no effect without --decision", "add --decision")
        try:
            world = source.world(question_namespace(args, live))
        except ForbiddenError as error:
            assert live is not None, "files have no rights"
            return _without_rights(args, live, error)
        if live is not None and args.pod is None and args.pod_file is None:
            return _pending_pods(args, world, live)
        return ask(args, world, live)


def ask(args: argparse.Namespace, world: World, live: LiveCluster | None = None) -> int:
    """The explanation of one pod; in a session without the decisions of a running Placet."""
    pod = asked_pod(args, world.cluster, live)
    if args.node is not None:
        world.cluster.node(args.node)
    events: list[Json] | str = []
    asker = Asker()
    if live is not None and args.pod_file is None:
        events = live.events(pod.namespace, pod.name)
        asker = Asker(is_live=True, events=() if isinstance(events, str) else events)
    is_data = args.output in ("json", "yaml")
    found = explained(world, pod, node=args.node, asker=asker)
    if live is not None and args.pod_file is None and args.node is None:
        found = _by_files_too(args, found)
    if args.output == "name":
        offered = (g.names for g in found.groups if not (g.rejectedBy or g.heldBack))
        put(f"node/{name}" for names in offered for name in names)
    elif is_data:
        put_document(_with_last_decision(args, found), args.output)
    else:
        body = msgspec.json.decode(pod.body)
        put(beginning(found.cause, body, events, found.notInForce))
        if not found.is_decided and found.cause is None:
            raise CommandError(found.problem or "nothing is decided", "correct the policy")
        if found.is_decided:
            put(head(found))
            wide = args.output == "wide"
            put(one_node(found) if args.node is not None else every_node(found, wide=wide))
        if "decision" in args and args.decision:
            put(["", *_running_placet(found, _with_last_decision(args, found))])
    # A file with errors is a finding; what a cluster has is what was asked about.
    return Exit.FINDINGS if live is None and world.policies.broken else Exit.OK


def _running_placet(found: PodExplanation, known: PodExplanation) -> Iterator[Part]:
    """The last decision of the running Placet, and what else it knows more of."""
    yield from then_and_now(known)
    # What comes after the nodes is printed there.
    if parts := [p for p in known.parts if p not in found.parts and not p.afterNodes]:
        yield ""
        if known.cause is not None:
            yield from cause_lines(known.cause)
        for part in parts:
            yield from explained_part(part)


def _with_last_decision(args: argparse.Namespace, found: PodExplanation) -> PodExplanation:
    """The explanation with what the running Placet knows of the pod, if that is asked for.

    It knows the last decision, and what files do not show. Raises CommandError.
    """
    if "decision" not in args or not args.decision:
        return found
    (then, *_), errors = replicas.last_decisions(args, found.pod)
    replicas.end(errors)
    found = msgspec.structs.replace(found, then=then, changes=changes(then, found))
    if not found.parts:
        return found
    known, _ = replicas.asked(args, "/explain", PodExplanation, found.pod)
    return next((found.as_known_by(each) for each in known if _decides(each)), found)


def _pending_pods(args: argparse.Namespace, world: World, live: LiveCluster) -> int:
    """The pending pods of a namespace, or of all: a row for those of a workload with one cause."""
    namespace = question_namespace(args, live)
    keys = sorted(world.cluster.snapshot().pending)
    keys = [key for key in keys if not namespace or key.startswith(f"{namespace}/")]
    causes: dict[str, Cause] = {}
    for key in keys[:_MOST_PENDING]:
        found = explained(world, world.cluster.pod(key), asker=Asker(is_live=True))
        assert found.cause is not None, "the cluster is asked, so there is one"
        causes[key] = found.cause
    if args.output == "name":
        put(f"pod/{key.rpartition('/')[2]}" for key in causes)
    elif args.output in ("json", "yaml"):
        items = [{"pod": key, "cause": each} for key, each in causes.items()]
        put_document({"pending": items}, args.output)
    else:
        wide, alike = args.output == "wide", dict[tuple[str, str], list[str]]()
        for key, why in causes.items():
            workload = world.cluster.snapshot().pending[key].workload
            whose = key if wide or workload is None else workload.uid
            alike.setdefault((whose, why.text), []).append(key)
        rows = []
        for (_, text), (first, *others) in alike.items():
            and_others = f" (and {len(others)} like it)" if others else ""
            rows.append((first, f"{text if wide else excerpt(text, _SHORT)}{and_others}"))
        put([table("pending pod", "cause", rows=rows) if rows else "no pod is pending there"])
        if (more := len(keys) - len(causes)) > 0:
            print(f"and {more} more")
        put(["", *not_in_force(world.policies.broken_in(namespace))])
    return Exit.OK


def _without_rights(args: argparse.Namespace, live: LiveCluster, error: ForbiddenError) -> int:
    """What can be told without the right to read all nodes and pods. Raises CommandError."""
    namespace = question_namespace(args, live) or live.namespace
    if args.pod is None or args.node is not None:
        raise error
    name = args.pod.rpartition("/")[2]
    bodies = {str(pod["metadata"]["name"]): pod for pod in live.pods(namespace)}
    if name not in bodies:
        close = nearest(name, bodies)
        hint = f"a similar name exists: `{close}`" if close is not None else ""
        raise CommandError(f"there is no pod `{name}` in the namespace `{namespace}`", hint)
    body, events = bodies[name], live.events(namespace, name)
    policies = in_force((), error.policies, load_schema())
    why = cause_of(body, () if isinstance(events, str) else events, None, policies.broken)
    assert why is not None, "the cluster is asked, so there is one"
    if args.output in ("json", "yaml"):
        known = {"pod": f"{namespace}/{name}", "cause": why}
        put_document({**known, "lacks": error.lacks}, args.output)
        return Exit.OK
    put(beginning(why, body, events, policies.broken))
    put([f"pod {namespace}/{name}", ""])
    put(readable_policies(error.policies))
    put(["", "which nodes would pass is not known:"])
    put(f"  you may not {right}" for right in error.lacks)
    return Exit.OK


def _decides(found: PodExplanation) -> bool:
    """Whether a replica decides about some part; only the leader does."""
    return any(part.decided for part in found.parts)


def _by_files_too(args: argparse.Namespace, found: PodExplanation) -> PodExplanation:
    """The explanation, by the running Placet if no policy of the cluster applies to the pod.

    It may have policies in files, which nobody else knows.
    """
    if found.exempt or found.on or any(each.applies != "no" for each in found.policies):
        return found

    try:
        known, _ = replicas.asked(args, "/explain", PodExplanation, found.pod)
        return max((each for each in known if each.policies), key=_decides, default=found)
    except CommandError as error:
        text = "note: policies in files of a running Placet are not known here"
        put_line(f"{text}: {error.message}", sys.stderr)
        return found

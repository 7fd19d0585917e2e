"""Command `simulate`: schedules pods under one set of policies, or compares two sets.

The cluster and the pods are read once, from files that kubectl wrote or a running cluster. Each set
of policies has a simulation with a cluster of its own, because it changes the cluster.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec

from cli.command import (
    DATA,
    OUTPUT,
    POLICIES,
    RUNNING,
    SNAPSHOTS,
    CommandError,
    Exit,
    flags_of,
    given_path,
    unreadable,
)
from cli.console import first_rows, put, put_document, show, table
from cli.sources import question_namespace, source_of
from cli.streams import put_line
from cli.world import in_force, put_notes, read_policies
from engine.cache.cluster_copy import ClusterDocuments
from engine.cache.cluster_file import ClusterFileError, documents, workload_uids
from engine.cache.pod_manifests import DEFAULT_NAMESPACE
from engine.enforced import EnforcedPolicies
from engine.facts import Cell
from engine.objects.request_pod import ObjectCodec
from engine.simulation.cycle import PodOutcome, SimulationOptions
from engine.simulation.pod_list import PodList, PodReader, hint, pods_in
from engine.simulation.result import KINDS, SimulationAnswer, changes, result
from engine.simulation.what_if import NodesToAdd, WhatIf, prepared
from engine.work import finished
from grammar.meaning.schema import Schema, load_schema
from grammar.messages.texts import counted

EXAMPLES = """\
examples:
  placet simulate -A
  placet simulate --context test --diff policies/ new-policies/ --pods pods.yaml
  placet simulate --cluster cluster.json --policies policies/ --pods pods.yaml
  placet simulate --cluster cluster.json --diff policies/ new-policies/ --pods pods.yaml
  helm template shop | placet simulate --context test --pods -
"""


def _added(text: str) -> NodesToAdd:
    template, _, count = text.rpartition("=")
    if not (template and count.isdecimal() and 0 < int(count[:9]) <= _MOST_ADDED):
        message = f"`{text}` is not TEMPLATE=N with N from 1 to {_MOST_ADDED}, such as m5.large=3"
        raise argparse.ArgumentTypeError(message)
    return NodesToAdd(template, int(count))


_MOST_ADDED = 10_000


ARGUMENTS = flags_of(
    f"""
{SNAPSHOTS}{POLICIES}
  or --diff OLD NEW
    two such paths: shows which pods move, or become placed or pending, under the second
  --pods FILE
    the pods to schedule, in order: the output of kubectl or helm, with the pods of workloads; `-`
    reads standard input (default: the pending pods of the cluster)
  --weight N=1
    the extender's weight in kube-scheduler's configuration
  --no-plugin-scores
    choose nodes by the scores of policies alone, without kube-scheduler's own
  --ignore-resource RESOURCE,
    a resource that kube-scheduler leaves to the extender (`ignoredByScheduler`), such as the whole
    cards of pods that share some; may be repeated
  --add-nodes TEMPLATE,
    first add nodes like a template, as in m5.large=3: a node by its name, or any that has a label,
    an instance type or a pool, or the manifest of a node in a file; may be repeated
  --drain NODE...
    first drain nodes, and schedule their pods
{OUTPUT}{DATA}{RUNNING}
""",
    {"--add-nodes": _added, "--diff": given_path},
)


def run(args: argparse.Namespace) -> int:
    """Shows one simulation for each set of policies, and what is different."""
    schema = load_schema()
    with source_of(args) as source:
        namespace, otherwise = question_namespace(args, source.live), DEFAULT_NAMESPACE
        if source.live is not None:
            otherwise = source.live.namespace
        read = source.read(namespace="")
        sets = _policy_sets(args, schema)
        if not sets:
            sets = {"the policies of the cluster": in_force((), source.policies(read), schema)}
        cluster = replace(read, data=source.data(sets.values()))
        cluster = source.completed(cluster, (each.needs for each in sets.values()))
        pods = None
        if args.pods is not None:
            pods = read_pods(args.pods, cluster, namespace or otherwise)
        elif not args.drain:
            pods = _pending_pods(cluster, namespace, source.name)
        added = [_with_manifest(each) for each in args.add_nodes]
        change = WhatIf(added, args.drain, cluster.bodies("Pod") if args.drain else {})
    options = SimulationOptions(
        weight=args.weight, plugins=not args.no_plugin_scores, ignored=tuple(args.ignore_resource)
    )
    ready = []
    for policies in sets.values():
        codec = ObjectCodec(schema, policies.needs.annotations)
        own = cluster.cluster(codec), codec, policies.registry
        ready.append(finished(prepared(*own, pods, options, change)))
    put_notes(ready[0].cluster, next(iter(sets.values())))
    notes = pods.notes if pods is not None else ()
    answers = [result(each.simulation, each.changed, notes) for each in ready]
    return _shown(args, answers, list(sets))


def _shown(
    args: argparse.Namespace, answers: Sequence[SimulationAnswer], names: Sequence[str]
) -> int:
    """Shows an answer, or two under their names, and returns the exit code.

    Where one question is asked, a pod without a place is a finding.
    """
    for note in answers[0].notes:
        put_line(f"note: {note}", sys.stderr)
    if len(answers) == 2:
        old, new = answers
        if args.output:
            moves = [
                {"pod": c.new.pod, "change": c.kind, "old": c.old.node, "new": c.new.node}
                for c in changes(old, new)
            ]
            put_document({"old": old, "new": new, "changes": moves}, args.output)
        else:
            _print_difference(names, old, new)
    elif args.output:
        put_document(answers[0], args.output)
    else:
        _print_result(answers[0])
    asks = args.add_nodes or args.drain
    return Exit.FINDINGS if asks and answers[-1].pending else Exit.OK


def _policy_sets(args: argparse.Namespace, schema: Schema) -> Mapping[str, EnforcedPolicies]:
    """The policies of files, by what their paths are; all their errors come before a long run."""
    sets = [[path] for path in args.diff] if args.diff else [args.policies]
    paths = {" ".join(map(str, some)): some for some in sets if some}
    if len(paths) < len(args.diff or ()):
        same = f"`{args.diff[0]}` is both the old and the new policies"
        raise CommandError(same, "give two paths")
    return {name: read_policies(given, schema) for name, given in paths.items()}


# ---- the cluster and the pods


def _with_manifest(each: NodesToAdd) -> NodesToAdd:
    """With the manifest of the node, if the template is a file. Raises UserError."""
    file = Path(each.template)
    try:
        if not file.is_file():
            return each
    except OSError as error:
        raise unreadable(str(file), error, "check the path") from None
    read = list(documents(file))
    if len(read) != 1:
        raise CommandError(f"`{file}` has {len(read)} objects", "give a file with one node")
    try:
        return msgspec.structs.replace(each, node=msgspec.json.decode(read[0]))
    except RecursionError:
        raise CommandError(f"`{file}` is nested too deeply", "give a file with one node") from None


def _pending_pods(cluster: ClusterDocuments, namespace: str, name: str) -> PodList:
    """The pending pods of a cluster, of one namespace or of all.

    `name` is that of the cluster. Raises CommandError without any.
    """
    reader = PodReader(Path(name))
    for key, body in cluster.bodies("Pod").items():
        pod = msgspec.json.decode(body)
        is_here = namespace in ("", key.partition("/")[0])
        if is_here and not (pod.get("spec") or {}).get("nodeName"):
            reader.add({**pod, "kind": "Pod"})
    if not reader.bodies:
        where = f"in the namespace `{namespace}`" if namespace else "in any namespace"
        hint = "give the pods with --pods FILE, or other namespaces with -n or -A"
        raise CommandError(f"no pod is pending {where} of `{name}`", hint)
    return reader.read()


# ---- pods to schedule


def read_pods(file: Path, cluster: ClusterDocuments, namespace: str = DEFAULT_NAMESPACE) -> PodList:
    """The pods of a file that have not ended, as they were before they had a node.

    `namespace` is that of objects without one. Raises UserError.
    """
    try:
        reader = PodReader(file, namespace, defaults=cluster.defaults)
        # The cluster is read when the first workload is asked for.
        uids = cache(lambda: workload_uids([document for _, document in cluster.contents]))
        found = list(documents(file, reader.defaults))
        return pods_in(found, reader, lambda kind, key: uids().get((kind, key)))
    except ClusterFileError as error:
        raise ClusterFileError(error.message, error.hint or hint(file)) from None


# ---- tables

# Longer lists end with a count; the JSON has all rows.
_MAX_ROWS = 12
_BYTES = {"memory", "ephemeral-storage"}
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_NUMBERS = ("pending", "nodes", "placed", "allocated", "of", "part", "allows now")


def _print_result(found: SimulationAnswer) -> None:
    """The placed and pending pods, the allocation, and the pods of each policy."""
    pods, nodes = counted(len(found.pods), "pod"), counted(found.nodes, "node")
    changed = bool(found.added) or found.drained is not None
    if changed:
        print(found.summary)
    else:
        print(f"{found.placed} of {pods} placed on {nodes}, {found.pending} pending")
    if (drained := found.drained) is not None:
        moved = [(it.pod, it.leaves, it.node or "(no place)") for it in found.pods if it.leaves]
        _print_rows(("pod", "leaves", "goes to"), moved)
        _print_rows(("left", "on", "because"), [(it.pod, it.node, it.why) for it in drained.left])
        budgets = [(its.budget, str(its.allowed), str(its.pods)) for its in drained.budgets or ()]
        _print_rows(("budget", "allows now", "would be evicted"), budgets)
    if found.pending:
        print()
        _print_reasons(found)
    if found.pending and changed:
        missed = [(each.pod, each.nearest) for each in found.pods if each.nearest is not None]
        rows = [(pod, nearest.node, ", ".join(nearest.reasons)) for pod, nearest in missed]
        _print_rows(("pod", "nearest", "which has against it"), rows)
    amounts = [
        (name, _amount(name, its.requested), _amount(name, its.allocatable), _percent(its.part))
        for name, its in found.allocation.items()
    ]
    _print_rows(("resource", "allocated", "of", "part"), amounts, len(amounts))
    print()
    _print_policies(found)


def _print_difference(names: Sequence[str], *answers: SimulationAnswer) -> None:
    """Both answers side by side, then the pods that the second set of policies moves."""
    print(f"{counted(len(answers[1].pods), 'pod')} on {counted(answers[1].nodes, 'node')}\n")
    placed, pending = (a.placed for a in answers), (a.pending for a in answers)
    rows: list[Sequence[Cell]] = [("placed", *placed), ("pending", *pending)]
    for name in answers[0].allocation:
        parts = (_percent(each.allocation[name].part) for each in answers)
        rows.append((f"{name} allocated", *parts))
    show(table("", *names, rows=rows, right=tuple(names)))
    for name, answer in zip(names, answers, strict=True):
        print(f"\nunder {name}")
        _print_policies(answer)
        if answer.pending:
            _print_reasons(answer)
    print()
    if not (moves := changes(*answers)):
        print("no pod moves")
        return
    by_kind = {kind: [c for c in moves if c.kind == kind] for kind in KINDS}
    print(", ".join(f"{counted(len(some), 'pod')} {kind}" for kind, some in by_kind.items()))
    ordered = [change for some in by_kind.values() for change in some]
    moved = [(each.new.pod, each.kind, _where(each.old), _where(each.new)) for each in ordered]
    _print_rows(("pod", "", *names), moved)


def _print_rows(head: Sequence[str], rows: Sequence[Sequence[str]], most: int = _MAX_ROWS) -> None:
    """An empty line, and a table of at most so many rows; nothing without rows."""
    if rows:
        put(["", *first_rows(*head, rows=rows, most=most, right=_NUMBERS)])


def _print_policies(found: SimulationAnswer) -> None:
    rows = [(its.policy or "(none)", its.placed, its.pending) for its in found.policies]
    show(table("policy", "placed", "pending", rows=rows, right=_NUMBERS))


def _print_reasons(found: SimulationAnswer) -> None:
    """A row for each reason; a pod counts in the rows of all its reasons."""
    rows = []
    for because in found.because:
        low, high = because.fewestNodes, because.mostNodes
        nodes = str(low) if low == high else f"{low} to {high}"
        rows.append((because.pods, nodes, because.reason))
    put(first_rows("pending", "nodes", "because", rows=rows, most=_MAX_ROWS, right=_NUMBERS))


def _where(outcome: PodOutcome) -> str:
    return outcome.node or ": ".join(["pending", *list(outcome.reasons)[:1]])


def _percent(part: float) -> str:
    return f"{100 * part:.1f}%"


def _amount(resource: str, amount: float) -> str:
    """Cpu in cores, memory and storage with a binary unit, anything else as a number."""
    if resource == "cpu":
        return f"{amount / 1000:.1f}".removesuffix(".0")
    if resource not in _BYTES and not resource.startswith("hugepages-"):
        return str(amount)
    unit = 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f}".removesuffix(".0") + _UNITS[unit]

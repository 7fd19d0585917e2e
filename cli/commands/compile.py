"""Command `compile`: what portable policies say in Kubernetes' own words, to all or about a pod."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from cli.command import FROZEN, POD_FILE, POLICIES, CommandError, Exit, flags_of
from cli.console import put_document
from cli.world import read_policies
from engine.cache.pod_manifests import read_pod
from engine.objects.request_pod import (
    FORM,
    SYSTEM_NAMESPACES,
    Exemptions,
    ObjectCodec,
    RequestPodReader,
)
from engine.portable.portable_clauses import portability
from engine.portable.portable_form import PortableAddition, PortableForm, added, form_of
from engine.selectors.terms import Frozen
from grammar.checker.policy_checker import Checked
from grammar.meaning.schema import load_schema

EXAMPLES = """\
examples:
  placet compile --policies policies/ --frozen-label app
  placet compile --pod-file pod.yaml --policies policies/
  placet compile --pod-file pod.yaml --policies policies/ --frozen-label app
"""


ARGUMENTS = flags_of(f"""
{POD_FILE.rstrip()}; without it, say which clauses others can be told of, and why not of the rest
{POLICIES}{FROZEN}
""")


def run(args: argparse.Namespace) -> int:
    if not args.policies:
        raise CommandError("no policies are given", "give --policies PATH")
    schema = load_schema()
    policies = read_policies(args.policies, schema)
    codec = ObjectCodec(schema, policies.needs.annotations)
    frozen = Frozen.of(args.frozen_label, args.frozen_annotation)
    if args.pod_file is None:
        for checked in policies.validation.policies:
            print(*_portability(checked, codec, frozen), "", sep="\n")
        return Exit.OK
    pod = RequestPodReader(codec).read(read_pod(args.pod_file).body)
    exempt = Exemptions(SYSTEM_NAMESPACES, by_annotation=True)
    form = form_of(pod, policies.registry, exempt, frozen)
    addition = added(pod, form)
    for line in _notes(f"{pod.namespace}/{pod.name}", form, addition):
        print(f"# {line}")
    if addition.annotation:
        annotations = {"annotations": {FORM: addition.annotation}}
        put_document({"metadata": annotations, "spec": addition.spec}, "yaml")
    return Exit.OK


def _portability(checked: Checked, codec: ObjectCodec, frozen: Frozen) -> Iterator[str]:
    """Which clauses of a policy that reject nodes others can be told of."""
    policy, verdicts = checked.policy, portability(checked, codec, frozen)
    said = "portable" if policy.portable else "not `portable`, so nobody is told"
    yield f"policy {policy.address} ({said})"
    if not verdicts:
        yield "  no clause rejects nodes"
    for verdict in verdicts:
        told = "told as it is" if verdict.exact else "told in part; Placet rejects more nodes"
        said = f"stays in Placet: {verdict.reason}" if verdict.reason else told
        yield f"  {verdict.clause or 'all clauses'}: {said}"


def _notes(pod: str, form: PortableForm, addition: PortableAddition) -> Iterator[str]:
    """A line for each clause that concerns the pod."""
    left = [(program.address, each.clause, each.reason) for program, each in addition.left]
    refused = {(address, clause) for address, clause, _ in left}
    for program, part in form.parts:
        if (program.address, part.clause) in refused:
            continue
        rest = "" if part.exact else "; Placet rejects more nodes"
        yield f"policy {program.address}, clause `{part.clause}`: below{rest}"
    for address, clause, reason in left:
        what = f"policy {address}, clause `{clause}`" if clause else f"policy {address}"
        yield f"{what}: stays in Placet: {reason}"
    if not form.parts and not left:
        yield f"no portable policy keeps {pod} from any node"

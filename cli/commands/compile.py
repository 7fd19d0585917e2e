"""Command `compile`: what portable policies say about a pod in Kubernetes' own words."""

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
from engine.portable.portable_form import PortableAddition, PortableForm, added, form_of
from engine.selectors.terms import Frozen
from grammar.meaning.schema import load_schema

EXAMPLES = """\
examples:
  placet compile --pod-file pod.yaml --policies policies/
  placet compile --pod-file pod.yaml --policies policies/ --frozen-label app
"""


ARGUMENTS = flags_of(f"""
{POD_FILE}{POLICIES}{FROZEN}
""")


def run(args: argparse.Namespace) -> int:
    if args.pod_file is None or not args.policies:
        hint = "give --pod-file FILE and --policies PATH"
        raise CommandError("a pod and policies are asked about", hint)
    schema = load_schema()
    policies = read_policies(args.policies, schema)
    codec = ObjectCodec(schema, policies.needs.annotations)
    pod = RequestPodReader(codec).read(read_pod(args.pod_file).body)
    exempt = Exemptions(SYSTEM_NAMESPACES, by_annotation=True)
    frozen = Frozen.of(args.frozen_label, args.frozen_annotation)
    form = form_of(pod, policies.registry, exempt, frozen)
    addition = added(pod, form)
    for line in _notes(f"{pod.namespace}/{pod.name}", form, addition):
        print(f"# {line}")
    if addition.annotation:
        annotations = {"annotations": {FORM: addition.annotation}}
        put_document({"metadata": annotations, "spec": addition.spec}, "yaml")
    return Exit.OK


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

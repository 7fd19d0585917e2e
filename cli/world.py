"""World of a command: the cluster in snapshot files and the policies that it is asked about.

A command reads it once from its arguments.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cli.command import CommandError, read_file
from cli.render import put_findings, put_problem
from cli.streams import put_line
from engine.cache.cluster_copy import ClusterCopy, ClusterDocuments, DataText, NamedPod
from engine.cache.informers import CONTROLLERS, Needs
from engine.data import FORMS
from engine.enforced import EnforcedPolicies, enforced
from engine.errors import BadObjectError, EngineError
from engine.explanation.document import PodExplanation
from engine.explanation.explanation import NOBODY, Analyst, Asker, PodQuestion
from engine.objects.request_pod import ObjectCodec
from engine.offline import offline_engine, useless_data
from grammar.meaning.schema import Schema, load_schema
from grammar.messages.catalogue import listed
from grammar.messages.diagnostics import nearest
from grammar.messages.texts import counted, escaped
from grammar.tree.source import Source
from policies.admission import StoredObject, check_stored
from policies.loader import load
from policies.validation import Validation, Validator


@dataclass(frozen=True, slots=True)
class World:
    """A world of pods: a cluster and the policies that decide there."""

    schema: Schema
    codec: ObjectCodec
    cluster: ClusterCopy
    policies: EnforcedPolicies

    @classmethod
    def of(cls, documents: ClusterDocuments, policies: EnforcedPolicies) -> World:
        """The world of a cluster. Raises UserError for invalid documents."""
        schema = load_schema()
        codec = ObjectCodec(schema, policies.needs.annotations)
        return cls(schema, codec, documents.cluster(codec), policies)


@dataclass(frozen=True, slots=True)
class Found:
    """The objects found in a cluster; `lacks` has the rights that are missing, by kind."""

    documents: ClusterDocuments
    lacks: Mapping[str, str] = field(default_factory=dict)

    def lacking(self, needs: Needs) -> Sequence[str]:
        """The missing rights of policies with these needs, in the order of what is read."""
        optional = {"Namespace": needs.namespaces, "PodGroup": needs.workloads}
        optional["ResourceQuota"] = needs.quotas
        optional |= dict.fromkeys(CONTROLLERS, needs.workloads)
        return [right for kind, right in self.lacks.items() if optional.get(kind, True)]


class ForbiddenError(CommandError):
    """A forbidden read of nodes or pods, without which nothing is decided.

    `policies` can be read in the running cluster: the JSON by `resource/key`. `lacks` are rights.
    """

    def __init__(self, policies: Mapping[str, bytes], lacks: Sequence[str]) -> None:
        hint = "ask an operator of the cluster for these rights, or for a snapshot"
        super().__init__(f"you may not {' and '.join(lacks)}", hint)
        self.policies = policies
        self.lacks = lacks


def read_data(
    args: argparse.Namespace, declared: Collection[str] | None = None
) -> Mapping[str, DataText]:
    """The tables that the flag names. Raises CommandError, also for one that is not declared."""
    found: dict[str, DataText] = {}
    for given in getattr(args, "data", None) or ():
        name, equals, file = given.partition("=")
        if not equals or not name or not file:
            hint = "write a name and a file, as in `--data load=load.csv`"
            raise CommandError(f"`{given}` names no table", hint)
        if declared is not None and (wrong := undeclared(name, declared)) is not None:
            raise wrong
        form = FORMS.get(Path(file).suffix)
        if form is None:
            hint = f"the name of the file ends with {listed(FORMS)}"
            raise CommandError(f"`{file}` has no form that is known", hint)
        found[name] = DataText(file, read_file(file, "check the path"), form)
    return found


def undeclared(name: str, declared: Collection[str]) -> CommandError | None:
    """The error for rows of a table of this name, if no policy declares one."""
    if name in declared:
        return None
    similar = nearest(name, sorted(declared))
    hint = f"write `{similar}`" if similar else "leave it out"
    return CommandError(f'no policy here has `data "{name}"`', hint)


def read_policies(paths: Sequence[Path], schema: Schema) -> EnforcedPolicies:
    """The compiled policies of files and folders. Raises CommandError, as `valid` does."""
    return enforced(valid(sources_of(paths), schema))


def valid(sources: Sequence[Source], schema: Schema) -> Validation:
    """The checked policies. Prints errors, and raises CommandError."""
    validation = Validator(schema).validate(sources)
    if errors := [each for each in validation.findings() if each[0].severity == "error"]:
        put_findings(errors)
        found = counted(len(errors), "error")
        raise CommandError(f"the policies have {found}", "fix them; `placet check` shows them too")
    return validation


def sources_of(paths: Sequence[Path]) -> tuple[Source, ...]:
    """The policy files of files and folders. Raises CommandError."""
    loaded = load(paths)
    for problem in loaded.problems:
        raise CommandError(problem.message, problem.hint)
    return loaded.sources


def in_force(
    sources: Sequence[Source], objects: Mapping[str, bytes], schema: Schema
) -> EnforcedPolicies:
    """The policies of files and of objects that a server would enforce.

    Prints the errors of files. `objects` has the JSON by `resource/key`.
    """
    stored = stored_objects(objects, schema)
    files = [each.checked.file for each in stored.values()]
    validation = Validator(schema).validate(sources, files)
    of_files = (f for f in validation.files if f.source.name not in stored)
    errors = ((d, f.source) for f in of_files for d in f.diagnostics if d.severity == "error")
    put_findings(errors)
    return enforced(validation, stored)


def stored_objects(objects: Mapping[str, bytes], schema: Schema) -> Mapping[str, StoredObject]:
    """The policy objects of a cluster as a server checks them, by `resource/key`."""
    return {name: check_stored(name, raw, schema) for name, raw in objects.items()}


def put_useless(world: World) -> None:
    """Warns of tables of data whose rows are of no use in a cluster. Raises UserError."""
    for text in useless_data(world.policies.registry, world.cluster):
        put_problem(escaped(f"warning: {text}"), "warning")


def put_notes(cluster: ClusterCopy, policies: EnforcedPolicies) -> None:
    """Says on standard error what a reader should know of a snapshot."""
    for note in cluster.notes(policies.needs):
        put_line(f"note: {note}", sys.stderr)


# ---- an explanation of a pod of a world


def explained(
    world: World, pod: NamedPod, *, node: str | None = None, asker: Asker = NOBODY
) -> PodExplanation:
    """The explanation of a pod on every node, as if it had none.

    Raises UserError for a malformed pod. Of a pod that waits for a policy which is not in force the
    explanation has only the `problem`.
    """
    extender = offline_engine(world.policies.registry, world.cluster, world.codec)
    analyst = Analyst(extender, world.policies, world.schema, now=lambda: world.cluster.now)
    question = PodQuestion(pod, node, places=True)
    with world.cluster.asking(pod):
        try:
            return analyst.at_once(question, asker)
        except EngineError as error:
            hint = "fix the pod" if isinstance(error, BadObjectError) else ""
            raise CommandError(str(error), hint) from None

"""Command `check`: errors and warnings in policy files, fixes, and the cost of expressions."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

from cli.command import DATA, FROZEN, CommandError, Exit, flags_of, input_source, replace_text
from cli.render import REPORT, Finding, cases_of, fails, print_error, put_note, put_report, totals
from cli.streams import PassingLine, put_line
from grammar.checker.policy_checker import Checked
from grammar.meaning.costs import LIMIT, describe
from grammar.meaning.schema import load_schema
from grammar.messages.diagnostics import Mended, mend
from grammar.messages.texts import counted, excerpt, named
from grammar.tree.source import Source
from policies.loader import Loaded, load
from policies.validation import Validation, Validator, check_source, in_cluster

if TYPE_CHECKING:
    from cli.world import World

EXAMPLES = """\
examples:
  placet check policies/
  placet check --fix shop.policy
  placet check --explain P0331
  placet check --portable --frozen-label app policies/
  helm template shop | placet check -
  placet check --strict --output github --cluster cluster.json policies/
"""


QUESTION = flags_of(f"""
  --cost
    show what each expression can cost for one node
  --portable
    show which clauses autoscalers can be told of, and why not of the others
{FROZEN}
""")
ARGUMENTS = (
    *flags_of(f"""
  [PATH...]
    a policy file, a folder of policy files, or - for standard input
  --explain CODE
    what a code of a diagnostic means, with an example that is wrong and what mends it
{REPORT}
  --strict
    warnings count as errors
  --fix
    write fixes that are certain into the files
  --cluster SNAPSHOT,
    also say what each policy and clause does, and warn of label keys that no node has, in
    the cluster of the output of `kubectl get nodes,pods,replicasets -A -o json` (or yaml); may be
    given again
{DATA}"""),
    *QUESTION,
)


# The book of diagnostics, at the same place in a checkout and in the wheel.
BOOK = Path(__file__).parents[2] / "docs" / "diagnostics"
# The longest text of an expression in a table of costs.
_LONGEST = 72


def section(code: str) -> str:
    """The section of a code in the book of diagnostics. Raises CommandError."""
    book = "".join(page.read_text(encoding="utf-8") for page in sorted(BOOK.iterdir()))
    found = re.search(rf"(?ms)^## ({re.escape(code.upper())}: .+?)\s*(?=^##? |\Z)", book)
    if found is None:
        raise CommandError(f"no diagnostic has the code `{code}`", "name one such as `P0331`")
    return found[1]


def run(args: argparse.Namespace) -> int:
    if args.explain:
        text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", section(args.explain))
        print(re.sub(r"(?ms)^```\w+\n(.*?)^```$", lambda found: indent(found[1], "  "), text))
        return Exit.OK
    if not args.paths:
        raise CommandError("nothing to check is named", "name files or folders, or `-`")
    if args.output != "human" and (args.cost or args.portable):
        flag = "--cost" if args.cost else "--portable"
        raise CommandError(f"`{flag}` works only with the human format", "leave out `--output`")
    schema = load_schema()
    given = input_source(args.paths)
    if given is not None and args.fix:
        raise CommandError("`--fix` writes into files, and `-` is none", "name the files")
    with PassingLine(f"reading {named([str(path) for path in args.paths], 1)}"):
        loaded = load(args.paths) if given is None else Loaded((given,), ())
    sources = loaded.sources
    # Standard output of the other formats is for programs: it has only the findings.
    notes = sys.stdout if args.output == "human" else sys.stderr
    with PassingLine(f"checking {counted(len(sources), 'file')}"):
        to_fix = sources if args.fix else ()
        mended = [mend(s, lambda t: check_source(t, schema).diagnostics) for s in to_fix]
        for fixed in (each.source for each in mended if each.applied):
            replace_text(Path(fixed.name), fixed.text)
        sources = tuple(m.source for m in mended) if args.fix else sources
        validation = Validator(schema).validate(sources)
    for line in (line for m in mended if m.applied for line in _report(m)):
        put_line(line, notes)
    world = None
    if args.cluster:
        # Importing the engine takes as long as the rest of a check.
        from cli.world import World, put_useless, read_data  # noqa: PLC0415
        from engine.cache.cluster_copy import read_documents  # noqa: PLC0415
        from engine.enforced import enforced  # noqa: PLC0415

        policies = enforced(validation)
        rows = read_data(args, {each.name for each in policies.registry.tables.values()})
        world = World.of(replace(read_documents(args.cluster), data=rows), policies)
        put_useless(world)
    elif args.data:
        raise CommandError("`--data` works only with `--cluster`", "add `--cluster SNAPSHOT`")
    findings = _put(args, validation, world)
    for problem in loaded.problems:
        print_error(problem.message, problem.hint)
    beside = (Path(each.name).with_name("kustomization.yaml") for each in sources)
    if given is None and any(path.is_file() for path in beside):
        text = "note: of a folder with kustomization.yaml, check what `kustomize build` prints:"
        put_note(f"{text} `kustomize build FOLDER | placet check -`", args.output)
    if sources and (others := sum(file.others for file in validation.files)):
        put_note(f"note: {counted(others, 'object')} of other kinds skipped", args.output)
    if sources:
        put_note(_summary(findings, len(validation.policies), len(sources)), args.output)
    if loaded.problems:
        return Exit.ERROR
    return Exit.FINDINGS if fails(findings, strict=args.strict) else Exit.OK


def ask(args: argparse.Namespace, world: World) -> int:
    """Checks the files of a world, in its cluster, for people."""
    args.output = "human"
    policies = world.policies
    files = (f for f in policies.validation.files if f.source.name not in policies.stored)
    findings = _put(args, Validation(tuple(files)), world)
    return Exit.FINDINGS if fails(findings) else Exit.OK


def _put(
    args: argparse.Namespace, validation: Validation, world: World | None
) -> Sequence[Finding]:
    """Prints what is found of files, and what they do in a world; the findings."""
    if world is not None:
        validation = in_cluster(validation, world.cluster.facts())
    findings = list(validation.findings())
    names = (file.source.name for file in validation.files)
    put_report(findings, args.output, cases_of(findings, names))
    if world is not None and args.output == "human":
        for line in _effects(world):
            put_line(line, sys.stdout)
    if args.cost:
        for file in validation.files:
            for checked in file.policies:
                _put_costs(checked, file.source)
    if args.portable:
        _put_portability(args, validation)
    return findings


def _effects(world: World) -> Iterator[str]:
    """The lines that say what each policy and each clause does in the cluster."""
    from engine.explanation.effects import effects  # noqa: PLC0415
    from engine.offline import offline_engine  # noqa: PLC0415

    engine = offline_engine(world.policies.registry, world.cluster, world.codec)
    found = effects(engine, world.cluster)
    for policy in found:
        yield f"policy {policy.policy}: {policy.text}"
        for clause in policy.clauses:
            yield f"  {clause.clause}: {clause.text}"
    yield from (f"warning: {note}" for part in engine.parts for note in part.notes())
    if found:
        yield ""


def _put_costs(checked: Checked, source: Source) -> None:
    """Prints the steps of each expression for one node, and of its most expensive parts."""
    # Importing tables takes as long as the rest of a check.
    from cli.console import put, table  # noqa: PLC0415

    rows = list[tuple[str, str, str]]()
    for each in describe(checked.policy, checked.environment):
        for cost in (each, *each.parts):
            text = f"{'' if cost is each else '  '}{excerpt(source.slice(cost.span), _LONGEST)}"
            at = ":".join(map(str, source.position(cost.span.start)))
            rows.append((f"{cost.steps:,}", at, text))
    text = f"cost of {checked.policy.address} in steps for one node, of {LIMIT:,}"
    put([text, table("steps", "at", "expression", rows=rows, right=("steps",)), ""])


def _put_portability(args: argparse.Namespace, validation: Validation) -> None:
    """Prints which clauses that reject nodes autoscalers can be told of."""
    # Importing the engine takes as long as the rest of a check.
    from engine.objects.request_pod import ObjectCodec  # noqa: PLC0415
    from engine.portable.portable_clauses import portability  # noqa: PLC0415
    from engine.selectors.terms import Frozen  # noqa: PLC0415

    codec, frozen = ObjectCodec(load_schema()), Frozen.of(args.frozen_label, args.frozen_annotation)
    for checked in (c for c in validation.policies if not c.broken):
        policy, verdicts = checked.policy, portability(checked, codec, frozen)
        said = "portable" if policy.portable else "not `portable`, so nobody is told"
        print(f"policy {policy.address} ({said})")
        if not verdicts:
            print("  no clause rejects nodes")
        for verdict in verdicts:
            told = "told as it is" if verdict.exact else "told in part; Placet rejects more nodes"
            said = f"stays in Placet: {verdict.reason}" if verdict.reason else told
            print(f"  {verdict.clause or 'all clauses'}: {said}")
        print()


def _report(mended: Mended) -> list[str]:
    """The fixes in one file; each place is that of the text before the fix."""
    lines = [f"fixed {counted(len(mended.applied), 'mistake')} in {mended.source.name}"]
    for diagnostic, source in mended.applied:
        what = f"{diagnostic.code}: {diagnostic.message}"
        written = diagnostic.fix.text if diagnostic.fix else ""
        line, column = source.position(diagnostic.span.start)
        lines.append(f"  {line}:{column} {what}, now `{written}`")
    return [*lines, ""]


def _summary(findings: Sequence[Finding], policies: int, files: int) -> str:
    inside = f"in {counted(files, 'file')}"
    if found := totals(d for d, _ in findings):
        return f"{found} {inside}"
    return f"{counted(policies, 'policy', 'policies')} {inside}: no problems found"

"""Command `compare`: which policies an edit makes stricter or laxer, each with a test."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from cli import replicas
from cli.command import CommandError, Exit, flags_of
from cli.comparison.answers import PolicyAnswer, compared, has_solver, pairs
from cli.console import put
from cli.render import REPORT, Finding, cases_of, fails, put_note, put_report
from cli.streams import PassingLine
from cli.world import sources_of, valid
from grammar.meaning.schema import load_schema
from grammar.messages.diagnostics import Diagnostic, Severity
from grammar.messages.texts import counted
from grammar.tree.source import Source
from server.answers import PolicyDetail, PolicyList

EXAMPLES = """\
examples:
  placet compare HEAD:policies policies/
  placet compare --fail-on laxer -o github origin/main:policies policies/
  placet compare --in-force policies/
"""

_REVISION = "name a revision and a path below this folder, as in `HEAD~1:policies`"
ARGUMENTS = flags_of(f"""
  PATH...
    the old and the new policies: each a file, a folder, or REVISION:PATH of git
  --in-force
    in place of the old policies, those that the running Placet has
  --fail-on laxer|stricter|different
    end with 1 if a policy is; one that is neither stricter nor laxer is all of these
  --worlds N=400
    how many clusters are made up and asked about, for each policy that differs
{REPORT}
{replicas.PLACET}""")


def run(args: argparse.Namespace) -> int:
    if len(args.paths) != 2 - args.in_force:
        hint = "as in `placet compare HEAD:policies policies/`"
        wanted = "the new policies alone" if args.in_force else "the old policies and the new ones"
        raise CommandError(f"{counted(len(args.paths), 'path')} given: name {wanted}", hint)
    schema = load_schema()
    *before, after = [str(path) for path in args.paths]
    old = valid(_given(before[0]) if before else _in_force(args), schema)
    new = valid(_given(after), schema)
    with PassingLine("comparing"):
        given = pairs(old.policies, new.policies)
        answers = [compared(pair, schema, args.worlds) for pair in given]
    sources = {id(p): f.source for v in (old, new) for f in v.files for p in f.policies}
    findings = [_finding(each, sources, args.fail_on) for each in answers if each.tests]
    if args.output == "human":
        put(line for each in answers for line in _told(each))
    else:
        more = {"policies": [each.as_json for each in answers]}
        put_report(findings, args.output, cases_of(findings, ["compare"]), more)
    if not has_solver() and any(each.answer != "equal" for each in answers):
        text = "note: nothing is proven without a solver: `pip install z3-solver` adds one"
        put_note(text, args.output)
    found = (
        f"{counted(len(findings), 'difference')} in {counted(len(answers), 'policy', 'policies')}"
    )
    put_note(found, args.output)
    return Exit.FINDINGS if fails(findings) else Exit.OK


def _told(found: PolicyAnswer) -> Iterator[str]:
    """The lines about a policy, for people."""
    old, new = found.versions
    edit = "" if old and new else " (added)" if new else " (removed)"
    yield f"policy {found.policy.address}{edit}: {found.text}"
    if found.beside:
        yield f"  different, and not compared: {', '.join(found.beside)}"
    for test in found.tests.values():
        yield from ("", f"# holds with the {'new' if new else 'old'} version", *test.splitlines())
    if found.tests:
        yield ""


def _finding(found: PolicyAnswer, sources: Mapping[int, Source], fail_on: str) -> Finding:
    """The finding about a policy; what is neither stricter nor laxer is both."""
    is_wrong = fail_on == "different" or fail_on in found.tests
    message = f"policy {found.policy.address} is {found.text}"
    span, notes = found.policy.name_span, tuple(found.tests.values())
    severity: Severity = "error" if is_wrong else "warning"
    source = sources[id(found.versions[1] or found.versions[0])]
    return Diagnostic(found.answer, severity, message, span, notes=notes), source


# ---- what is compared


def _given(path: str) -> Sequence[Source]:
    """The policy files of a path, or of a revision of git. Raises CommandError."""
    revision, colon, inside = path.partition(":")
    if not colon or os.path.exists(path):  # noqa: PTH110 - `Path` raises for a long name
        return sources_of([Path(path)])
    if revision.startswith("-") or Path(inside).is_absolute():
        raise CommandError(f"`{path}` is no revision and path", _REVISION)
    archive = ["git", "archive", "--format=zip", f"{revision}^{{}}", "--", inside or "."]
    try:
        done = subprocess.run(archive, capture_output=True, check=True)  # noqa: S603 - no shell
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"").decode(errors="replace").strip() or str(error)
        raise CommandError(f"cannot read `{path}`: {said.splitlines()[-1]}", _REVISION) from None
    with TemporaryDirectory() as folder:
        with ZipFile(BytesIO(done.stdout)) as archived:
            archived.extractall(folder)
        sources = sources_of([Path(folder) / (inside or ".")])
    return [replace(s, name=f"{revision}:{Path(s.name).relative_to(folder)}") for s in sources]


def _in_force(args: argparse.Namespace) -> Sequence[Source]:
    """The policies of the running Placet, each file or object once. Raises CommandError."""

    async def read() -> Sequence[Source]:
        async with replicas.replicas(args) as found:
            lists, _ = await replicas.ask_all(found, "/policies", PolicyList)
            replica, known = next(iter(lists.items()))
            names = {each.origin: each.address for each in known.policies}
            asked = (replica.answer("/policies", PolicyDetail, each) for each in names.values())
            details = [await each for each in asked]
        # The text of an object is YAML, and its name may have a dot.
        kinds = "placementpolicies/", "clusterplacementpolicies/"
        named = [(e.origin, e.text) for e in details if e is not None]
        return [Source(f"{n}.yaml" if n.startswith(kinds) else n, text) for n, text in named]

    return asyncio.run(read())

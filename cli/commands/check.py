"""What each expression of a policy can cost, as `placet check --cost` shows it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cli.command import CommandError, Exit, replace_text
from cli.render import FORMATS, counted, print_error, render, summary, wants_colour
from grammar.checks.costs import LIMIT, describe
from grammar.diagnostics import Mended, mend
from grammar.policy_checker import Checked
from grammar.schema import Schema, load_schema
from grammar.source import Source, Span
from policies.loader import load
from policies.validation import Validation, Validator, check_source

_TEXT = 72


def cost_table(checked: Checked, source: Source, limit: int) -> Iterator[str]:
    """Steps for one node, place and text of every expression and its dearest parts, as lines."""
    described = list(describe(checked))
    yield f"cost of {checked.policy.address} in steps for one node, of {limit:,}"
    if not described:
        yield "  nothing"
        return
    rows = [
        row
        for d in described
        for row in (
            (d.steps, d.expr.span, ""),
            *((part.steps, part.span, "  ") for part in d.parts),
        )
    ]
    width = max(len(f"{steps:,}") for steps, _, _ in rows)
    places = [_place(source, span) for _, span, _ in rows]
    column = max(map(len, places))
    for (steps, span, indent), place in zip(rows, places, strict=True):
        yield f"  {steps:>{width},}  {place:<{column}}  {indent}{_shown(source.slice(span))}"


def _place(source: Source, span: Span) -> str:
    line, column = source.position(span.start)
    return f"{line}:{column}"


def _shown(text: str) -> str:
    """On one line, and no longer than a terminal shows well."""
    text = " ".join(text.split())
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"


# ---- `placet check`: everything that is wrong with policy files.

_EXAMPLES = """\
examples:
  placet check policies/
  placet check --fix shop.policy
  placet check --strict --format github --cluster cluster.json policies/
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "paths", metavar="PATH", nargs="+", type=Path, help="a policy file, or a folder of them"
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="human",
        help="human: with the line and a caret (default); plain: one line each; "
        "json: one document; github: annotations of a workflow",
    )
    parser.add_argument("--strict", action="store_true", help="warnings count as errors")
    parser.add_argument(
        "--fix", action="store_true", help="mend in the files what has one certain remedy"
    )
    parser.add_argument(
        "--cluster",
        metavar="SNAPSHOT",
        action="append",
        type=Path,
        help="also warn of label keys that no node has in what "
        "`kubectl get nodes -o json` (or yaml) wrote; may be given again",
    )
    parser.add_argument(
        "--cost", action="store_true", help="show what each expression can cost for one node"
    )
    parser.add_argument(
        "--cost-limit",
        metavar="STEPS",
        type=_steps,
        default=LIMIT,
        help="the most that an expression may cost for one node (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    if args.cost and args.format != "human":
        raise CommandError("`--cost` has only a human format", "leave out `--format`")
    schema = load_schema()
    loaded = load(args.paths)
    sources = loaded.sources
    if args.fix:
        # What other programs read has only findings on its lines.
        to = sys.stdout if args.format == "human" else sys.stderr
        mended = [_mended(s, schema, args.cost_limit) for s in sources]
        for line in (line for m in mended for line in _report(m)):
            print(line, file=to)
        sources = tuple(m.source for m in mended)
    validation = Validator(schema, args.cost_limit).validate(sources)
    if args.cluster:
        validation = _against_cluster(validation, args.cluster, schema)
    findings = list(validation.findings())
    for line in render(findings, args.format, colour=wants_colour(sys.stdout)):
        print(line)
    if args.cost:
        _print_costs(validation, args.cost_limit)
    for problem in loaded.problems:
        print_error(problem.message, problem.hint)
    if sources and args.format != "json":
        to = sys.stdout if args.format == "human" else sys.stderr
        print(summary(findings, len(validation.policies), len(sources)), file=to)
    if loaded.problems:
        return Exit.ERROR
    counting = ("error", "warning") if args.strict else ("error",)
    return Exit.FINDINGS if any(d.severity in counting for d, _ in findings) else Exit.OK


def _mended(source: Source, schema: Schema, cost_limit: int) -> Mended:
    """The source with its certain fixes, written to its file where there are any."""
    mended = mend(source, lambda s: check_source(s, schema, cost_limit).diagnostics)
    if mended.applied:
        replace_text(Path(source.name), mended.source.text)
    return mended


def _report(mended: Mended) -> list[str]:
    """What was mended in a file, with the places it had when it was."""
    if not mended.applied:
        return []
    lines = [f"fixed {counted(len(mended.applied), 'mistake')} in {mended.source.name}"]
    for diagnostic, source in mended.applied:
        line, column = source.position(diagnostic.span.start)
        what = f"{diagnostic.code}: {diagnostic.message}"
        written = diagnostic.fix.text if diagnostic.fix else ""
        lines.append(f"  {line}:{column} {what}, now `{written}`")
    return [*lines, ""]


def _against_cluster(
    validation: Validation, snapshot: Sequence[Path], schema: Schema
) -> Validation:
    # The engine takes as long to import as all the rest of a check takes.
    from cli import world as label_keys  # noqa: PLC0415

    return label_keys.read(snapshot, schema).looked_up(validation)


def _print_costs(validation: Validation, limit: int) -> None:
    for file in validation.files:
        for checked in file.policies:
            for line in cost_table(checked, file.source, limit):
                print(line)
            print()


def _steps(text: str) -> int:
    number = int(text.replace("_", "").replace(",", ""))
    if number < 1:
        raise ValueError(text)
    return number

"""`placet check`: everything that is wrong with policy files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cli.exits import Exit
from cli.render import FORMATS, print_error, render, summary, wants_colour
from grammar.schema import load_schema
from policies.loader import load
from policies.validation import Validator


def configure(parser: argparse.ArgumentParser) -> None:
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


def run(args: argparse.Namespace) -> int:
    loaded = load(args.paths)
    validation = Validator(load_schema()).validate(loaded.sources)
    findings = list(validation.findings())
    for line in render(findings, args.format, colour=wants_colour(sys.stdout)):
        print(line)
    for problem in loaded.problems:
        print_error(problem.message, problem.hint)
    if loaded.sources and args.format != "json":
        # What other programs read has only findings on its lines.
        to = sys.stdout if args.format == "human" else sys.stderr
        print(summary(findings, len(validation.policies), len(loaded.sources)), file=to)
    if loaded.problems:
        return Exit.ERROR
    counting = ("error", "warning") if args.strict else ("error",)
    return Exit.FINDINGS if any(d.severity in counting for d, _ in findings) else Exit.OK

"""Command `fmt`: policy files in canonical form."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cli.command import CommandError, Exit, replace_text
from cli.render import print_error, print_findings
from cli.streams import put_line, put_text
from grammar.syntax.parser import parse_file
from grammar.tree.printer import format_file
from grammar.tree.source import Source
from policies.loader import load
from policies.manifest_names import is_manifest

_STANDARD_INPUT = Path("-")
EXAMPLES = """\
examples:
  placet fmt policies/
  placet fmt --check policies/
  placet fmt - < draft.policy
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        type=Path,
        help="a policy file, a folder of them, or - for standard input to standard output",
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; list the files that would change"
    )


def run(args: argparse.Namespace) -> int:
    if _STANDARD_INPUT in args.paths:
        if args.paths != [_STANDARD_INPUT]:
            raise CommandError("`-` must be the only path", "format standard input separately")
        return _format_input(check=args.check)
    loaded = load(args.paths)
    for problem in loaded.problems:
        print_error(problem.message, problem.hint)
    unreadable = changed = 0
    # The layout of a manifest, including the rules in it, belongs to its author's tools.
    for source in (s for s in loaded.sources if not is_manifest(s.name)):
        text = _formatted(source)
        if text is None:
            unreadable += 1
        elif text != source.text:
            changed += 1
            if not args.check:
                replace_text(Path(source.name), text)
            put_line(f"{'would change' if args.check else 'changed'} {source.name}", sys.stdout)
    if loaded.problems:
        return Exit.ERROR
    return Exit.FINDINGS if unreadable or (changed and args.check) else Exit.OK


def _format_input(*, check: bool) -> int:
    try:
        source = Source("-", sys.stdin.read())
    except UnicodeDecodeError:
        raise CommandError("standard input is not UTF-8 text", "save it as UTF-8") from None
    text = _formatted(source)
    if text is None:
        return Exit.FINDINGS
    if check:
        return Exit.OK if text == source.text else Exit.FINDINGS
    put_text(text)
    return Exit.OK


def _formatted(source: Source) -> str | None:
    """The canonical text; None after the syntax errors were printed."""
    file, found = parse_file(source)
    errors = [(d, source) for d in found if d.severity == "error"]
    if not errors:
        return format_file(file, source)
    print_findings(errors)
    return None

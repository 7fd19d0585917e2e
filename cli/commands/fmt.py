"""Command `fmt`: policy files in canonical form."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path

from cli.command import Exit, flags_of, input_source, replace_text
from cli.render import print_error, put_findings
from cli.streams import put_line, put_text
from grammar.meaning.schema import load_schema
from grammar.messages.diagnostics import Diagnostic, mend
from grammar.syntax.formatter import format_file
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source
from policies.hints import with_hints
from policies.loader import Loaded, is_manifest, load
from policies.validation import check_source

EXAMPLES = """\
examples:
  placet fmt policies/
  placet fmt --check policies/
  placet fmt --diff policies/
  placet fmt --upgrade --diff policies/
  placet fmt - < draft.policy
"""


ARGUMENTS = flags_of("""
  PATH...
    a policy file, a folder of them, or - for standard input to standard output
  --check
    write nothing; list the files that would change
  --diff
    write nothing; show what would change, as a patch
  --upgrade
    write the words of earlier versions as they are today, before all else
""")


def run(args: argparse.Namespace) -> int:
    given = input_source(args.paths)
    loaded = load(args.paths) if given is None else Loaded((given,), ())
    for problem in loaded.problems:
        print_error(problem.message, problem.hint)
    unreadable = changed = 0
    for source in loaded.sources:
        # The layout of a manifest, including the rules in it, belongs to its author's tools.
        new = mend(source, _errors).source if args.upgrade else source
        text = new.text if is_manifest(source.name) else _formatted(new)
        unreadable += text is None
        is_changed = text not in (None, source.text)
        changed += is_changed
        if text is None or (not is_changed and given is None):
            continue
        if args.diff:
            _put_difference(source, text)
        elif given is None:
            if not args.check:
                replace_text(Path(source.name), text)
            put_line(f"{'would change' if args.check else 'changed'} {source.name}", sys.stdout)
        elif not args.check:
            put_text(text)
    if loaded.problems:
        return Exit.ERROR
    return Exit.FINDINGS if unreadable or (changed and (args.check or args.diff)) else Exit.OK


def _errors(source: Source) -> Sequence[Diagnostic]:
    return [d for d in check_source(source, load_schema()).diagnostics if d.severity == "error"]


def _put_difference(source: Source, text: str) -> None:
    """Prints what formatting would change, as `patch -p1` and `git apply` take it."""
    before, after = (t.splitlines(keepends=True) for t in (source.text, text))
    for line in unified_diff(before, after, f"a/{source.name}", f"b/{source.name}"):
        put_text(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")


def _formatted(source: Source) -> str | None:
    """The canonical text; None after the syntax errors were printed."""
    file, found = with_hints(lambda: parse_file(source))
    errors = [(d, source) for d in found if d.severity == "error"]
    if not errors:
        return format_file(file, source)
    put_findings(errors)
    return None

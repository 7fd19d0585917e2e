"""`python -m tests.conformance FILE` runs a file of cases and ends with `agree N of M`.

Every case runs on the plain evaluator; those that may be checked run through checker and compiler
too. A case agrees if each way it is run gives what it expects.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.conformance.cases import SUITE, compiled, plainly, read


def main(argv: list[str]) -> int:
    path = Path(argv[0]) if argv else SUITE
    if not path.exists():
        sys.stderr.write(f"there is no file {path}\n")
        return 2
    cases = read(path)
    agreed = 0
    for case in cases:
        ways = {"plain": plainly} | ({"compiled": compiled} if case.checked else {})
        wrong = {way: found for way, run in ways.items() if not case.agrees(found := run(case))}
        agreed += not wrong
        for way, found in wrong.items():
            shown = f"error: {found}" if isinstance(found, Exception) else repr(found)
            sys.stdout.write(
                f"tier {case.tier} {case.name}: {case.fields['expr']}\n    {way}: {shown}\n"
            )
            sys.stdout.write(f"    expected: {case.fields['expect']}\n")
    sys.stdout.write(f"agree {agreed} of {len(cases)}\n")
    return 0 if agreed == len(cases) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

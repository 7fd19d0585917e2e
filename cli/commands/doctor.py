"""Problems of configurations as a terminal, a script and a program want to see them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cli.command import CommandError, Exit, seconds
from cli.render import coloured, counted, wants_colour
from cli.scheduling.checks import Case, SchedulerRequirements, choose, examine, read_requirements
from cli.scheduling.configuration import Problem, configurations

FORMATS = ("human", "plain", "json")


def report(
    problems: Sequence[Problem], cases: Sequence[Case], form: str, *, colour: bool
) -> Iterator[str]:
    """The problems in one of FORMATS: plain a line each, human several, json one for all."""
    match form:
        case "plain":
            yield from map(_plain, problems)
        case "human":
            for problem in problems:
                text = _human(problem)
                yield coloured(text, problem.finding.severity) if colour else text
                yield ""
        case _:
            found = {"findings": [_as_json(p) for p in problems], "placet": _chosen(cases)}
            yield json.dumps(found, ensure_ascii=False)


def report_summary(problems: Sequence[Problem], cases: Sequence[Case]) -> Iterator[str]:
    """Which extender was taken for Placet, and how much was found."""
    for case in cases:
        if (ours := case.ours) is not None:
            source, because = case.configuration.source, case.choice.because
            yield f"{source}: `{ours.place}` is taken for Placet: {because}"
    severities = [problem.finding.severity for problem in problems]
    counts = [counted(severities.count(s), s) for s in ("error", "warning") if s in severities]
    yield ", ".join(counts) or "all is well"


def _where(problem: Problem) -> str:
    return f"{problem.source}:{problem.line}" if problem.line else problem.source


def _plain(problem: Problem) -> str:
    """`file:line: path: severity[code]: message (hint)`."""
    finding = problem.finding
    kind = f"{finding.severity}[{problem.code}]"
    return f"{_where(problem)}: {finding.place}: {kind}: {finding.message} ({finding.hint})"


def _human(problem: Problem) -> str:
    finding = problem.finding
    return (
        f"{finding.severity}[{problem.code}]: {finding.message}\n"
        f" --> {_where(problem)}: {finding.place}\n"
        f"  = help: {finding.hint}"
    )


def _as_json(problem: Problem) -> dict[str, object]:
    finding = problem.finding
    return {
        "file": problem.source,
        "line": problem.line or None,
        "place": finding.place,
        "severity": finding.severity,
        "code": problem.code,
        "message": finding.message,
        "hint": finding.hint,
    }


def _chosen(cases: Sequence[Case]) -> list[dict[str, object]]:
    return [
        {
            "file": case.configuration.source,
            "extender": None if case.ours is None else case.ours.place,
            "because": case.choice.because,
        }
        for case in cases
    ]


# ---- `placet doctor`: what is wrong with the configuration of a kube-scheduler that asks Placet.

_STDIN = "-"
_EXAMPLES = """\
examples:
  placet doctor /etc/kubernetes/kube-scheduler.yaml
  placet doctor /etc/kubernetes/manifests/kube-scheduler.yaml --policies policies/
  placet doctor --kubeconfig ~/.kube/config
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="a KubeSchedulerConfiguration, an old Policy, a ConfigMap with one of them, or the "
        "manifest of a kube-scheduler; - is standard input",
    )
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        type=Path,
        help="look into the ConfigMaps of kube-system in the cluster of this kubeconfig",
    )
    parser.add_argument("--context", help="the same, with a context other than its current one")
    parser.add_argument(
        "--policies",
        metavar="PATH",
        action="append",
        type=Path,
        help="policy files, or a folder of them, that the configuration has to fit; may be given "
        "again",
    )
    parser.add_argument(
        "--url", help="the urlPrefix of the extender that is Placet, where several could be"
    )
    parser.add_argument(
        "--http-timeout",
        metavar="TIME",
        type=seconds,
        default="5s",
        help="as given to `placet serve` (default: %(default)s)",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="human",
        help="human (default); plain: one line each; json: one document",
    )
    parser.add_argument("--strict", action="store_true", help="warnings count as errors")


def run(args: argparse.Namespace) -> int:
    demands = None if args.policies is None else _demands(args.policies)
    cases = [
        Case(found, choose(found.extenders, args.url), args.http_timeout, demands)
        for found in configurations(_texts(args), _open)
    ]
    problems = [problem for case in cases for problem in examine(case)]
    for line in report(problems, cases, args.format, colour=wants_colour(sys.stdout)):
        print(line)
    if args.format != "json":
        to = sys.stdout if args.format == "human" else sys.stderr
        for line in report_summary(problems, cases):
            print(line, file=to)
    counting = ("error", "warning") if args.strict else ("error",)
    found = any(problem.finding.severity in counting for problem in problems)
    return Exit.FINDINGS if found else Exit.OK


def _texts(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What there is to look at: names and texts."""
    texts = [("standard input" if n == _STDIN else n, _read(n)) for n in args.files]
    if args.kubeconfig is not None or args.context is not None:
        # The client takes longer to import than all the rest.
        from cli.live import config_maps  # noqa: PLC0415

        texts.append(config_maps(args.kubeconfig, args.context))
    if not texts:
        raise CommandError("there is nothing to look at", "name a file, or a --kubeconfig")
    return texts


def _read(name: str) -> str:
    if name == _STDIN:
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(f"cannot read `{name}`: {reason}", "check the path") from None
    except UnicodeDecodeError:
        raise CommandError(f"`{name}` is not UTF-8 text", "save it as UTF-8") from None


def _open(path: str) -> str | None:
    """The file that a manifest names, if it is on this machine."""
    return _read(path) if Path(path).is_file() else None


def _demands(paths: list[Path]) -> SchedulerRequirements:
    return read_requirements(paths)

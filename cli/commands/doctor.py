"""`placet doctor`: what is wrong with the configuration of a kube-scheduler that asks Placet."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cli.arguments import seconds
from cli.exits import CommandError, Exit
from cli.render import wants_colour
from cli.scheduling.case import Case, Demands, choose
from cli.scheduling.configuration import configurations
from cli.scheduling.examination import examine
from cli.scheduling.telling import FORMATS, summary, tell

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
    for line in tell(problems, cases, args.format, colour=wants_colour(sys.stdout)):
        print(line)
    if args.format != "json":
        to = sys.stdout if args.format == "human" else sys.stderr
        for line in summary(problems, cases):
            print(line, file=to)
    counting = ("error", "warning") if args.strict else ("error",)
    found = any(problem.finding.severity in counting for problem in problems)
    return Exit.FINDINGS if found else Exit.OK


def _texts(args: argparse.Namespace) -> list[tuple[str, str]]:
    """What there is to look at: names and texts."""
    texts = [("standard input" if n == _STDIN else n, _read(n)) for n in args.files]
    if args.kubeconfig is not None or args.context is not None:
        # The client takes longer to import than all the rest.
        from cli.scheduling.live import config_maps  # noqa: PLC0415

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


def _demands(paths: list[Path]) -> Demands:
    # Compiling needs the engine, which takes longer to import than all the rest.
    from cli.scheduling.demands import read_demands  # noqa: PLC0415

    return read_demands(paths)

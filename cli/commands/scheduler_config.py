"""Command `scheduler-config`: a kube-scheduler configuration with Placet as an extender."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cli.command import CommandError, Exit, read_file
from cli.doctor.generator import (
    DEFAULT_VERBS,
    OUR_LEASE,
    OUR_URL,
    VERBS,
    Extender,
    configuration,
    own_lease,
    section,
)
from cli.flag_table import add_flags, flags_of
from cli.streams import put_line, put_text
from engine.objects.gate import ENABLED, GATE, OPT_IN
from grammar.values.time import SECOND, Duration

if TYPE_CHECKING:
    from cli.doctor.requirements import SchedulerRequirements

EXAMPLES = """\
examples:
  placet scheduler-config > kube-scheduler.yaml
  placet scheduler-config --url https://10.96.0.50:443 --ca ca.crt --server-name placet
  placet scheduler-config --section --verbs filter,prioritize,preempt,bind
  placet scheduler-config --policies policies/
  placet scheduler-config --from policy.json > kube-scheduler.yaml
"""


def _verbs(text: str) -> tuple[str, ...]:
    """The verbs of a list, in the order of VERBS."""
    named = [name.strip() for name in text.split(",")]
    for name in named:
        if name not in VERBS:
            raise argparse.ArgumentTypeError(
                f"`{name}` is not a verb of an extender: {', '.join(VERBS)}"
            )
    return tuple(verb for verb in VERBS if verb in named)


_TABLE = f"""
the output:
  --section
    only the fields to add to an existing one
  --scheduler-name NAME
    for a second kube-scheduler: the schedulerName of its pods and the name of its Lease
  --scheduler-kubeconfig FILE
    the kubeconfig of a kube-scheduler without a service account, such as
    /etc/kubernetes/scheduler.conf
the extender:
  --url URL={OUR_URL}
    urlPrefix: the URL of Placet for kube-scheduler
  --verbs VERB,…
    some of {", ".join(VERBS)} (default: {",".join(DEFAULT_VERBS)}; with --policies, those that the
    policies need)
  --weight NUMBER=10
    the multiplier of scores
  --http-timeout TIME=5s
    httpTimeout, the same as that of `placet serve`
  --policies PATH,
    a policy file or a folder of them: the verbs are those that they need, and if they have bindings
    wait, bind gets an entry of its own with an httpTimeout above the longest wait; may be given
    again
  --bind-http-timeout TIME
    the httpTimeout of an entry for bind alone; this flag adds that entry and bind
  --no-node-cache-capable
    send whole nodes; kube-scheduler 1.36 then treats every node as idle
  --managed-resource NAME,
    call Placet only for pods with this extended resource; may be given again
  --gate
    call Placet only for pods with the marker `{GATE}`, which pods of namespaces that opt in get
    when they are created
  --ignored-resource NAME,
    the same, and kube-scheduler itself ignores the resource (ignoredByScheduler)
  --ignorable
    schedule without Placet when it does not answer
TLS, for a URL with https:
  --ca FILE
    the CA of Placet's certificate, for caData
  --client-cert FILE
    kube-scheduler's certificate, for certData
  --client-key FILE
    its key, for keyData
  --server-name NAME
    serverName
  --tls-paths
    write the paths of these files on kube-scheduler's machine instead of their content
  --insecure
    trust any server
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        help="convert this Policy or older KubeSchedulerConfiguration, and say what is different "
        "or not converted; Placet is added if it has no extenders; - is standard input",
    )
    add_flags(parser, flags_of(_TABLE, {"--verbs": _verbs, "NUMBER": int, "FILE": str}))


def run(args: argparse.Namespace) -> int:
    # Importing YAML takes longer than the rest of this command.
    from cli.doctor.findings import refuse_unsound  # noqa: PLC0415

    if args.section and (args.scheduler_name or args.scheduler_kubeconfig):
        raise CommandError(
            "`--section` does not work with a scheduler's name or kubeconfig", "leave out --section"
        )
    extender = _extender(args)
    if args.source is not None:
        return _convert(args, extender)
    whole = configuration(extender, args.scheduler_name or "", args.scheduler_kubeconfig or "")
    refuse_unsound(whole, args.http_timeout)
    put_text(section(extender) if args.section else whole)
    binds = "bind" in extender.verbs
    for line in _placets_side(args.scheduler_name or "", binds=binds, has_gate=args.gate):
        print(line, file=sys.stderr)
    return Exit.OK


def _convert(args: argparse.Namespace, extender: Extender) -> int:
    """Prints what a configuration is converted to, and on standard error what is different."""
    # Importing YAML takes longer than the rest of this command.
    from cli.doctor.configuration_text import configurations, read_text  # noqa: PLC0415
    from cli.doctor.conversion import convert  # noqa: PLC0415

    given = {"--section": args.section, "--scheduler-name": args.scheduler_name}
    if flag := next((flag for flag, is_given in given.items() if is_given), ""):
        raise CommandError(f"`{flag}` does not work with `--from`", f"leave out {flag}")
    found, *more = configurations([read_text(args.source)], lambda _path: None)
    if more:
        hint = "give a file with one of them"
        raise CommandError(f"there are {len(more) + 1} configurations in `{args.source}`", hint)
    converted = convert(found, extender, url=args.url, binds="bind" in extender.verbs)
    put_text(converted.text)
    for note in converted.notes:
        put_line(f"note: {note}", sys.stderr)
    return Exit.OK


def _placets_side(scheduler_name: str, *, binds: bool, has_gate: bool) -> Iterator[str]:
    """The lines about what this configuration needs of Placet."""
    flags = [flag for flag, given in ((" --bind", binds), (" --gate", has_gate)) if given]
    if scheduler_name:
        flags += [f" --scheduler-name {scheduler_name}"]
        flags += [f" --scheduler-lease {OUR_LEASE[0]}/{own_lease(scheduler_name)}"]
    if flags:
        yield f"start Placet with: placet serve{''.join(flags)}"
    if binds:
        yield "give it the right to bind with: kubectl apply -f deploy/rbac/bind/placet.yaml"
    if has_gate:
        yield "have new pods marked with: kubectl apply -f deploy/admission/gate-policy.yaml"
        yield f"for each namespace with policies: kubectl label namespace NAME {OPT_IN}={ENABLED}"


def _extender(args: argparse.Namespace) -> Extender:
    kind = "File" if args.tls_paths else "Data"
    files = {"ca": args.ca, "cert": args.client_cert, "key": args.client_key}
    tls = {"insecure": args.insecure, "serverName": args.server_name}
    tls |= {f"{part}{kind}": _file(path, paths=args.tls_paths) for part, path in files.items()}
    needs = None
    if args.policies:
        # Importing the grammar takes longer than the rest of this command.
        from cli.doctor.requirements import read_requirements  # noqa: PLC0415

        needs = read_requirements(args.policies)
    extender = Extender(
        url=args.url,
        verbs=args.verbs or (DEFAULT_VERBS if needs is None else needs.verbs),
        weight=args.weight,
        http_timeout=Duration.of(round(args.http_timeout * SECOND)),
        node_cache_capable=not args.no_node_cache_capable,
        ignorable=args.ignorable,
        tls={name: value for name, value in tls.items() if value},
        managed_resources=(*((GATE,) if args.gate else ()), *args.managed_resource),
        ignored_resources=tuple(args.ignored_resource),
    )
    bind_timeout = _bind_timeout(args, needs)
    if bind_timeout == 0:
        return extender
    return extender.binding(Duration.of(round(bind_timeout * SECOND)))


def _bind_timeout(args: argparse.Namespace, needs: SchedulerRequirements | None) -> float:
    """The httpTimeout in seconds of an entry for bind alone; 0 without one. Raises CommandError."""
    needed = 0.0 if needs is None else needs.bind_timeout(args.http_timeout)
    given = args.bind_http_timeout
    if given is not None and given < needed:
        raise CommandError(
            f"the policies have a binding take up to {needed:g} s, longer than "
            f"`--bind-http-timeout {given:g}s`",
            f"write `--bind-http-timeout {needed:g}s`, or leave it out",
        )
    return needed if given is None else float(given)


def _file(path: str | None, *, paths: bool) -> bytes | str | None:
    """The content of a file, or its path with `--tls-paths`; None without a file."""
    if path is None or paths:
        return path
    hint = "check the path, or write only the path with --tls-paths"
    if not (content := read_file(path, hint)):
        raise CommandError(f"`{path}` is empty", hint)
    return content

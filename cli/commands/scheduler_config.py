"""Command `scheduler-config`: a kube-scheduler configuration with Placet as an extender."""

from __future__ import annotations

import argparse
import sys
from base64 import b64encode
from collections.abc import Iterator, Sequence

from cli.command import CommandError, Exit, flags_of, read_file
from cli.doctor.configuration_text import configurations, read_text
from cli.doctor.context import read_requirements
from cli.doctor.findings import converted, refuse_unsound
from cli.doctor.generator import (
    DEFAULT_VERBS,
    OUR_LEASE,
    OUR_URL,
    VERBS,
    Json,
    configuration,
    own_lease,
    section,
    with_bind_apart,
    yaml_of,
)
from cli.streams import put_line, put_text
from engine.objects.gate import ENABLED, GATE, OPT_IN
from grammar.values.time import SECOND, Duration

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


ARGUMENTS = flags_of(
    f"""
the output:
  --from FILE
    convert this Policy or older KubeSchedulerConfiguration, and say what is different or not
    converted; Placet is added if it has no extenders; - is standard input
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
  --http-timeout TIME=5s
    httpTimeout, the same as that of `placet serve`
  --policies PATH,
    a policy file or a folder of them: the verbs are those that they need, and if they have bindings
    wait, bind gets an entry of its own with an httpTimeout above the longest wait; may be given
    again
  --bind-http-timeout TIME
    the httpTimeout of an entry for bind alone; this flag adds that entry and bind
  --gate
    call Placet only for pods with the marker `{GATE}`, which pods of namespaces that opt in get
    when they are created
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
""",
    {"--verbs": _verbs, "FILE": str},
)


def run(args: argparse.Namespace) -> int:
    if args.section and (args.scheduler_name or args.scheduler_kubeconfig):
        raise CommandError(
            "`--section` does not work with a scheduler's name or kubeconfig", "leave out --section"
        )
    extenders = _extenders(args)
    if (source := vars(args)["from"]) is not None:
        return _convert(source, args, extenders)
    name = args.scheduler_name or ""
    whole = configuration(extenders, name, args.scheduler_kubeconfig or "")
    refuse_unsound(yaml_of(whole), args.http_timeout, extenders[0]["urlPrefix"])
    put_text(yaml_of(section(extenders) if args.section else whole))
    binds = any("bindVerb" in each for each in extenders)
    for line in _placets_side(name, binds=binds, has_gate=args.gate):
        print(line, file=sys.stderr)
    return Exit.OK


def _convert(source: str, args: argparse.Namespace, extenders: Sequence[Json]) -> int:
    """Prints what a configuration is converted to, and on standard error what is different."""
    given = {"--section": args.section, "--scheduler-name": args.scheduler_name}
    if flag := next((flag for flag, is_given in given.items() if is_given), ""):
        raise CommandError(f"`{flag}` does not work with `--from`", f"leave out {flag}")
    found, *more = configurations([read_text(source)])
    if more:
        hint = "give a file with one of them"
        raise CommandError(f"there are {len(more) + 1} configurations in `{source}`", hint)
    text, notes = converted(found, extenders, args.http_timeout, args.url)
    put_text(text)
    for note in notes:
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


def _extenders(args: argparse.Namespace) -> list[Json]:
    """The entries of Placet, of which one may be for bind alone. Raises CommandError."""
    needs = read_requirements(args.policies) if args.policies else None
    bind_timeout = 0.0 if needs is None else needs.bind_timeout(args.http_timeout)
    if args.bind_http_timeout is not None:
        if args.bind_http_timeout < bind_timeout:
            raise CommandError(
                f"the policies have a binding take up to {bind_timeout:g} s, longer than "
                f"`--bind-http-timeout {args.bind_http_timeout:g}s`",
                f"write `--bind-http-timeout {bind_timeout:g}s`, or leave it out",
            )
        bind_timeout = args.bind_http_timeout
    wanted = args.verbs or (DEFAULT_VERBS if needs is None else needs.verbs)
    verbs = [verb for verb in VERBS if verb in wanted or (verb == "bind" and bind_timeout)]
    made: Json = {"urlPrefix": args.url, **{f"{verb}Verb": verb for verb in verbs}}
    if "prioritize" in verbs:
        made["weight"] = 10
    if args.url.lower().startswith("https:"):
        made["enableHTTPS"] = True
    if tls := _tls(args):
        made["tlsConfig"] = tls
    made["httpTimeout"] = _duration(args.http_timeout)
    made["nodeCacheCapable"] = True
    if args.gate:
        made["managedResources"] = [{"name": GATE}]
    made["ignorable"] = False
    return with_bind_apart(made, _duration(bind_timeout)) if bind_timeout else [made]


def _duration(seconds: float) -> str:
    return str(Duration.of(round(seconds * SECOND)))


def _tls(args: argparse.Namespace) -> Json:
    """The `tlsConfig`: the files with their content, or with `--tls-paths` their paths."""
    made: Json = {"serverName": args.server_name}
    for part, path in (("ca", args.ca), ("cert", args.client_cert), ("key", args.client_key)):
        if path is not None and args.tls_paths:
            made[f"{part}File"] = path
        elif path is not None:
            hint = "check the path, or write only the path with --tls-paths"
            if not (content := read_file(path, hint)):
                raise CommandError(f"`{path}` is empty", hint)
            made[f"{part}Data"] = b64encode(content).decode("ascii")
    return {name: value for name, value in made.items() if value}

"""Command `doctor`: problems in the configuration of a kube-scheduler that calls Placet."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

from cli.command import CONTEXT, CommandError, Exit, flags_of
from cli.doctor.configuration_text import configurations, read_text
from cli.doctor.context import ConfigurationContext, Found, read_requirements
from cli.doctor.findings import examine
from cli.doctor.generator import OUR_LEASE
from cli.doctor.schema import ExtenderEntry, placets
from cli.render import REPORT, cases_of, fails, put_note, put_report, totals
from cli.version import version
from grammar.messages.diagnostics import nearest

EXAMPLES = """\
examples:
  placet doctor /etc/kubernetes/kube-scheduler.yaml
  placet doctor /etc/kubernetes/manifests/kube-scheduler.yaml --policies policies/
  placet doctor --kubeconfig ~/.kube/config
  placet doctor --probe /etc/kubernetes/kube-scheduler.yaml
"""
ARGUMENTS = flags_of(f"""
  [FILE...]
    a KubeSchedulerConfiguration, an old Policy, a ConfigMap with one of them, or the manifest of a
    kube-scheduler pod; - is standard input
  --policies PATH,
    a policy file or a folder of them: check that the configuration supports these policies; may be
    given again
  --url URL
    the urlPrefix of Placet, if several extenders could be Placet
  --http-timeout TIME=5s
    that of `placet serve`
  --bind
    `placet serve` is started with --bind
  --gate
    `placet serve` is started with --gate
  --lease NAMESPACE/NAME={"/".join(OUR_LEASE)}
    that of `placet serve`
  --kube-scheduler PROGRAM
    also ask this kube-scheduler whether it starts with the configuration, which it alone knows of
    plugins and their arguments
  --probe
    also ask the running Placet as kube-scheduler would, with its URL, TLS and timeout
  --strict
    warnings count as errors
{REPORT}
a running cluster, whose ConfigMaps of kube-system and policies are read:
{CONTEXT}
""")


def run(args: argparse.Namespace) -> int:
    maps: list[tuple[str, str]] = []
    objects: Mapping[str, bytes] = {}
    if args.kubeconfig is not None or args.context is not None:
        # Importing the client takes longer than the rest of this command.
        from cli.live import opened  # noqa: PLC0415

        otherwise = "give the file of the configuration"
        with opened(args.kubeconfig, args.context, otherwise) as live:
            found = live.scheduler_objects()
        maps.append((found.server, found.config_maps))
        objects = found.policies
    has_policies = args.policies or objects
    requirements = read_requirements(args.policies, objects) if has_policies else None
    texts = [*map(read_text, map(str, args.files)), *maps]
    if not texts:
        raise CommandError("no configuration is given", "give a file or --kubeconfig FILE")
    served = (args.bind, args.lease, args.gate)
    contexts = [
        ConfigurationContext(found, *ours, args.http_timeout, requirements, *served)
        for found in configurations(texts)
        for ours in [_placets(found.extenders, args.url)]
    ]
    findings = [each for context in contexts for each in examine(context, _asked(context, args))]
    cases = cases_of(findings, (each.configuration.source for each in contexts))
    chosen = [
        {"file": each.configuration.source, "extender": place, "because": each.because}
        for each in contexts
        for place in [each.ours and each.ours.place]
    ]
    put_report(findings, args.output, cases, {"placet": chosen})
    for context in contexts:
        if places := [f"`{each.place}`" for each in context.entries]:
            taken = f"{' and '.join(places)} {'are' if places[1:] else 'is'} taken for Placet"
            source = context.configuration.source
            put_note(f"{source}: {taken}: {context.because}", args.output)
    put_note(totals(d for d, _ in findings) or "no problems found", args.output)
    return Exit.FINDINGS if fails(findings, strict=args.strict) else Exit.OK


def _placets(
    extenders: Sequence[ExtenderEntry], url: str | None
) -> tuple[tuple[ExtenderEntry, ...], str]:
    """Those that are Placet, and why. Raises CommandError if none has the URL."""
    if url is not None and not any(each.has_url(url) for each in extenders):
        close = nearest(url, [each.url_prefix for each in extenders])
        hint = f"a similar one exists: `{close}`" if close else "give the `urlPrefix` of one"
        raise CommandError(f"no extender has the URL `{url}`", hint)
    return placets(extenders, url)


def _asked(context: ConfigurationContext, args: argparse.Namespace) -> Iterator[tuple[str, Found]]:
    """What programs say that are asked, by code: the running Placet, and a kube-scheduler."""
    if not args.probe and args.kube_scheduler is None:
        return
    # Importing HTTP takes longer than the rest of this command.
    from cli.doctor.probe import probe, started  # noqa: PLC0415

    if args.probe and context.ours is not None and context.ours.host:
        yield from (("probe", each) for each in probe(context.entries, version()))
    if args.kube_scheduler is not None:
        said = started(args.kube_scheduler, context.configuration.text)
        yield from (("kube-scheduler", each) for each in said)

"""Every check, by the name that its findings go by, and what they say of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from cli.exits import CommandError
from cli.scheduling.case import Case, choose
from cli.scheduling.checks import asked, connection, whole
from cli.scheduling.configuration import configurations
from cli.scheduling.entry import Entry
from cli.scheduling.finding import Finding, Problem

OF_ALL: Mapping[str, Callable[[Case], Iterator[Finding]]] = {
    "version": whole.version,
    "unknown-field": whole.unknown_field,
    "repeated-field": whole.repeated_field,
    "wrong-type": whole.wrong_type,
    "no-extender": whole.no_extender,
    "two-binders": whole.two_binders,
    "weight": whole.weight,
    "resource-name": whole.resource_name,
    "tls-conflict": whole.tls_conflict,
    "no-certificate": whole.no_certificate,
    "later-filter": whole.later_filter,
    "asked-twice": whole.asked_twice,
    "sampled-nodes": whole.sampled_nodes,
    "shared-lease": whole.shared_lease,
}
OF_OURS: Mapping[str, Callable[[Entry, Case], Iterator[Finding]]] = {
    "url": connection.url,
    "service-name": connection.service_name,
    "no-ca": connection.no_ca,
    "no-encryption": connection.no_encryption,
    "timeout": connection.timeout,
    "verb": asked.verb,
    "missing-verb": asked.missing_verb,
    "no-binder": asked.no_binder,
    "whole-nodes": asked.whole_nodes,
    "ignorable": asked.ignorable,
    "managed-resources": asked.managed_resources,
}


def examine(case: Case) -> list[Problem]:
    """What is wrong, in the order of the file as far as lines are known; errors first on a line."""
    found = [(code, finding) for code, check in OF_ALL.items() for finding in check(case)]
    if (ours := case.ours) is not None:
        found += [(code, f) for code, check in OF_OURS.items() for f in check(ours, case)]
    # What cannot be read counts as zero, which others need not complain about.
    unread = {f.place for code, f in found if code == "wrong-type"}
    found = [(code, f) for code, f in found if code == "wrong-type" or f.place not in unread]
    source, line = case.configuration.source, case.configuration.line
    problems = [Problem(source, line(f.place), code, f) for code, f in found]
    return sorted(problems, key=lambda p: (p.line, p.finding.severity))


def refuse_unsound(text: str, http_timeout: float) -> None:
    """Raises CommandError for a configuration of ours with which nothing could work."""
    (configuration,) = configurations([("the configuration", text)], lambda _path: None)
    case = Case(configuration, choose(configuration.extenders), http_timeout)
    for problem in examine(case):
        if problem.finding.severity == "error":
            raise CommandError(problem.finding.message, problem.finding.hint)

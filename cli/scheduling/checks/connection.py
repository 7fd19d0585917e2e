"""Checks of the way from kube-scheduler to Placet: URL, name, encryption, timeout."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cli.scheduling.case import Case
from cli.scheduling.entry import Entry
from cli.scheduling.finding import Finding

# As kube-scheduler has it where nothing is said (C2).
DEFAULT_TIMEOUT = 5.0
# Cycles are serial: for so long an answer that never comes holds up every pod.
LONG_TIMEOUT = 30.0
_PATHS = ("", "/api/scheduler")
_SERVICE = re.compile(r"[^.]+\.[^.]+\.svc(\..+)?|[^.:]+")


def url(ours: Entry, _case: Case) -> Iterator[Finding]:
    """A prefix that calls cannot be sent to, or not to Placet."""
    prefix = ours.prefix
    at, hint = ours.at("urlPrefix"), "as in `http://127.0.0.1:12345/api/scheduler`"
    if not ours.url:
        yield Finding("error", at, "there is no `urlPrefix` to send calls to", f"write one, {hint}")
    elif prefix.scheme not in ("http", "https") or not prefix.host:
        message = f"`{ours.url}` is no URL of a server: every call fails"
        yield Finding("error", at, message, f"write scheme and host, {hint}")
    elif prefix.path not in _PATHS:
        message = f"Placet has no path `{prefix.path}`, unless something before it rewrites paths"
        yield Finding("warning", at, message, "end it with `/api/scheduler`")


def service_name(ours: Entry, case: Case) -> Iterator[Finding]:
    """The DNS name of a service, which a static pod cannot resolve."""
    host, manifest = ours.prefix.host, case.configuration.manifest
    if ours.prefix.local or not _SERVICE.fullmatch(host):
        return
    hint = "name the service's cluster IP, or run Placet beside kube-scheduler on 127.0.0.1"
    at = ours.at("urlPrefix")
    if manifest is None:
        message = f"kube-scheduler as a static pod cannot resolve the service name `{host}`"
        yield Finding("warning", at, message, hint)
    elif not manifest.resolves_services:
        network = " on the host's network" if manifest.host_network else ""
        policy = manifest.dns_policy or "ClusterFirst"
        message = (
            f"kube-scheduler{network} with `dnsPolicy: {policy}` cannot resolve the service "
            f"name `{host}`"
        )
        more = f"{hint}, or set `dnsPolicy: ClusterFirstWithHostNet`"
        yield Finding("error", at, message, more if manifest.host_network else hint)


def no_ca(ours: Entry, _case: Case) -> Iterator[Finding]:
    """HTTPS that trusts anybody (C8)."""
    if ours.prefix.scheme != "https":
        return
    at, hint = ours.at("tlsConfig"), "put the CA of Placet's certificate into `tlsConfig.caData`"
    if ours.tls.insecure and not ours.tls.ca:
        message = "`insecure: true` takes any server for Placet"
        yield Finding("warning", f"{at}.insecure", message, hint)
    elif ours.https and not ours.tls.ca:
        message = f"`{ours.https_name}` without a CA takes any server for Placet"
        yield Finding("error", at, message, hint)
    elif not ours.tls.ca:
        message = "without a CA only a certificate of a public authority is accepted"
        yield Finding("warning", at, message, hint)


def no_encryption(ours: Entry, _case: Case) -> Iterator[Finding]:
    """What looks encrypted and is not: the scheme alone decides."""
    prefix, at = ours.prefix, ours.at("urlPrefix")
    if prefix.scheme != "http":
        return
    if ours.https or ours.tls.given:
        meant = f"`{ours.https_name}`" if ours.https else "`tlsConfig`"
        message = f"{meant} has no effect: the URL begins with `http:`, and that decides"
        yield Finding("error", at, message, "begin it with `https:`, or take the other out")
    elif not prefix.local:
        message = f"pods are sent to `{prefix.host}`, and answers come back, without encryption"
        yield Finding("warning", at, message, "serve TLS, or run Placet beside kube-scheduler")


def timeout(ours: Entry, case: Case) -> Iterator[Finding]:
    """kube-scheduler that hangs up before Placet answers, or waits for too long (C2)."""
    at, own = ours.at("httpTimeout"), case.http_timeout
    has = DEFAULT_TIMEOUT if ours.timeout is None else ours.timeout
    write = f"write `httpTimeout: {_written(own, legacy=ours.legacy)}`"
    if has < own:
        unset = " by default" if ours.timeout is None else ""
        message = (
            f"kube-scheduler waits{unset} for {has:g} s, and Placet takes up to four fifths "
            f"of {own:g} s"
        )
        hint = f"{write}, or serve with `--http-timeout {has:g}s`"
        yield Finding("error", at, message, hint if has > 0 else write)
    elif ours.timeout is None:
        message = f"there is no `httpTimeout`: kube-scheduler waits for {DEFAULT_TIMEOUT:g} s"
        yield Finding("warning", at, message, write)
    elif has > LONG_TIMEOUT:
        message = f"an answer that does not come holds up every pod for {has:g} s"
        yield Finding("warning", at, message, write)


def _written(seconds: float, *, legacy: bool) -> str:
    return str(round(seconds * 10**9)) if legacy else f"{seconds:g}s"

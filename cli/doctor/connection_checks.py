"""Checks of the connection to an extender: URL, host name, encryption, certificates, timeout."""

from __future__ import annotations

import re
import ssl
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

from cli.doctor.context import ConfigurationContext, Found, error, refused, warning
from cli.doctor.schema import DEFAULT_TIMEOUT, OUR_PATH, OUR_PORT, ExtenderEntry, TlsConfig
from policies.disk import contents

# Scheduling cycles are serial: a missing answer delays every pod for this long.
LONG_TIMEOUT = 30.0
_SERVICE = re.compile(r"[^.]+\.[^.]+\.svc(\..+)?|[^.:]+")


def url(ours: ExtenderEntry, _context: ConfigurationContext) -> Iterator[Found]:
    """A prefix that is not a URL, or not one of Placet."""
    prefix, extra = ours.prefix, re.sub(r"^[^?#]*", "", ours.url_prefix)
    at, hint = ours.at("urlPrefix"), "as in `http://127.0.0.1:12345/api/scheduler`"
    if prefix.scheme not in ("http", "https") or not ours.host:
        message = f"`{ours.url_prefix}` is not a URL of a server: every call fails"
        yield error(at, message, f"write scheme and host, {hint}")
    elif extra:
        message = (
            f"`{ours.url_prefix}` does not end with a path: kube-scheduler appends the verb to "
            f"`{extra}`, so every call fails"
        )
        yield error(at, message, f"remove `{extra}`")
    elif prefix.port is None and (prefix.scheme == "http" or ours.is_local):
        message = f"kube-scheduler calls port {ours.port} of `{ours.host}`, as none is written"
        hint = (
            f"write the port of `placet serve`, which is {OUR_PORT} by default, or `:{ours.port}`"
        )
        yield warning(at, message, hint)
    elif ours.path not in ("", OUR_PATH):
        message = f"Placet has no path `{ours.path}`, unless a proxy before it rewrites paths"
        yield warning(at, message, "end it with `/api/scheduler`")


def service_name(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """The DNS name of a service, which a static pod cannot resolve."""
    host, manifest = ours.host, context.configuration.manifest
    if ours.is_local or not _SERVICE.fullmatch(host):
        return
    hint = "use the service's cluster IP, or run Placet beside kube-scheduler on 127.0.0.1"
    at = ours.at("urlPrefix")
    if manifest is None:
        message = f"kube-scheduler as a static pod cannot resolve the service name `{host}`"
        yield warning(at, message, hint)
    elif not manifest.resolves_services:
        network = " on the host's network" if manifest.host_network else ""
        message = (
            f"kube-scheduler{network} with `dnsPolicy: {manifest.dns_policy}` cannot resolve the "
            f"service name `{host}`"
        )
        more = f"{hint}, or set `dnsPolicy: ClusterFirstWithHostNet`"
        yield error(at, message, more if manifest.host_network else hint)


def no_ca(ours: ExtenderEntry, _context: ConfigurationContext) -> Iterator[Found]:
    """HTTPS that trusts any server (C8)."""
    if ours.prefix.scheme != "https":
        return
    at, hint = ours.at("tlsConfig"), "put the CA of Placet's certificate into `tlsConfig.caData`"
    tls, has_ca = ours.tls_config, "ca" in ours.tls_config.parts
    if tls.insecure and not has_ca:
        message = "with `insecure: true` kube-scheduler trusts any server"
        yield warning(f"{at}.insecure", message, hint)
    elif ours.enable_https and not has_ca:
        message = "with `enableHTTPS` and without a CA kube-scheduler trusts any server"
        yield error(at, message, hint)
    elif not has_ca:
        message = "without a CA only a certificate of a public authority is accepted"
        yield warning(at, message, hint)


def no_encryption(ours: ExtenderEntry, _context: ConfigurationContext) -> Iterator[Found]:
    """TLS settings without effect, and unencrypted calls to another machine."""
    at = ours.at("urlPrefix")
    if ours.prefix.scheme != "http":
        return
    if ours.enable_https or ours.tls_config != TlsConfig():
        setting = "`enableHTTPS`" if ours.enable_https else "`tlsConfig`"
        message = f"{setting} has no effect because the URL begins with `http:`"
        yield error(at, message, f"begin the URL with `https:`, or remove {setting}")
    elif not ours.is_local:
        message = f"calls to `{ours.host}` and their answers are not encrypted"
        yield warning(at, message, "serve TLS, or run Placet beside kube-scheduler")


def timeout(ours: ExtenderEntry, context: ConfigurationContext) -> Iterator[Found]:
    """A timeout that ends before Placet answers, or is too long (C2).

    kube-scheduler schedules other pods while it waits for bind.
    """
    at, own, needs = ours.at("httpTimeout"), context.http_timeout, context.requirements
    if ours.only_binds and needs is not None and needs.waiting:
        return  # `waiting-bind` compares it
    has = ours.patience
    write = f"write `httpTimeout: {own:g}s`"
    if has < own:
        unset = " by default" if ours.timeout is None else ""
        message = (
            f"kube-scheduler waits{unset} for {has:g} s, and Placet takes up to four fifths "
            f"of {own:g} s"
        )
        hint = f"{write}, or serve with `--http-timeout {has:g}s`"
        yield error(at, message, hint if has > 0 else write)
    elif ours.timeout is None:
        message = f"there is no `httpTimeout`: kube-scheduler waits for {DEFAULT_TIMEOUT:g} s"
        yield warning(at, message, write)
    elif has > LONG_TIMEOUT and not ours.only_binds:
        message = f"a missing answer delays every pod for {has:g} s"
        if ours.bind_verb:
            write += ", and give `bindVerb` an entry of its own if policies have bindings wait"
        yield warning(at, message, write)


def tls_conflict(context: ConfigurationContext) -> Iterator[Found]:
    """A CA beside `insecure`, and half of a client certificate (C8)."""
    for extender in context.configuration.extenders:
        parts = extender.tls_config.parts
        if extender.tls_config.insecure and "ca" in parts:
            message = "a CA together with `insecure: true`"
            yield refused(extender.at("tlsConfig.insecure"), message, "remove `insecure`")
        if ("cert" in parts) != ("key" in parts):
            has, lacks = ("certificate", "key") if "cert" in parts else ("key", "certificate")
            message = f"a client {has} without its {lacks} has no effect"
            yield warning(extender.at("tlsConfig"), message, "give both, as files or as data")


def no_certificate(context: ConfigurationContext) -> Iterator[Found]:
    """Certificates and keys that are not PEM, are no pair, or are not on this machine."""
    for extender in context.configuration.extenders:
        at = extender.at("tlsConfig")
        try:
            tls_context(extender)
        except (ssl.SSLError, ValueError):
            message = "a certificate or key is not in PEM, or they do not belong together"
            hint = "give files that begin with `-----BEGIN`, and the key of the certificate"
            yield refused(at, message, hint)
        except OSError as problem:
            message = (
                f"`{problem.filename}` is not here: without it kube-scheduler refuses to start"
            )
            hint = "run this command where kube-scheduler runs, or check the path there"
            yield warning(at, message, hint)


def tls_context(ours: ExtenderEntry) -> ssl.SSLContext:
    """What connections to an extender are made with. Raises OSError and ValueError."""
    tls, context = ours.tls_config, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    is_pair = {"cert", "key"} <= tls.parts.keys()
    pems = {
        part: (b64decode(data) if data else contents(Path(file))).decode("ascii", "ignore")
        for part, (data, file) in tls.parts.items()
        if part == "ca" or is_pair
    }
    if tls.insecure or (ours.enable_https and "ca" not in pems):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif "ca" not in pems and ours.prefix.scheme == "https":
        context.load_default_certs()
    if "ca" in pems:
        context.load_verify_locations(cadata=pems["ca"])
    if is_pair:
        # Python reads a pair from a file only.
        with tempfile.NamedTemporaryFile("w", encoding="ascii", suffix=".pem") as pair:
            pair.write(f"{pems['key']}\n{pems['cert']}")
            pair.flush()
            context.load_cert_chain(pair.name, password="")
    return context

"""Who may ask what: a server that wants client certificates knows its clients by them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware


def access(
    names: Collection[str], open_paths: Collection[str], reading_paths: Collection[str]
) -> Middleware:
    """A middleware that raises HTTPUnauthorized and HTTPForbidden.

    What is not open is for those who have shown a certificate, and what is not for reading is for
    those with one of these names, where there are any: an unknown path too. A certificate of a CA
    that is not ours never gets as far as this.
    """

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path not in open_paths:
            certificate = _certificate(request)
            if not certificate:
                raise web.HTTPUnauthorized(text=f"{request.path} takes a client certificate")
            if names and request.path not in reading_paths:
                own = tuple(names_of(certificate))
                if not any(name in names for name in own):
                    listed = ", ".join(f"`{name}`" for name in own) or "nobody"
                    text = f"the client certificate is of {listed}, whom no --client-name lets in"
                    raise web.HTTPForbidden(text=text)
        return await handler(request)

    return guard


def names_of(certificate: Mapping[str, Any]) -> Iterator[str]:
    """The common names and alternative names of what `SSLObject.getpeercert` returns."""
    for parts in certificate.get("subject", ()):
        yield from (value for key, value in parts if key == "commonName")
    for _kind, name in certificate.get("subjectAltName", ()):
        # Kinds with structure, such as DirName, are no names that a flag could hold.
        if isinstance(name, str):
            yield name


def _certificate(request: web.Request) -> Mapping[str, Any]:
    """The certificate that TLS has verified, empty if there is none."""
    transport = request.transport
    found = transport.get_extra_info("peercert") if transport is not None else None
    return found or {}

"""Proxies: the one that the environment names for an API server, as kubectl reads it.

HTTPS_PROXY is for https and HTTP_PROXY for http, unless NO_PROXY lists the host: by its name, a
domain above it, its address, or a network such as `10.96.0.0/12`. Loopback has no proxy.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass


def proxy_of(address: str) -> str | None:
    """The proxy for the API server at this address, None for none."""
    url, found = urlsplit(address), getproxies()
    host, proxy = url.hostname or "", found.get(url.scheme)
    if not proxy or proxy_bypass(host) or _is_listed(host, found.get("no", "")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_listed(host: str, entries: str) -> bool:
    """Whether a host is loopback, or its address is in a network of a list."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or any(_is_in(address, entry) for entry in entries.split(","))


def _is_in(address: ipaddress.IPv4Address | ipaddress.IPv6Address, entry: str) -> bool:
    try:
        return address in ipaddress.ip_network(entry.strip(), strict=False)
    except ValueError:  # a name
        return False

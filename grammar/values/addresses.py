"""Addresses: IP addresses and networks of Kubernetes' CEL library."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from grammar.tree.types import BOOL, CIDR, INT, IP, STRING, Overload, function, member
from grammar.values.errors import EvaluationError, has_value
from grammar.values.sizes import PARSED, parsed, quoted

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Cidr:
    """A CIDR: an address with a prefix length; bits after the prefix may be set: `10.1.2.3/8`."""

    address: Address
    network: IPv4Network | IPv6Network

    def __str__(self) -> str:
        return f"{self.address}/{self.network.prefixlen}"


@functools.lru_cache(maxsize=4096)
def parse_ip(text: str) -> Address:
    """The address of a text. Raises EvaluationError, also for zones and dotted mapped addresses."""
    try:
        address = ip_address(text[:PARSED])
    except ValueError:
        raise EvaluationError(f"{quoted(text)} is not an IP address") from None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise EvaluationError("an IP address with a zone is not allowed")
        if (mapped := address.ipv4_mapped) is not None:
            if "." in text:
                raise EvaluationError("an IPv4-mapped IPv6 address is not allowed")
            return mapped
    return address


@functools.lru_cache(maxsize=4096)
def parse_cidr(text: str) -> Cidr:
    """The address with a prefix length of a text. Raises EvaluationError."""
    head, slash, length = text[:PARSED].partition("/")
    if not slash or re.fullmatch(r"0|[1-9]\d{0,2}", length, re.ASCII) is None:
        raise EvaluationError(f"{quoted(text)} is not a CIDR")
    address = parse_ip(head)
    try:
        return Cidr(address, ip_network((address, int(length)), strict=False))
    except ValueError:
        raise EvaluationError(f"{quoted(text)} is not a CIDR") from None


def _global_unicast(ip: Address) -> bool:
    """Go's IsGlobalUnicast: true for private addresses, false for broadcast, loopback and so on."""
    special = ip.is_unspecified or ip.is_loopback or ip.is_multicast or ip.is_link_local
    return not special and str(ip) != "255.255.255.255"


def _link_local_multicast(ip: Address) -> bool:
    if isinstance(ip, IPv4Address):
        return ip in IPv4Network("224.0.0.0/24")
    return ip.packed[0] == 0xFF and ip.packed[1] & 0x0F == 0x02


def _contains_ip(cidr: Cidr, ip: Address | str) -> bool:
    address = parse_ip(ip) if isinstance(ip, str) else ip
    return address.version == cidr.network.version and address in cidr.network


def _contains_cidr(cidr: Cidr, other: Cidr | str) -> bool:
    inner = parse_cidr(other) if isinstance(other, str) else other
    if inner.network.version != cidr.network.version:
        return False
    return (
        cidr.network.prefixlen <= inner.network.prefixlen
        and inner.network.network_address in cidr.network
    )


def _asked(_: object, other: object) -> int:
    return parsed(other)


OVERLOADS: tuple[Overload, ...] = (
    function("ip", (STRING,), IP, parse_ip, parsed),
    function("ip", (IP,), IP, lambda ip: ip),
    function("isIP", (STRING,), BOOL, has_value(parse_ip), parsed),
    function("ip.isCanonical", (STRING,), BOOL, lambda text: str(parse_ip(text)) == text, parsed),
    member("family", (IP,), INT, lambda ip: ip.version),
    member("isUnspecified", (IP,), BOOL, lambda ip: ip.is_unspecified),
    member("isLoopback", (IP,), BOOL, lambda ip: ip.is_loopback),
    member("isLinkLocalMulticast", (IP,), BOOL, _link_local_multicast),
    member("isLinkLocalUnicast", (IP,), BOOL, lambda ip: ip.is_link_local),
    member("isGlobalUnicast", (IP,), BOOL, _global_unicast),
    function("string", (IP,), STRING, str),
    function("cidr", (STRING,), CIDR, parse_cidr, parsed),
    function("cidr", (CIDR,), CIDR, lambda cidr: cidr),
    function("isCIDR", (STRING,), BOOL, has_value(parse_cidr), parsed),
    *(member("containsIP", (CIDR, t), BOOL, _contains_ip, _asked) for t in (IP, STRING)),
    *(member("containsCIDR", (CIDR, t), BOOL, _contains_cidr, _asked) for t in (CIDR, STRING)),
    member("ip", (CIDR,), IP, lambda cidr: cidr.address),
    member("masked", (CIDR,), CIDR, lambda cidr: Cidr(cidr.network.network_address, cidr.network)),
    member("prefixLength", (CIDR,), INT, lambda cidr: cidr.network.prefixlen),
    function("string", (CIDR,), STRING, str),
)

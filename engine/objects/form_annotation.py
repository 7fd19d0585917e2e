"""Form annotation: the policies whose clauses a pod got as parts of its spec at its creation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# As `shop/web@0123456789ab,guard@ba9876543210`: the address and the digest of each policy.
FORM = "placet.dev/portable"


def written(digests: Iterable[tuple[str, str]]) -> str:
    """The value of the annotation."""
    return ",".join(f"{address}@{digest}" for address, digest in digests)


def versions(annotations: Mapping[str, str]) -> Mapping[str, str]:
    """The digest of each policy, by address; empty for a pod without a form."""
    entries = (each.rpartition("@") for each in annotations.get(FORM, "").split(","))
    return {address: digest for address, at, digest in entries if at}

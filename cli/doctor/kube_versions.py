"""Versions of Kubernetes, and the versions of KubeSchedulerConfiguration that each reads.

Source: the KEP-785 and the pull requests kubernetes#104782, #117649 and #119994.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass

GROUP = "kubescheduler.config.k8s.io"
# The version that Placet's own tests run, and whose fields and plugins the checks know.
KNOWN_MINOR = 36
# The last minor version that reads a Policy.
LAST_POLICY = 22


@dataclass(frozen=True, slots=True)
class _Served:
    """A version of the configuration, and the first and the last minor version that reads it."""

    name: str
    first: int
    last: int | None


_SERVED = (
    _Served("v1", 25, None),
    _Served("v1beta3", 23, 28),
    _Served("v1beta2", 22, 27),
    _Served("v1beta1", 19, 22),
)
_VERSION = re.compile(r"v?1\.([0-9]{1,3})(\.[0-9]+)?([-+].*)?")


def minor_version(text: str) -> int:
    """The minor version in `1.36`, `v1.36.4` or `v1.36.4-gke.1`. Raises ArgumentTypeError."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"`{text}` is not a version such as 1.36")
    return int(found[1])


def api_versions(minor: int) -> tuple[str, ...]:
    """The values of `apiVersion` that a kube-scheduler reads, the newest first."""
    return tuple(
        f"{GROUP}/{each.name}"
        for each in _SERVED
        if each.first <= minor and (each.last is None or minor <= each.last)
    )

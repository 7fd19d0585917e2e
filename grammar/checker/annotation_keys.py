"""Annotation keys: which keys of annotations a `cards` clause can write."""

from __future__ import annotations

import re

# A key as the API server accepts it.
_PREFIX, _KEY = 253, re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


def why_not_written(key: str) -> str:
    """Why the key of an annotation cannot be written, after its name; empty if it can."""
    prefix, slash, name = key.rpartition("/")
    if prefix == "placet.dev" or prefix.endswith((".placet.dev", "kubernetes.io")):
        return "is a key that others write"
    is_prefix = len(prefix) <= _PREFIX and _DOMAIN_NAME.fullmatch(prefix)
    if _KEY.fullmatch(name) and (not slash or is_prefix):
        return ""
    return "is not the key of an annotation"

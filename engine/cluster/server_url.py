"""The URL of a server, as a flag or a kubeconfig names it."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit


def of_server(text: str) -> SplitResult | None:
    """The parts of an `http` or `https` URL with a host; None for any other text."""
    try:
        parts = urlsplit(text)
        is_usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if is_usable else None

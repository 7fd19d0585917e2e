"""How a server ends: it says so first, and is still there for those who have not heard."""

from __future__ import annotations

from server.health import Check


class Shutdown:
    """Whether the server is about to end. Once it is, answers end their connections.

    kube-scheduler keeps its connections open, and does not repeat what it sent into one that was
    closed at that moment (C2). So they are closed by answers, before the server does.
    """

    def __init__(self) -> None:
        self.has_begun = False

    def begin(self) -> None:
        """From now on the server is not ready."""
        self.has_begun = True

    def check(self) -> Check:
        return Check("shutdown", "about to end" if self.has_begun else "")

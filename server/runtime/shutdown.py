"""Shutdown: the state of a server that is about to end, which it announces before it ends.

It belongs to a running server: SIGTERM begins it, readiness and every answer show it.
"""

from __future__ import annotations

from server.health import Check


class Shutdown:
    """Whether the server is about to end. From then on every answer closes its connection.

    kube-scheduler keeps its connections open, and does not repeat a request that it sent into a
    connection as it was closed (C2). So answers close the connections before the server ends.
    """

    def __init__(self) -> None:
        self.has_begun = False

    def begin(self) -> None:
        self.has_begun = True

    def check(self) -> Check:
        return Check("shutdown", "shutting down" if self.has_begun else "")

"""WaitingBinder: keeps calls of bind in flight for as long as a test wants."""

import asyncio

from engine.cluster.binding import BindClient, Binding

BINDING = {"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n"}


class WaitingBinder:
    """A binder that waits until the test lets it go on."""

    def __init__(self) -> None:
        self.bindings: asyncio.Queue[tuple[Binding, float]] = asyncio.Queue()
        self.may_go_on = asyncio.Event()

    async def bind(self, binding: Binding, deadline: float, _: BindClient) -> None:
        self.bindings.put_nowait((binding, deadline))
        await self.may_go_on.wait()

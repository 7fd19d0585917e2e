"""An API server that gives the same answer to every GET."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tests.support.builders import Object


@dataclass
class OneAnswerApi:
    """Answers with an object, or raises an error; `asked` are the paths so far."""

    answer: Object | Exception
    asked: list[str] = field(default_factory=list)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "",
        timeout_seconds: float = 0.0,
    ) -> bytes:
        assert (method, body, content_type) == ("GET", None, "")
        assert timeout_seconds > 0
        self.asked.append(path)
        if isinstance(self.answer, Exception):
            raise self.answer
        return json.dumps(self.answer).encode()

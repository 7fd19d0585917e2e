"""Ten people who have the page open, without a screen: they follow decisions and look at home.

Arguments: the port of the view, and `draft` if one of them tries a draft again and again. It writes
a line when it begins and for each trial, ends when its input does, and writes the bytes that each
stream got at least. People use machines of their own, so this process has the lowest priority.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import threading
import urllib.error
import urllib.request
from itertools import cycle

READERS = 10
# What ten home pages ask in ten seconds.
HOME = ("overview", "overview", "overview", "waiting", "fills", "overview", "waiting", "status")
_DRAFT = 'policy draft { for pods where true filter "f" { require node.name.endsWith("1") } }'
_REQUEST = b"GET /api/v1/decisions/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def ask(
    view: int, path: str, body: bytes | None = None, token: str = ""
) -> dict[str, list[object]]:
    """What the view answers. Raises HTTPError."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    url, headers = f"http://127.0.0.1:{view}/api/v1/{path}", {"Placet-Token": token}
    request = urllib.request.Request(url, body, headers)
    with opener.open(request, timeout=60) as answer:
        found: dict[str, list[object]] = json.load(answer)
    return found


def _try(view: int, ends: threading.Event) -> None:
    token = str(ask(view, "session")["token"])
    body = json.dumps({"text": _DRAFT}).encode()
    while not ends.is_set():
        try:
            found = ask(view, "evaluate", body, token)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error
        sys.stdout.write(f"tried on {found['asked']} pods\n")
        sys.stdout.flush()


def _look_at_home(view: int, ends: threading.Event) -> None:
    for path in cycle(HOME):
        if ends.wait(10 / (READERS * len(HOME))):
            return
        ask(view, path)


def _follow(view: int) -> int:
    """The bytes of the stream that got least, when the input has ended."""
    chosen = selectors.DefaultSelector()
    for _ in range(READERS):
        connection = socket.create_connection(("127.0.0.1", view))
        connection.sendall(_REQUEST)
        chosen.register(connection, selectors.EVENT_READ)
    chosen.register(sys.stdin, selectors.EVENT_READ)
    read = {key.fd: 0 for key in chosen.get_map().values()}
    while True:
        ready = [key for key, _ in chosen.select()]
        if any(key.fileobj is sys.stdin for key in ready):
            return min(n for fd, n in read.items() if fd != sys.stdin.fileno())
        for key in ready:
            assert isinstance(key.fileobj, socket.socket)
            data = key.fileobj.recv(1 << 16)
            assert data, "the view ended a stream"
            read[key.fd] += len(data)


def main(view: int, *, drafts: bool) -> None:
    os.nice(19)
    ends = threading.Event()
    actions = [_look_at_home, _try] if drafts else [_look_at_home]
    threads = [threading.Thread(target=each, args=(view, ends)) for each in actions]
    for thread in threads:
        thread.start()
    if not drafts:
        sys.stdout.write("they look\n")
        sys.stdout.flush()
    least = _follow(view)
    ends.set()
    for thread in threads:
        thread.join(60)
    sys.stdout.write(f"{least}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), drafts=sys.argv[2:] == ["draft"])

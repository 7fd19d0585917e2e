"""Ten people who have the page open, without a screen: they follow decisions and look at home.

Arguments: the port of the view, and `draft` if one of them tries a draft again and again. It writes
a line when it begins and for each trial, ends when its input does, and writes the bytes that each
of them got at least. People use machines of their own, so this process has the lowest priority.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import urllib.error
import urllib.request
from itertools import cycle

READERS = 10
# What ten home pages ask in ten seconds.
HOME = ("overview", "overview", "overview", "waiting", "fills", "overview", "waiting", "status")
_DRAFT = 'policy draft { for pods where true filter "f" { require node.name.endsWith("1") } }'


def ask(view: int, path: str, body: bytes | None = None) -> dict[str, list[object]]:
    """What the view answers. Raises HTTPError."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    url, headers = f"http://127.0.0.1:{view}/api/v1/{path}", {"Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers)
    with opener.open(request, timeout=60) as answer:
        found: dict[str, list[object]] = json.load(answer)
    return found


def _try(view: int, ends: threading.Event) -> None:
    body = json.dumps({"text": _DRAFT}).encode()
    while not ends.is_set():
        try:
            found = ask(view, "evaluate", body)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error
        sys.stdout.write(f"tried on {found['asked']} pods\n")
        sys.stdout.flush()


def _look_at_home(view: int, ends: threading.Event) -> None:
    for path in cycle(HOME):
        if ends.wait(10 / (READERS * len(HOME))):
            return
        ask(view, path)


def _follow(view: int, read: list[int], ends: threading.Event) -> None:
    """Asks each second for what was decided since, and adds the bytes."""
    last, got = ask(view, "decisions?limit=1")["number"], 0
    while not ends.wait(1):
        found = ask(view, f"decisions?limit=1000&after={last}")
        last, got = found["number"], got + len(json.dumps(found["decisions"]))
    read.append(got)


def main(view: int, *, drafts: bool) -> None:
    os.nice(19)
    ends = threading.Event()
    actions, read = [_look_at_home, _try] if drafts else [_look_at_home], list[int]()
    threads = [threading.Thread(target=each, args=(view, ends)) for each in actions]
    threads += [threading.Thread(target=_follow, args=(view, read, ends)) for _ in range(READERS)]
    for thread in threads:
        thread.start()
    if not drafts:
        sys.stdout.write("they look\n")
        sys.stdout.flush()
    sys.stdin.read()
    ends.set()
    for thread in threads:
        thread.join(60)
    sys.stdout.write(f"{min(read)}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), drafts=sys.argv[2:] == ["draft"])

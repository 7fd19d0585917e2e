"""Texts: what others wrote, made fit to be shown: without control characters, and not too long.

The text of a rejection goes into events, logs and terminals. A line break or a bidi control in it
could look like another line, and without a bound one text could fill them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

# The most characters of a text in an answer, an event or a page.
MOST_SHOWN = 256
# The most characters of the error of a call, which may join several texts, as an event has it.
MOST_ERROR = 1024
# The most characters of a text that is logged as a whole.
MOST_WHOLE = 4096
_MARK = "…"


# What ends or divides a line: kept where a text may have several lines.
LINES = "\n\t"


def escaped(text: str, keep: str = "") -> str:
    r"""The text with `\n`, `\x1b`, `\u202e` for what cannot be printed and is not in `keep`.

    Every text that others wrote goes through here before a terminal, a log, the page or an event
    shows it.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


def escaped_json(text: str) -> str:
    r"""JSON of the same meaning with `\u202e` for what cannot be printed, but its line breaks."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in LINES else _code_units(c) for c in text)


def _code_units(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def escaped_values(value: object) -> object:
    """A value of JSON in which every text is escaped, but its line breaks."""
    match value:
        case str():
            return escaped(value, LINES)
        case Mapping():
            return {escaped_values(key): escaped_values(each) for key, each in value.items()}
        case list() | tuple():
            return [escaped_values(each) for each in value]
        case _:
            return value


def os_reason(error: OSError) -> str:
    """What the operating system says of a file or a connection, in lower case."""
    said = error.strerror or str(error)
    of_asyncio = "Connect call failed" in said or "attempting to bind" in said
    if error.errno is not None and of_asyncio:
        said = os.strerror(error.errno)  # the text of asyncio has the address in its place
    return said.lower()


def os_hint(error: OSError, otherwise: str) -> str:
    """The hint beside `os_reason`: about rights where they lack, and the other one elsewhere."""
    return "check its permissions" if isinstance(error, PermissionError) else otherwise


def cut(text: str, most: int = MOST_SHOWN) -> str:
    """The text, or its beginning and `…`: at most `most` characters."""
    return text if len(text) <= most else text[: most - 1] + _MARK


def shown(text: str, most: int = MOST_SHOWN) -> str:
    """The text escaped and cut. The same text is always shown in the same way."""
    # One character more than fits, so that the mark says that something is left out.
    return cut(escaped(text[: most + 1]), most)


def named(names: Sequence[str], most: int) -> str:
    """The first names and the number of the others: `a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: `1 file`, `2 files`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def excerpt(text: str, most: int) -> str:
    """A text on one line, escaped, and cut off after some characters."""
    return cut(escaped(" ".join(text.split())), most)


def template_of(text: str) -> str:
    """Texts and expressions with a `+` between them as one text with braces."""
    parts = re.split(r"\s*\+\s*", text)
    made = (p[1:-1] if p[:1] in ("'", '"') else f"{{{p.replace(chr(34), chr(39))}}}" for p in parts)
    return f'"{"".join(made)}"'


def filled(text: str, values: Iterable[str]) -> str:
    """A text with `%s` or `{}` as one with the values in braces."""
    parts = re.split(r"%[-+#0-9.]*[a-zA-Z]|\{\d*\}", text)
    said = [f"{{{value}}}" for value in values if value]
    return "".join(f"{part}{value}" for part, value in zip_longest(parts, said, fillvalue=""))

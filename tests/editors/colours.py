"""The TextMate grammar with the keywords of the language; `make colours` writes it.

Everything else in the file is written by hand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grammar.syntax.parser import plain_keywords

FILE = Path(__file__).parents[2] / "deploy" / "editors" / "vscode" / "placet.tmLanguage.json"
_SCOPE = "keyword.other.placet"


def coloured(text: str) -> str:
    """The text of the file, with the keywords that the language has now."""
    grammar: dict[str, Any] = json.loads(text)
    (pattern,) = (
        each for each in grammar["repository"]["keywords"]["patterns"] if each.get("name") == _SCOPE
    )
    # `in` is an operator.
    words = "|".join(word for word in plain_keywords() if word != "in")
    _, _, rest = pattern["match"].partition(")")
    pattern["match"] = rf"\b(?:{words}){rest}"
    return json.dumps(grammar, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(coloured(FILE.read_text("utf-8")), "utf-8")

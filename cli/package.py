"""Package `placet` for programs, as docs/python.md describes it: the names of `cli.public_api`.

In the wheel this file is `placet/__init__.py`, beside the packages. It imports nothing before a
name is asked for: the command line starts through here, and so do packages with functions of the
language while Placet starts.
"""

import sys
from importlib import import_module
from typing import Any

__all__ = ["Error", "Placet", "function"]  # noqa: F822 - see below


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"placet has no `{name}`: it has {', '.join(__all__)}")
    bundle = __file__.replace("__init__.py", "bundle")
    if bundle not in (__file__, *sys.path):
        sys.path.append(bundle)
    # Packages with functions of the language ask for this one while Placet starts.
    home = "grammar.meaning.added_functions" if name == "function" else "cli.public_api"
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__

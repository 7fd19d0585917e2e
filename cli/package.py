"""Package `placet`: what packages with functions of the language import (docs/functions.md).

In the wheel this file is `placet/__init__.py`, beside the packages. It imports nothing before a
name is asked for: the command line starts through here, and packages import it while that starts.
"""

import sys
from importlib import import_module
from typing import Any

__all__ = ["function"]  # noqa: F822 - see below


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"placet has no `{name}`: it has {', '.join(__all__)}")
    bundle = __file__.replace("__init__.py", "bundle")
    if bundle not in (__file__, *sys.path):
        sys.path.append(bundle)
    return getattr(import_module("grammar.meaning.added_functions"), name)

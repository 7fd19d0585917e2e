"""Coverage-guided fuzzing of the language: `python tests/properties/fuzz_language.py -runs=N`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main() -> int:
    """Runs until a text brings out more than diagnostics, or the number of runs is reached."""
    sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a file, only its folder is there
    try:
        atheris = importlib.import_module("atheris")
    except ModuleNotFoundError:
        sys.stderr.write("atheris is not installed: `pip install atheris` first\n")
        return 2
    with atheris.instrument_imports(include=["grammar", "policies"]):
        fuzzing = importlib.import_module("tests.properties.fuzzing")
    pipeline = fuzzing.Pipeline()

    def one(data: bytes) -> None:
        pipeline.run(data.decode("utf-8", "replace"))

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())

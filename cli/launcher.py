"""Launcher of the wheel, in which this file is `placet/__main__.py` beside the packages."""

import sys
from pathlib import Path


def main() -> int:
    """Runs the command line. An editable install has no bundle: its checkout is on the path."""
    bundle = Path(__file__).with_name("bundle")
    if bundle.is_dir():
        sys.path.insert(0, str(bundle))
    from cli.main import main as run  # noqa: PLC0415 - importable only from here on

    return run()


if __name__ == "__main__":
    sys.exit(main())

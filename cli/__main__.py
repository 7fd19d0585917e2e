"""Main entry point of `placet`, which launches the command line; `python -m cli` is the same.

In the wheel this file is `placet/__main__.py` beside the packages.
"""

import os
import signal
import sys


def main() -> int:
    """Runs the command line. An editable install has no bundle: its checkout is on the path."""
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        # The locale has no names of files and no arguments beyond ASCII; UTF-8 mode has all.
        words = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        os.execv(sys.executable, words)  # noqa: S606 - the same program again
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heard:
        # Ctrl-C ends the process without a traceback, while modules are imported and at the end.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pathlib import Path  # noqa: PLC0415 - its own imports take longer than the interpreter's

    # numpy starts a thread for each processor, for a linear algebra that nothing here uses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    bundle = Path(__file__).with_name("bundle")
    if bundle.is_dir():
        sys.path.insert(0, str(bundle))
    from cli.main import main as run  # noqa: PLC0415 - importable only from here on
    from cli.streams import open_streams  # noqa: PLC0415 - as above

    open_streams()
    try:
        return run()
    finally:
        if is_heard:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())

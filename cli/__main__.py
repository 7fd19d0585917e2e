"""Main entry point of `python -m cli`, which is the same as `placet`."""

from __future__ import annotations

import sys

from cli.launcher import main

sys.exit(main())

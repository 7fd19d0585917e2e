"""`placet`, but its answers to prioritize list every host: what short answers are compared with."""

from __future__ import annotations

import sys

from cli.main import main
from server.verbs import prioritize

# No cluster has so many hosts at the lowest score.
prioritize.HANDFUL = sys.maxsize

if __name__ == "__main__":
    sys.exit(main())

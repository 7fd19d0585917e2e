"""The build of the site: `python -m tests.site`, with Zensical to be imported; see `make site`."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.site.pages import broken, prepare

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "site"


def main() -> int:
    """Builds the site in build/site/html; 1 if it has a mistake."""
    shutil.rmtree(BUILD, ignore_errors=True)
    prepare(ROOT, BUILD / "pages")
    shutil.copy(ROOT / "docs" / "zensical.toml", BUILD)
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "-f", BUILD / "zensical.toml"],
        check=False,
    )
    if done.returncode:
        return 1
    mistakes = broken(BUILD / "html")
    lines = [*mistakes, f"{BUILD / 'html'}: {len(mistakes)} broken links"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())

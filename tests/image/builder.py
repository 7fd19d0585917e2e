"""The builder of the image without a daemon: buildah, on a base of Debian's packages.

Users build on Python's own image; this base has the same interpreter, and needs no registry of
images. A build gets the configuration of pip here, and the authority of its index, as secrets.
"""

import configparser
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/placet"
BASE = "localhost/placet-base"
# What of the configuration of pip is true inside the image too; files of this machine are not.
SETTINGS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")
AUTHORITY = Path("/run/secrets/ca.pem")


@dataclass(frozen=True)
class Builder:
    """A store of images in a folder, which is removed with the folder."""

    folder: Path

    def buildah(self, *arguments: str | Path) -> str:
        # vfs copies whole layers, but works inside of every container.
        store: list[str | Path] = [
            "--root",
            self.folder / "store",
            "--runroot",
            self.folder / "run",
        ]
        done = subprocess.run(
            ["buildah", *store, "--storage-driver", "vfs", *arguments],  # noqa: S607 - of the path
            capture_output=True,
            text=True,
            check=False,
            timeout=1200,
            env=os.environ | {"BUILDAH_ISOLATION": "chroot"},
        )
        assert done.returncode == 0, f"buildah {arguments[0]}:\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def base(self, archive: Path) -> None:
        """The image of the archive that `make image-test` has from mmdebstrap."""
        working = self.buildah("from", "scratch")
        self.buildah("add", "--quiet", working, archive, "/")
        self.buildah("commit", "--quiet", "--rm", working, BASE)

    def build(self, **arguments: str) -> None:
        """The image of the Dockerfile in this checkout, with these build arguments."""
        given = {"BASE": BASE} | arguments
        self.buildah(
            "build",
            *(part for name, value in given.items() for part in ("--build-arg", f"{name}={value}")),
            *self._secrets(),
            *("--tag", IMAGE, ROOT),
        )

    def _secrets(self) -> list[str]:
        found = pip_configuration()
        settings = {name: value for name, value in found.items() if name in SETTINGS}
        secrets = []
        if authority := found.get("cert"):
            settings["cert"] = str(AUTHORITY)
            secrets += ["--secret", f"id=ca,src={authority}"]
        file = self.folder / "pip.conf"
        parser = configparser.RawConfigParser()
        parser.read_dict({"global": settings})
        with file.open("w", encoding="utf-8") as stream:
            parser.write(stream)
        file.chmod(0o600)
        return [*secrets, "--secret", f"id=pip,src={file}"]

    def configuration(self) -> dict[str, Any]:
        """What the image says of itself: user, environment, entry point, labels."""
        found: dict[str, Any] = json.loads(self.buildah("inspect", "--type", "image", IMAGE))
        configuration: dict[str, Any] = found["OCIv1"]["config"]
        return configuration

    def unpacked(self) -> Path:
        """The root file system of a container of the image."""
        return Path(self.buildah("mount", self.buildah("from", IMAGE)))


def pip_configuration() -> dict[str, str]:
    """The options that pip has here, from its files and from the environment, which wins."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    options = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition("=")
        options[name.removeprefix("global.").removeprefix(":env:.")] = value.strip("'")
    return options


def contained(root: Path, user: str, environment: list[str], *command: str) -> list[str]:
    """A command of the image, on its root file system without a right to write, as its user."""
    script = (
        'mount --bind "$1" "$1" && mount --rbind /dev "$1/dev" && mount -t proc proc "$1/proc" '
        '&& mount -o remount,ro,bind "$1" && root=$1 user=$2 && shift 2 '
        '&& exec chroot --userspec="$user" "$root" env --ignore-environment "$@"'
    )
    within = ["unshare", "--mount", "sh", "-ec", script, "sh", str(root), user]
    return [*within, *environment, *command]

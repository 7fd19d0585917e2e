"""Container: a process with a file system of its own, as a pod's specification asks for it.

Its root has the programs of its image, /usr, /dev, /proc and the pod's volumes, and is read-only.
It runs as the pod's user without capabilities, and its host has the pod's name. All this is in
namespaces of its own, so nothing of it stays; to make them takes the rights of root.
"""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
LINKS = ("bin", "lib", "lib64", "sbin")


@dataclass(frozen=True, slots=True)
class Image:
    """What stands for an image: its one command, by name, and the folders that it needs.

    A folder has another path there, because pods mount volumes at /tmp, where a checkout may be.
    """

    name: str
    command: Sequence[str]
    folders: Mapping[Path, str]


def placet_image() -> Image:
    """Return this checkout, with the interpreter of its environment."""
    command = ["env", "PYTHONPATH=/checkout", "/environment/bin/python", "-m", "cli"]
    base = Path(sys.base_prefix)
    folders = {REPOSITORY: "/checkout", Path(sys.prefix): "/environment", base: str(base)}
    return Image("placet", command, folders)


def missing_right() -> str | None:
    """Return why no container can run here, if none can."""
    command = ["unshare", "--net", "--mount", "--uts", "ip", "link", "set", "lo", "up"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        return str(error)
    if done.returncode != 0:
        return f"containers need namespaces of their own: {done.stderr.strip()}"
    return None


class Container:
    """One run of a container."""

    def __init__(
        self,
        specification: dict[str, Any],
        image: Image,
        folder: Path,
        mounts: Mapping[str, Path],
        environment: Mapping[str, str],
        network: int | None,
        user: tuple[int, int],
    ) -> None:
        """Start it; `mounts` are folders by path, and `network` a process whose network it uses."""
        command, *more = specification["command"]
        assert command == image.name, f"the image has no {command}"
        root = folder / "root"
        root.mkdir(exist_ok=True, parents=True)
        arguments = [*image.command, *more, *specification.get("args", [])]
        script = _script(root, image, mounts, arguments, user)
        join = [] if network is None else ["nsenter", f"--net=/proc/{network}/ns/net"]
        with (folder / "log").open("ab") as output:
            self.process = subprocess.Popen(
                [
                    *join,
                    "unshare",
                    "--uts",
                    "--mount",
                    "--propagation=private",
                    "sh",
                    "-ec",
                    script,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={"PATH": os.environ["PATH"], **environment},
                process_group=0,
            )

    def ended(self) -> int | None:
        """Return the exit status as a container's: 128 and the signal where one ended it."""
        status = self.process.poll()
        return 128 - status if status is not None and status < 0 else status

    def terminate(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def _script(
    root: Path,
    image: Image,
    mounts: Mapping[str, Path],
    arguments: Sequence[str],
    user: tuple[int, int],
) -> str:
    """Commands of a shell that make the root and end as the program."""

    def bound(source: Path | str, target: str, flags: str = "--rbind") -> list[str]:
        to = shlex.quote(f"{root}{target}")
        return [f"mkdir -p {to}", f"mount {flags} {shlex.quote(str(source))} {to}"]

    lines = [
        'echo "$HOSTNAME" > /proc/sys/kernel/hostname',
        f"mount -t tmpfs -o mode=755 none {shlex.quote(str(root))}",
    ]
    for each in ("/usr", "/dev", "/proc"):
        lines += bound(each, each)
    # What /bin and so on are links to is in /usr.
    lines += [
        f"cp -P /{each} {shlex.quote(str(root))}/" for each in LINKS if Path("/", each).is_symlink()
    ]
    for folder, target in image.folders.items():
        lines += bound(folder, target, "--bind -o ro")
    # The folder of a mount may be within another.
    for target, source in sorted(mounts.items()):
        lines += bound(source, target, "--bind")
    lines.append(f"mount -o remount,ro {shlex.quote(str(root))}")
    uid, gid = user
    lines.append(
        f"exec chroot {shlex.quote(str(root))} setpriv --reuid={uid} --regid={gid} --clear-groups"
        f" --no-new-privs --bounding-set=-all {shlex.join(arguments)}"
    )
    return "\n".join(lines)

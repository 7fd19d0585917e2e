"""Two Placets behind one address, which stays when one of them is restarted or killed."""

from contextlib import ExitStack
from pathlib import Path

from tests.e2e.control_plane import ControlPlane
from tests.e2e.placet import Placet, placet
from tests.e2e.waiting import until
from tests.support.tcp_switch import TcpSwitch, tcp_switch

SECONDS = 90.0


class Replicas:
    """Two Placets, one of them the decider, and the switch before them."""

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        running: ExitStack,
        policies: str,
        *flags: str,
        kubeconfig: Path | None = None,
    ) -> None:
        """Start both with a file of these policies, and wait until one leads."""
        self._kubeconfig = kubeconfig or plane.placet_kubeconfig
        self._folder = folder
        self._running = running
        self._started = 0
        self._policies = folder / "a.policy"
        self._policies.write_text(policies)
        self._flags = flags
        self.servers = [self._start(), self._start()]
        until(lambda: bool(self.leading()), SECONDS, self.servers[0].process.tail)
        self.switch: TcpSwitch = running.enter_context(tcp_switch(self._ports()))

    def leading(self) -> list[Placet]:
        """The holder of the Lease, if there is one."""
        return [each for each in self.servers if each.cache()["lease"]["held"]]

    def restart(self) -> int:
        """End the one that is asked, as a rollout does once another is ready; return its status."""
        old, self.servers[:] = self._asked()
        old.process.child.terminate()
        status = old.process.child.wait(60)
        self._replace()
        return status

    def kill(self) -> None:
        """End the one that is asked without a word."""
        self._kill(self.asked())

    def kill_leader(self) -> None:
        """End the holder of the Lease without a word."""
        (leader,) = self.leading()
        self._kill(leader)

    def write(self, policies: str) -> None:
        """Edit the policies of both."""
        self._policies.write_text(policies)

    def _kill(self, old: Placet) -> None:
        self.servers.remove(old)
        old.process.kill()
        self._replace()

    def asked(self) -> Placet:
        """The one to which new connections go."""
        return self._asked()[0]

    def _asked(self) -> tuple[Placet, list[Placet]]:
        (asked,) = (each for each in self.servers if each.port == self.switch.current)
        return asked, [each for each in self.servers if each is not asked]

    def _replace(self) -> None:
        self.servers.append(self._start())
        self.switch.ports = self._ports()

    def _ports(self) -> tuple[int, ...]:
        return tuple(each.port for each in self.servers)

    def _start(self) -> Placet:
        self._started += 1
        folder = self._folder / f"placet-{self._started}"
        folder.mkdir()
        reach = f"--kubeconfig={self._kubeconfig}"
        server = self._running.enter_context(placet(folder, self._policies, reach, *self._flags))
        server.wait_ready()
        return server

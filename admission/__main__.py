"""Admission as a process."""

from dataclasses import dataclass, field

from admission.api import AdmissionService
from admission.application import Admission
from admission.metrics import show_pending
from admission.reactions import reactions
from admission.workflows import AdmissionLoop
from chassis.edge import Edge
from chassis.serve import Part, run
from chassis.settings import ServiceSettings, limits
from leasehold.admission.v1.admission_service_pb2_grpc import add_AdmissionServiceServicer_to_server


@dataclass(frozen=True, kw_only=True)
class AdmissionSettings(ServiceSettings):
    # GPUs per model that a tenant may lease at once before anyone has decided otherwise.
    starter_quota: dict[str, int] = field(
        default_factory=lambda: {"H100": 8}, metadata=limits(low=0, high=1_000_000)
    )

    def problems(self) -> list[str]:
        missing = sorted({"billing", "gateway", "placement"} - self.peers.keys())
        return super().problems() + [f"LEASEHOLD_PEERS does not name {peer}" for peer in missing]


def assemble(admission: Admission, settings: AdmissionSettings, edge: Edge) -> Part:
    admission.starter_quota = settings.starter_quota
    show_pending(admission.queue)
    return Part(
        servicers=[(add_AdmissionServiceServicer_to_server, AdmissionService(admission, edge))],
        sources=frozenset({"gateway", "placement"}),
        reactions=reactions(admission),
        workflows=[AdmissionLoop(admission, edge).run],
    )


if __name__ == "__main__":
    run(Admission, AdmissionSettings, assemble)

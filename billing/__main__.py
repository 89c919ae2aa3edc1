"""Billing as a process."""

from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from billing.api import BillingService
from billing.api_exports import ExportService
from billing.api_funding import FundingService
from billing.api_pricing import PricingService
from billing.api_proof import ProofService
from billing.api_provider import ProviderService
from billing.application import Billing
from billing.metrics import LedgerMetrics
from billing.money import minor_unit, per_hour
from billing.policy import Price
from billing.proof.signing import Signer
from billing.provider_reactions import provider_reactions
from billing.reactions import reactions
from billing.sla_reactions import sla_reactions
from billing.workflows import Clockwork
from billing.workflows_provider import Accruals
from chassis.clock import SECOND
from chassis.edge import Edge
from chassis.errors import Invalid
from chassis.metrics import REGISTRY
from chassis.serve import Part, run
from chassis.settings import ServiceSettings, limits
from leasehold.billing.v1.billing_service_pb2_grpc import add_BillingServiceServicer_to_server
from leasehold.billing.v1.exports_service_pb2_grpc import add_ExportServiceServicer_to_server
from leasehold.billing.v1.funding_service_pb2_grpc import add_FundingServiceServicer_to_server
from leasehold.billing.v1.pricing_service_pb2_grpc import add_PricingServiceServicer_to_server
from leasehold.billing.v1.proof_service_pb2_grpc import add_ProofServiceServicer_to_server
from leasehold.billing.v1.provider_service_pb2_grpc import add_ProviderServiceServicer_to_server


@dataclass(frozen=True, kw_only=True)
class BillingSettings(ServiceSettings):
    currency: str = "USD"
    # Per GPU-hour, published at the first start.
    prices: dict[str, Decimal] = field(default_factory=lambda: {"H100": Decimal("2.49")})
    hold_window_seconds: int = field(default=600, metadata=limits(low=10, high=86_400))
    silence_seconds: int = field(default=30, metadata=limits(low=1, high=3_600))
    tick_seconds: int = field(default=5, metadata=limits(low=1, high=600))
    # Keys and anchored heads of the tree over the log; beside the identity unless named.
    proof_dir: Path = Path()
    head_seconds: int = field(default=60, metadata=limits(low=1, high=86_400))

    def problems(self) -> list[str]:
        found = super().problems()
        try:
            minor_unit(self.currency)
        except Invalid as error:
            found.append(f"LEASEHOLD_CURRENCY: {error}")
        for model, price in self.prices.items():
            try:
                per_hour(price)
            except Invalid as error:
                found.append(f"LEASEHOLD_PRICES: {model}: {error}")
        return found


def assemble(billing: Billing, settings: BillingSettings, edge: Edge) -> Part:
    billing.currency = settings.currency
    billing.hold_window_us = settings.hold_window_seconds * SECOND
    billing.silence_us = settings.silence_seconds * SECOND
    prices = [
        Price(model, per_hour(price), settings.currency, effective_at=0)
        for model, price in settings.prices.items()
    ]
    clockwork = Clockwork(billing, edge, prices, settings.tick_seconds)
    folder = settings.proof_dir if settings.proof_dir.name else settings.identity_dir / "proofs"
    signer = Signer(billing, edge, folder, folder / "anchor.jsonl", settings.head_seconds)
    accruals = Accruals(billing, edge, settings.tick_seconds)
    REGISTRY.register(LedgerMetrics(billing))
    return Part(
        servicers=[
            (add_ProviderServiceServicer_to_server, ProviderService(billing, edge)),
            (add_BillingServiceServicer_to_server, BillingService(billing, edge)),
            (add_PricingServiceServicer_to_server, PricingService(billing, edge)),
            (add_ExportServiceServicer_to_server, ExportService(billing)),
            (add_FundingServiceServicer_to_server, FundingService(billing, edge)),
            (add_ProofServiceServicer_to_server, ProofService(billing, edge, signer)),
        ],
        sources=frozenset({"aggregator", "enforcement", "gateway", "placement"}),
        reactions={
            **reactions(billing),
            **provider_reactions(billing, settings.currency),
            **sla_reactions(billing),
        },
        workflows=[clockwork.run, signer.run, accruals.run],
    )


if __name__ == "__main__":
    run(Billing, BillingSettings, assemble)

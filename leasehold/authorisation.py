"""Who may call what: every RPC of the platform against every role, deny by default.

A row that is missing here denies everybody, and a test fails when an RPC has no row. A ``y`` for
a tenant's role means its own things only: the handler narrows it with ``caller.scope``. ``any``
is a caller without a certificate, whom only the join port lets in; the one-time token in the
request is what counts there. Tenants reach the services through the gateway, which states whom
it speaks for; column ``ga`` is the gateway speaking for itself.
"""

from __future__ import annotations

_COLUMNS = {
    "tv": "tenant_viewer",
    "tu": "tenant_user",
    "ta": "tenant_admin",
    "fi": "finance",
    "op": "operator",
    "no": "node",
    "ga": "gateway",
    "ad": "admission",
    "pl": "placement",
    "ag": "aggregator",
    "en": "enforcement",
    "bi": "billing",
    "any": "anyone",
}

ROLES = tuple(role for role in _COLUMNS.values() if role != "anyone")

_MATRIX = """
                         tv tu ta fi op no ga ad pl ag en bi any
leasehold.gateway.v1.GatewayService
    SignUpTenant         -  -  -  -  y  -  y  -  -  -  -  -  -
    GetTenant            y  y  y  y  y  -  y  -  -  -  -  -  -
    OpenProject          -  -  y  -  y  -  -  -  -  -  -  -  -
    IssueCredential      -  -  y  -  y  -  -  -  -  -  -  -  -
    RevokeCredential     -  -  y  -  y  -  -  -  -  -  -  -  -
    SuspendTenant        -  -  -  -  y  -  -  -  -  -  -  -  -
    ResumeTenant         -  -  -  -  y  -  -  -  -  -  -  -  -

leasehold.admission.v1.AdmissionService
    SubmitWorkload       -  y  y  -  -  -  -  -  -  -  -  -  -
    SubmitBatch          -  y  y  -  -  -  -  -  -  -  -  -  -
    StopWorkload         -  y  y  -  -  -  -  -  -  -  -  -  -
    GetWorkload          y  y  y  y  y  -  -  -  -  -  -  -  -
    ListWorkloads        y  y  y  y  y  -  -  -  -  -  -  -  -
    ExplainWorkload      y  y  y  -  y  -  -  -  -  -  -  -  -
    GetEnvelope          y  y  y  y  y  -  -  -  -  -  -  -  -
    SetEnvelope          -  -  -  -  y  -  -  -  -  -  -  -  -

leasehold.placement.v1.PlacementService
    PlaceHolds           -  -  -  -  -  -  -  y  -  -  -  -  -
    ReleaseHolds         -  -  -  -  -  -  -  y  -  -  -  -  -
    GetLease             y  y  y  y  y  -  -  -  -  -  -  -  -
    ListLeases           y  y  y  y  y  -  -  -  -  -  -  -  -
    ListNodes            -  -  -  -  y  -  -  -  -  y  -  -  -
    IssueJoinToken       -  -  -  -  y  -  -  -  -  y  -  -  -
    ReadLogs             y  y  y  -  -  -  -  -  -  -  -  -  -

leasehold.placement.v1.NodeService
    RenewCertificate     -  -  -  -  -  y  -  -  -  -  -  -  -
    SyncNode             -  -  -  -  -  y  -  -  -  -  -  -  -
    AppendLogs           -  -  -  -  -  y  -  -  -  -  -  -  -

leasehold.placement.v1.JoinService
    JoinNode             y  y  y  y  y  y  y  y  y  y  y  y  y

leasehold.aggregator.v1.AggregatorService
    OnboardSource        -  -  -  -  y  -  -  -  -  -  -  -  -
    ListSources          -  -  -  y  y  -  -  -  -  -  -  -  -
    ListOffers           -  -  -  y  y  -  -  -  -  -  -  -  -
    RequestInstance      -  -  -  -  y  -  -  -  -  -  -  -  -
    TerminateInstance    -  -  -  -  y  -  -  -  -  -  -  -  -
    ListInstances        -  -  -  y  y  -  -  -  -  -  -  -  -
    AuditOrphans         -  -  -  -  y  -  -  -  -  -  -  -  -

leasehold.enforcement.v1.EnforcementService
    ReportTelemetry      -  -  -  -  -  y  -  -  -  -  -  -  -
    ListGuards           -  -  -  -  y  -  -  -  -  -  -  -  -

leasehold.billing.v1.BillingService
    TopUp                -  -  -  y  y  -  -  -  -  -  -  -  -
    GetBalance           y  y  y  y  y  -  -  -  -  -  -  -  -
    PlaceHolds           -  -  -  -  -  -  -  y  -  -  -  -  -
    ReleaseHolds         -  -  -  -  -  -  -  y  -  -  -  -  -
    RecordSlices         -  -  -  -  -  y  -  -  -  -  -  -  -
    GetCosts             y  y  y  y  y  -  -  -  -  -  -  -  -
    IssueInvoice         -  -  y  y  y  -  -  -  -  -  -  -  -
    GetInvoice           y  y  y  y  y  -  -  -  -  -  -  -  -
    ListInvoices         y  y  y  y  y  -  -  -  -  -  -  -  -
    ListPrices           y  y  y  y  y  -  -  -  -  -  -  -  -
    PublishPrice         -  -  -  y  y  -  -  -  -  -  -  -  -
    ListPostings         y  y  y  y  y  -  -  -  -  -  -  -  -

leasehold.billing.v1.ExportService
    ExportFocus          y  y  y  y  y  -  -  -  -  -  -  -  -

leasehold.billing.v1.FundingService
    SetTerms             -  -  -  -  y  -  -  -  -  -  -  -  -
    GrantPromo           -  -  -  y  y  -  -  -  -  -  -  -  -
    GetFunds             y  y  y  y  y  -  -  -  -  -  -  -  -
    ListPeriods          y  y  y  y  y  -  -  -  -  -  -  -  -
    CreditLine           -  -  -  y  y  -  -  -  -  -  -  -  -
    SetBudget            -  -  y  y  y  -  -  -  -  -  -  -  -
    ListBudgets          y  y  y  y  y  -  -  -  -  -  -  -  -
    GetLedger            y  y  y  y  y  -  -  -  -  -  -  -  -
    VerifyLedger         -  -  -  y  y  -  -  -  -  -  -  -  -

leasehold.billing.v1.PricingService
    PublishPrices        -  -  -  y  y  -  -  -  -  -  -  -  -
    CompareBook          -  -  -  y  y  -  -  -  -  -  -  -  -
    OpenCommitment       -  -  -  y  y  -  -  -  -  -  -  -  -
    ListCommitments      y  y  y  y  y  -  -  -  -  -  -  -  -
    ExchangePayment      -  -  -  y  y  -  -  -  -  -  -  -  -

leasehold.billing.v1.ProofService
    GetSignedHead        y  y  y  y  y  -  -  -  -  -  -  -  -
    ListSignedHeads      y  y  y  y  y  -  -  -  -  -  -  -  -
    GetInvoiceProof      y  y  y  y  y  -  -  -  -  -  -  -  -
    GetConsistencyProof  y  y  y  y  y  -  -  -  -  -  -  -  -
    GetPublicKeys        y  y  y  y  y  -  -  -  -  -  -  -  -
    RotateKey            -  -  -  -  y  -  -  -  -  -  -  -  -

leasehold.billing.v1.ProviderService
    ListProviderCosts    -  -  -  y  y  -  -  -  -  -  -  -  -
    ImportProviderBill   -  -  -  y  -  -  -  -  -  -  -  -  -
    MatchDay             -  -  -  y  y  -  -  -  -  -  -  -  -
    AcceptMatch          -  -  -  y  -  -  -  -  -  -  -  -  -
    GetMargin            -  -  -  y  y  -  -  -  -  -  -  -  -

leasehold.chassis.v1.LogService
    Replay               -  -  -  y  y  -  y  y  y  y  y  y  -
    GetHead              -  -  -  y  y  -  y  y  y  y  y  y  -
    GetState             -  -  -  -  y  -  -  -  -  -  -  -  -
    ListParked           -  -  -  -  y  -  -  -  -  -  -  -  -
    RedriveParked        -  -  -  -  y  -  -  -  -  -  -  -  -
"""


def parse(matrix: str) -> dict[str, dict[str, bool]]:
    """``{"/package.Service/Method": {role: allowed}}``; ValueError for a row that is unclear."""
    header, *lines = (line for line in matrix.splitlines() if line.strip())
    roles = [_COLUMNS[column] for column in header.split()]
    table: dict[str, dict[str, bool]] = {}
    service = ""
    for line in lines:
        if not line.startswith(" "):
            service = line.strip()
            continue
        name, *cells = line.split()
        method = f"/{service}/{name}"
        if method in table or len(cells) != len(roles) or not set(cells) <= {"y", "-"}:
            raise ValueError(f"unclear row: {line.strip()}")
        table[method] = {role: cell == "y" for role, cell in zip(roles, cells, strict=True)}
    return table


TABLE = parse(_MATRIX)

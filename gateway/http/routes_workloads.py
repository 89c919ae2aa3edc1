"""Workloads and their leases: submit, look, stop, and why it waits."""

from starlette.responses import Response

from chassis.errors import Invalid, ServiceError
from gateway.application import Gateway
from gateway.http.calls import rpc
from gateway.http.intents import IntentDocument, document_path
from gateway.http.operations import JSON, Ask, Operation, asking, json_response
from gateway.http.queries import PAGED, TENANT
from gateway.http.shapes import json_of
from leasehold.admission.v1 import admission_service_pb2 as pb
from leasehold.admission.v1.workload_pb2 import Workload
from leasehold.placement.v1 import placement_service_pb2 as placement

_SUBMIT = rpc("admission", "SubmitWorkload")


def submission(gateway: Gateway) -> Operation:
    async def submit(ask: Ask) -> Response:
        document: IntentDocument = ask.body
        if not gateway.has_project(ask.own_tenant, document.metadata.project):
            raise Invalid(
                f"no project {document.metadata.project!r}; open it first",
                code="UNKNOWN_PROJECT",
                field="metadata.project",
            )
        try:
            answer = await ask.call(_SUBMIT, pb.SubmitWorkloadRequest(intent=document.intent()))
        except ServiceError as error:
            raise document_path(error) from None
        location = f"/v1/workloads/{answer.workload.workload_id}"
        return json_response(json_of(answer.workload), 201, {"Location": location})

    return Operation(
        method="POST",
        path="/v1/workloads",
        summary="Submits an intent document, in JSON or YAML.",
        handle=submit,
        rpc=_SUBMIT,
        body=IntentDocument,
        status=201,
        answers={JSON: Workload.DESCRIPTOR},
    )


def operations() -> tuple[Operation, ...]:
    return (
        asking(
            "GET",
            "/v1/workloads",
            "Lists workloads, newest first.",
            rpc("admission", "ListWorkloads"),
            lambda ask: pb.ListWorkloadsRequest(**ask.page("ListWorkloads"), tenant_id=ask.tenant),
            query=(*PAGED, TENANT),
        ),
        asking(
            "GET",
            "/v1/workloads/{workload_id}",
            "Shows a workload.",
            rpc("admission", "GetWorkload"),
            lambda ask: pb.GetWorkloadRequest(workload_id=ask.path["workload_id"]),
            answer="workload",
        ),
        asking(
            "POST",
            "/v1/workloads/{workload_id}/stop",
            "Asks for the end of a workload.",
            rpc("admission", "StopWorkload"),
            lambda ask: pb.StopWorkloadRequest(workload_id=ask.path["workload_id"]),
            answer="workload",
            status=202,
        ),
        asking(
            "GET",
            "/v1/workloads/{workload_id}/explain",
            "Tells why a workload waits, and what would let it start.",
            rpc("admission", "ExplainWorkload"),
            lambda ask: pb.ExplainWorkloadRequest(workload_id=ask.path["workload_id"]),
        ),
        asking(
            "GET",
            "/v1/leases",
            "Lists leases, newest first.",
            rpc("placement", "ListLeases"),
            lambda ask: placement.ListLeasesRequest(**ask.page("ListLeases"), tenant_id=ask.tenant),
            query=(*PAGED, TENANT),
        ),
        asking(
            "GET",
            "/v1/leases/{lease_id}",
            "Shows a lease.",
            rpc("placement", "GetLease"),
            lambda ask: placement.GetLeaseRequest(lease_id=ask.path["lease_id"]),
            answer="lease",
        ),
    )

"""From what somebody types to the one thing that is meant: an id, the beginning of one, or a name.

Of several workloads with one name the newest is meant. To stop one, that is not good enough: of
those that have not ended there must be one only, or all of them are named and none is stopped.
"""

import re
from collections.abc import Iterable
from typing import Any

from leasehold.called import PROGRAM
from leasehold.cli.client import Client
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.profiles import Profiles

ENDED = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
# An id as it is made: nothing needs to be looked up.
_WHOLE = re.compile(r"[a-z]{2,8}_[0-9a-z]{21}(_[0-9]+)?", re.ASCII)
# What can be part of an address at all.
_FORM = re.compile(r"[a-z]{2,8}_[a-z0-9_]{1,100}", re.ASCII)


def workload_id(client: Client, given: str, tenant: str = "", *, to_change: bool = False) -> str:
    if _WHOLE.fullmatch(given):
        return given
    workloads = list(client.pages("/v1/workloads", "workloads", tenant=tenant))
    named = [item for item in workloads if (item["intent"] or {}).get("name") == given]
    alive = [item for item in named if item["state"] not in ENDED]
    if to_change and len(alive) > 1:
        raise _ambiguous(given, "workload", [item["workload_id"] for item in alive])
    if chosen := (alive if to_change else []) or named:
        return str(chosen[0]["workload_id"])
    ids = (item["workload_id"] for item in workloads)
    return _only(given, "workload", ids, f"{PROGRAM} ps lists them")


def own_workload_id(client: Client, given: str, *, to_change: bool = False) -> str:
    """For what only the tenant itself may do: staff are told so, not asked for a tenant."""
    try:
        return workload_id(client, given, to_change=to_change)
    except Failure as failure:
        if failure.code != "TENANT":
            raise
        raise Failure(
            "only the tenant itself may do this",
            Exit.NEGATIVE,
            code="PERMISSION_DENIED",
            hint=f"name its profile with --profile; {PROGRAM} profiles lists yours",
        ) from None


def lease_id(client: Client, given: str, tenant: str = "") -> str:
    """A lease, also by its workload."""
    if given.startswith("lse_"):
        if _WHOLE.fullmatch(given):
            return given
        leases = (item["lease_id"] for item in client.pages("/v1/leases", "leases", tenant=tenant))
        return _only(given, "lease", leases, f"{PROGRAM} leases lists them")
    workload = client.get(f"/v1/workloads/{workload_id(client, given, tenant)}")
    if not workload["lease_id"]:
        raise Failure(
            f"{workload['workload_id']} has no lease yet",
            Exit.NOT_FOUND,
            code="NO_LEASE",
            hint=f"{PROGRAM} explain {workload['workload_id']} says what it waits for",
        )
    return str(workload["lease_id"])


def tenant_id(profiles: Profiles, given: str) -> str:
    """A tenant by its id, or by the name of a profile that is one's own."""
    if _FORM.fullmatch(given) and given.startswith("ten_"):
        return given
    known = profiles.get(given).tenant_id if given in profiles.names() else ""
    if not known:
        raise Failure(
            f"{given!r} is neither a tenant's id nor the profile of one",
            Exit.NOT_FOUND,
            code="TENANT_NOT_FOUND",
            hint=f"give the id, which begins with ten_; {PROGRAM} profiles lists your profiles",
        )
    return known


def source_id(client: Client, given: str) -> str:
    sources = client.get("/v1/sources")["sources"]
    named = [item["source_id"] for item in sources if item["name"] == given]
    if len(named) == 1:
        return str(named[0])
    ids = named or (item["source_id"] for item in sources)
    return _only(given, "source", ids, f"{PROGRAM} sources lists them", prefix=not named)


def instance_id(client: Client, given: str) -> str:
    if _WHOLE.fullmatch(given):
        return given
    ids = (item["instance_id"] for item in client.get("/v1/instances")["instances"])
    return _only(given, "instance", ids, f"{PROGRAM} instances lists them")


def client_id(given: str) -> str:
    if not _FORM.fullmatch(given):
        raise Failure(
            f"there is no credential {given!r}", Exit.NOT_FOUND, code="CREDENTIAL_NOT_FOUND"
        )
    return given


def invoice_id(client: Client, given: str, tenant: str) -> str:
    """An invoice by its id or by its number; the newest if nothing was given."""
    if _WHOLE.fullmatch(given):
        return given
    invoices = client.get("/v1/invoices", tenant=tenant)["invoices"]
    if not given:
        return _newest_invoice(invoices)
    number = given.removeprefix("#")
    for item in invoices:
        if number == str(item["number"]):
            return str(item["invoice_id"])
    ids = (item["invoice_id"] for item in invoices)
    return _only(given, "invoice", ids, f"{PROGRAM} invoice list shows them")


def _newest_invoice(invoices: list[dict[str, Any]]) -> str:
    if not invoices:
        raise Failure(
            "there is no invoice yet",
            Exit.NOT_FOUND,
            code="INVOICE_NOT_FOUND",
            hint=f"{PROGRAM} invoice issue makes one over the leases that have ended",
        )
    return str(max(invoices, key=lambda item: int(item["number"]))["invoice_id"])


def _only(given: str, noun: str, ids: Iterable[Any], hint: str, prefix: bool = True) -> str:
    found = [str(item) for item in ids if not prefix or _begins(str(item), given)]
    if len(found) > 1:
        raise _ambiguous(given, noun, found)
    if not found:
        code = f"{noun.upper()}_NOT_FOUND"
        raise Failure(f"there is no {noun} {given!r}", Exit.NOT_FOUND, code=code, hint=hint)
    return found[0]


def _begins(whole: str, given: str) -> bool:
    return bool(given) and (whole.startswith(given) or whole.partition("_")[2].startswith(given))


def _ambiguous(given: str, noun: str, found: list[str]) -> Failure:
    named = ", ".join(found[:5]) + (", …" if len(found) > 5 else "")
    return Failure(
        f"{given!r} could be {len(found)} {noun}s: {named}",
        Exit.USAGE,
        code="AMBIGUOUS",
        hint="give the whole id",
    )

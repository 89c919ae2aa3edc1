"""The ledger: postings, replay, chain, the decision whether a tenant can pay, closing of a period.

Slices go through the real application and writer, as a node sends them: many in one call, each
call with its idempotency key, all of it chained and durable before it is answered.
"""

import importlib.util
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import partial
from hashlib import sha256

import psycopg

from bench.ledgers import Hordak, Transfers
from bench.results import Results, Row
from billing.application import Billing
from billing.domain.meter import Activation
from billing.money import HOUR_US, Rate
from billing.policy import HoldAnswer, HoldRequest, Price, Slice
from chassis import canonical, schema
from chassis.clock import SECOND, now
from chassis.leader import Leader
from chassis.store import Store
from chassis.writer import Writer

TENANTS, NODES, LEASES_EACH = 50, 40, 25
SLICES_EACH, CALLS_EACH = 10, 10
TRANSFERS, HORDAK_TRANSFERS, ROUNDS = 2_000, 300, 3
DECISIONS = 1_000
CLOSED_TENANTS = 1_000
AGO_US = 20 * HOUR_US
STEP_US = 15 * SECOND


def measure(url: str, results: Results) -> None:
    """Rounds are interleaved and the best of each counts: the machine is shared."""
    transfers = Transfers(url)
    hordak = Hordak(url) if importlib.util.find_spec("hordak") else None
    ours, sql, library = 0.0, 0.0, 0.0
    for number in range(ROUNDS):
        with ledger_on(url, f"ledger{number}") as (billing, writer, store):
            ours = max(ours, _postings(billing, writer))
            if number == ROUNDS - 1:
                _decisions(billing, writer, results)
                live = writer.query(billing.state).result()
                _reading(store, live, results)
        sql = max(sql, transfers.postings_per_second(TRANSFERS))
        library = max(library, hordak.postings_per_second(HORDAK_TRANSFERS) if hordak else 0.0)
    results.add(Row("one SQL transfer per commit", sql, "postings/s"))
    if hordak:
        results.add(Row("django-hordak", library, "postings/s"))
    better = max(sql, library)
    note = f"{SLICES_EACH * LEASES_EACH} slices a call"
    results.add(
        Row("ledger, slices to postings", ours, "postings/s", ours / better, "the better", 15, note)
    )
    _closing(url, results)


@contextmanager
def ledger_on(url: str, name: str) -> Iterator[tuple[Billing, Writer, Store]]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(schema.ddl(name, connection.info.user).encode())
    store = Store(url, name)
    head = Leader(store, "bench", 60_000).acquire()
    assert head is not None
    billing = Billing(store)
    billing.catch_up()
    writer = Writer(billing, store, head)
    writer.start()
    price = Price("H100", Rate(2_490_000_000, HOUR_US), "USD", effective_at=0)
    writer.command(lambda at: billing.publish_price(price, at=at)).result()
    try:
        yield billing, writer, store
    finally:
        writer.stop()
        store.close()


def _postings(billing: Billing, writer: Writer) -> float:
    """How fast a full queue of calls is worked off; the callers' own work is not counted."""
    _tenants(billing, writer, TENANTS)
    began_at = now() - AGO_US
    for node in range(NODES):
        for lease in range(LEASES_EACH):
            _lease(billing, writer, node, lease, began_at)
    before = writer.query(lambda: billing.ledger.posting_count).result()
    calls = [(call, node) for call in range(CALLS_EACH) for node in range(NODES)]
    gate = threading.Event()
    writer.query(gate.wait)
    futures = [_report(billing, writer, node, call) for call, node in calls]
    began = time.perf_counter()
    gate.set()
    wait(futures)
    seconds = time.perf_counter() - began
    assert not any(future.exception() for future in futures)
    made: int = writer.query(lambda: billing.ledger.posting_count).result() - before
    assert made >= 2 * len(calls) * LEASES_EACH * SLICES_EACH, "every slice is two postings"
    return made / seconds


def _tenants(billing: Billing, writer: Writer, count: int) -> None:
    for number in range(count):
        _tenant_with_money(billing, writer, _tenant(number))


def _tenant_with_money(billing: Billing, writer: Writer, name: str) -> None:
    writer.command(lambda at: billing.open_account(name, at=at))
    writer.command(lambda at: billing.top_up(name, 10**16, "USD", "bench", at=at)).result()


def _tenant(number: int) -> str:
    return f"ten_{number:04d}"


def _lease(billing: Billing, writer: Writer, node: int, number: int, began_at: int) -> None:
    lease_id = f"lse_{node:03d}_{number:03d}"
    activation = Activation(
        lease_id=lease_id,
        tenant_id=_tenant((node * LEASES_EACH + number) % TENANTS),
        correlation_id=f"wl_{node}_{number}",
        workload_id=f"wl_{node}_{number}",
        project="default",
        node_id=f"nod_{node:03d}",
        gpu_model="H100",
        gpu_count=1,
        fencing_token=1,
        activated_at=began_at,
        slots=(number,),
    )
    writer.command(lambda at: billing.open_meter(activation, at=at)).result()


def _report(billing: Billing, writer: Writer, node: int, call: int) -> Future[bytes]:
    slices = [
        Slice(f"lse_{node:03d}_{lease:03d}", 1, "boot", seq, (seq - 1) * STEP_US, seq * STEP_US)
        for lease in range(LEASES_EACH)
        for seq in range(call * SLICES_EACH + 1, (call + 1) * SLICES_EACH + 1)
    ]

    def run(at: int) -> bytes:
        verdicts = billing.record_slices(f"nod_{node:03d}", slices, at=at)
        return ",".join(verdicts).encode()

    key = f"nod_{node:03d}/{call}"
    return writer.command(run, key=key, payload=repr(slices[0]).encode())


def _decisions(billing: Billing, writer: Writer, results: Results) -> None:
    """Can the tenant pay, durably answered: one caller after the other."""
    seconds = []
    for number in range(DECISIONS):
        request = HoldRequest(
            f"lse_new_{number}", _tenant(number % TENANTS), "H100", 1, 3600, f"wl_new_{number}"
        )
        began = time.perf_counter()
        (answer,) = writer.command(partial(_ask, billing, request)).result()
        seconds.append(time.perf_counter() - began)
        assert answer.refusal is None, answer
    cuts = statistics.quantiles(seconds, n=100)
    results.add(Row("charge decision, durable, p50", cuts[49] * 1000, "ms"))
    results.add(Row("charge decision, durable, p99", cuts[98] * 1000, "ms"))


def _ask(billing: Billing, request: HoldRequest, at: int) -> list[HoldAnswer]:
    return billing.place_holds([request], at=at)


def _reading(store: Store, live: bytes, results: Results) -> None:
    began = time.perf_counter()
    rows, chain = 0, canonical.GENESIS
    for page in store.replay():
        for row in page:
            chain = sha256(chain + row.data).digest()
            assert chain == row.hash
        rows += len(page)
    results.add(Row("ledger chain verified", rows / (time.perf_counter() - began), "rows/s"))
    fresh = Billing(store)
    began = time.perf_counter()
    fresh.catch_up()
    results.add(Row("ledger replayed", rows / (time.perf_counter() - began), "rows/s"))
    assert fresh.state() == live, "a rebuild must equal the live state"


def _closing(url: str, results: Results) -> None:
    """Every tenant has one ended lease; all are invoiced."""
    with ledger_on(url, "closing") as (billing, writer, _):
        _tenants(billing, writer, CLOSED_TENANTS)
        began_at = now() - HOUR_US
        for number in range(CLOSED_TENANTS):
            _ended(billing, writer, number, began_at)
        began = time.perf_counter()
        futures = [
            writer.command(partial(_invoice, billing, _tenant(number)))
            for number in range(CLOSED_TENANTS)
        ]
        wait(futures)
        seconds = time.perf_counter() - began
        assert not any(future.exception() for future in futures)
    results.add(Row("invoices of 1,000 tenants issued", seconds, "s"))


def _invoice(billing: Billing, tenant_id: str, at: int) -> str:
    return str(billing.issue_invoice(tenant_id, at=at)["invoice_id"])


def _ended(billing: Billing, writer: Writer, number: int, began_at: int) -> None:
    lease_id, tenant_id = f"lse_{number}", _tenant(number)
    activation = Activation(
        lease_id=lease_id,
        tenant_id=tenant_id,
        correlation_id=f"wl_{number}",
        workload_id=f"wl_{number}",
        project="default",
        node_id=f"nod_{number}",
        gpu_model="H100",
        gpu_count=1,
        fencing_token=1,
        activated_at=began_at,
    )
    writer.command(lambda at: billing.open_meter(activation, at=at))
    writer.command(lambda at: billing.close_meter(lease_id, began_at + 1_800 * SECOND, at=at))

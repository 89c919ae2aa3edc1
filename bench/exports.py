"""Exporting a million charges: how long it takes, and that memory does not grow with them.

Each size runs in a process of its own, so that its peak is its own. What a process needs before
the first row is subtracted from nothing: the figure is everything the process ever held.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.results import Results, Row
from billing.exports.export import Selection, exported
from billing.money import HOUR_US, Rate
from chassis import canonical
from chassis.canonical import GENESIS, chained
from chassis.events import Recorded

ROWS = 1_000_000
FEW = 100_000
HOURS = 100
PAGE = 5_000
START = 1_767_268_800_000_000
RATE = Rate(2_490_000_000, HOUR_US)


def pages(rows: int, *, slices_an_hour: int = 1) -> Iterator[list[Recorded]]:
    """A log whose leases make ``rows`` charges: each runs a hundred hours on one GPU."""
    page: list[Recorded] = []
    hash_ = GENESIS
    for position, (topic, facts) in enumerate(_events(rows, slices_an_hour), 1):
        data = canonical.dumps(facts)
        hash_ = chained(hash_, data)
        meta = facts["meta"]
        page.append(
            Recorded(
                position, meta["aggregate_id"], 1, topic, meta["tenant_id"], "", "", data, hash_
            )
        )
        if len(page) == PAGE:
            yield page
            page = []
    yield page


def _events(rows: int, slices_an_hour: int) -> Iterator[tuple[str, dict]]:
    for number in range(rows // HOURS):
        yield "billing.meter.opened", _opened(number)
        step = HOUR_US // slices_an_hour
        for count in range(HOURS * slices_an_hour):
            yield "billing.meter.slice_recorded", _slice(number, count * step, (count + 1) * step)


def _meta(number: int, topic: str) -> dict:
    return {
        "aggregate_id": f"mtr_lse_{number}",
        "tenant_id": f"ten_{number % 200}",
        "at": START,
        "topic": topic,
        "version": 1,
        "actor": "svc:bench",
        "causation_id": "",
        "correlation_id": "",
    }


def _opened(number: int) -> dict:
    return {
        "meta": _meta(number, "billing.meter.opened"),
        "lease_id": f"lse_{number}",
        "workload_id": f"wl_{number}",
        "project": f"project-{number % 1000}",
        "gpu_model": "H100",
        "gpu_count": 1,
        "activated_at": START + number % 24 * HOUR_US,
        "price_nanos": RATE.price_nanos,
        "per_gpu_us": RATE.per_gpu_us,
        "currency": "USD",
        "price_version": 1,
    }


def _slice(number: int, from_us: int, until_us: int) -> dict:
    amount = RATE.amount(until_us) - RATE.amount(from_us)
    return {
        "meta": _meta(number, "billing.meter.slice_recorded"),
        "from_us": from_us,
        "until_us": until_us,
        "confirmed": True,
        "seq": 1,
        "boot_id": "boot",
        "amount_nanos": amount,
        "currency": "USD",
        "postings": [
            {"account": f"liability:hold:ten_{number % 200}:lse_{number}", "amount_nanos": amount},
            {"account": "income:gpu:H100", "amount_nanos": -amount},
        ],
    }


def measure(results: Results) -> None:
    for form in ("parquet", "csv"):
        few, many = _measured(form, FEW), _measured(form, ROWS)
        results.add(
            Row(
                f"FOCUS export as {form}, {ROWS:,} rows",
                ROWS / many["seconds"],
                "rows/s",
                note=f"{many['seconds']:.1f} s, {many['bytes'] / 1e6:.0f} MB",
            )
        )
        results.add(
            Row(
                f"peak memory of it, {form}",
                many["peak_mb"],
                "MB",
                note=f"{few['peak_mb']:.0f} MB for {FEW:,} rows",
            )
        )


def _measured(form: str, rows: int) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "bench.exports", form, str(rows)],
        capture_output=True,
        check=True,
    )
    found: dict = json.loads(done.stdout)
    return found


def main(form: str, rows: int) -> None:
    began, size = time.perf_counter(), 0
    for chunk in exported(pages(rows), Selection(form=form)):
        size += len(chunk)
    seconds = time.perf_counter() - began
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "bytes": size, "peak_mb": peak_mb}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

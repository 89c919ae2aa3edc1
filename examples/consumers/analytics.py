"""Charges for analysis: billing's log as Parquet files, one for each month, sorted for DuckDB.

    python -m examples.consumers.analytics lake
    duckdb -c "select SubAccountId, sum(BilledCost) from 'lake/*/charges.parquet' group by 1"

Each run reads the log, checks its hashes, and replaces the files of the months that changed, whole
or not at all. ``_manifest.json`` says which position and hash of the log they were made from.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from billing.exports.calendar import instant, month
from billing.exports.export import Selection, exported, selected
from chassis.events import Recorded
from examples.consumers.platform_log import GENESIS, billing, checked
from leasehold.chassis.v1.event_pb2 import RecordedEvent
from leasehold.chassis.v1.log_service_pb2_grpc import LogServiceStub


def recorded(event: RecordedEvent) -> Recorded:
    return Recorded(
        event.position,
        event.aggregate_id,
        event.version,
        event.topic,
        event.tenant_id,
        event.correlation_id,
        event.traceparent,
        event.data,
        event.hash,
    )


class Copy:
    """The log in a file, so that it is asked for once and read as often as needed."""

    def __init__(self, log: LogServiceStub, folder: Path) -> None:
        self._path = folder / "log"
        self.position, self.hash = 0, GENESIS
        with self._path.open("wb") as file:
            for page in checked(log, 0, GENESIS):
                for event in page:
                    data = event.SerializeToString()
                    file.write(len(data).to_bytes(4, "big") + data)
                    self.position, self.hash = event.position, event.hash

    def pages(self) -> Iterator[list[Recorded]]:
        with self._path.open("rb") as file:
            while size := file.read(4):
                event = RecordedEvent.FromString(file.read(int.from_bytes(size, "big")))
                yield [recorded(event)]


def write(log: LogServiceStub, lake: Path) -> dict[str, Any]:
    """Bring every month's file up to date; answers the manifest."""
    lake.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="leasehold-lake-") as folder:
        copy = Copy(log, Path(folder))
        months = sorted({month(row.start_us) for row in selected(copy.pages(), Selection())})
        for start, end in months:
            place = lake / f"billing_period={instant(start):%Y-%m}"
            place.mkdir(exist_ok=True)
            beside = place / ".charges.part"
            chosen = Selection(form="parquet", from_us=start, until_us=end)
            with beside.open("wb") as file:
                for chunk in exported(copy.pages(), chosen):
                    file.write(chunk)
            os.replace(beside, place / "charges.parquet")
    manifest = {"position": copy.position, "hash": copy.hash.hex(), "months": len(months)}
    (lake / "_manifest.json").write_text(json.dumps(manifest, indent=2))
    return manifest


def main() -> None:
    parser = argparse.ArgumentParser(description="Write billing's charges as Parquet files.")
    parser.add_argument("lake", type=Path)
    parser.add_argument(
        "--state", type=Path, default=Path(os.environ.get("LEASEHOLD_STATE", "state"))
    )
    chosen = parser.parse_args()
    with billing(chosen.state) as log:
        print(json.dumps(write(log, chosen.lake)))


if __name__ == "__main__":
    main()

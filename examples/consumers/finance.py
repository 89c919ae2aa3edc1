"""A ledger of your own: follows billing's log, checks every hash, keeps every balance.

    python -m examples.consumers.finance books.json

Run it again at any time: it goes on where it ended. Balances are in nano-units, by currency and
account; a debit is positive. It stops with exit code 1 if the log is not the one it has read so
far, or if an event does not balance. With ``--every 5`` it looks for more every five seconds.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from examples.consumers.platform_log import GENESIS, BrokenChain, billing, checked
from leasehold.chassis.v1.log_service_pb2_grpc import LogServiceStub


class Unbalanced(Exception):
    """An event made or lost money."""


def opened(path: Path) -> dict[str, Any]:
    """The books as they were left: how far they go, the hash there, and the balances."""
    if path.exists():
        books: dict[str, Any] = json.loads(path.read_text())
        return books
    return {"position": 0, "hash": GENESIS.hex(), "balances": {}}


def follow(log: LogServiceStub, path: Path) -> dict[str, Any]:
    """Enter everything that is new. The books are replaced page by page, whole or not at all."""
    books = opened(path)
    for page in checked(log, books["position"], bytes.fromhex(books["hash"])):
        for event in page:
            enter(books["balances"], json.loads(event.data))
        books["position"], books["hash"] = page[-1].position, page[-1].hash.hex()
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps(books, indent=2, sort_keys=True))
        os.replace(beside, path)
    return books


def enter(balances: dict[str, dict[str, int]], event: dict[str, Any]) -> None:
    """Move the accounts that an event names. What it moves sums to zero in each currency."""
    moved: dict[str, int] = {}
    for posting in event.get("postings") or ():
        currency = posting.get("currency") or event["currency"]
        amount = int(posting["amount_nanos"])
        accounts = balances.setdefault(currency, {})
        accounts[posting["account"]] = accounts.get(posting["account"], 0) + amount
        moved[currency] = moved.get(currency, 0) + amount
    if any(moved.values()):
        raise Unbalanced(f"{event['meta']['topic']} of {event['meta']['aggregate_id']}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Follow billing's log and keep its balances.")
    parser.add_argument("books", type=Path)
    parser.add_argument(
        "--state", type=Path, default=Path(os.environ.get("LEASEHOLD_STATE", "state"))
    )
    parser.add_argument("--every", type=float, default=0, metavar="SECONDS")
    chosen = parser.parse_args()
    while True:
        try:
            with billing(chosen.state) as log:
                books = follow(log, chosen.books)
        except (BrokenChain, Unbalanced) as wrong:
            print(f"stopped: {wrong}", file=sys.stderr)
            return 1
        print(f"position {books['position']}, hash {books['hash'][:16]}")
        if not chosen.every:
            return 0
        time.sleep(chosen.every)


if __name__ == "__main__":
    sys.exit(main())

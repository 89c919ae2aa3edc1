"""Whether a service's log is what it was: its chain recomputed, and compared with what others saw.

A bus that is away leaves a log half checked, and that is said; it never makes it right.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg_pool import PoolTimeout

from chassis.bus import BUS_ERRORS, Bus, UnsafeBus
from chassis.store import Store
from leasehold.called import PROGRAM
from leasehold.cli import anchors, chains, witnesses
from leasehold.cli.failures import Exit, Failure

_READER = "operator"
# Without a bus nothing is compared with it, so no event is too large for it.
_NO_BUS = witnesses.Extent(1, 0, 1 << 62)


@dataclass(frozen=True)
class Finding:
    """What is known about one service's log; ``difference`` is the first thing wrong with it."""

    service: str
    events: int
    # How many of them are on the bus, and agree.
    published: int
    # How many other services have applied it, and agree.
    witnesses: int
    head: str
    difference: str = ""
    # What could not be looked at, and why.
    unchecked: str = ""


async def verify(
    postgres_url: str, nats_url: str, service: str, anchor: Path | None = None
) -> Finding:
    """Recompute a service's chain from its store and compare it with what others have seen;
    billing's also with its signed heads, of which ``anchor`` is a copy."""
    bus = Bus(nats_url, _READER)
    try:
        try:
            extent, unchecked = await witnesses.extent(bus, service), ""
        except (*BUS_ERRORS, UnsafeBus) as error:
            extent, unchecked = _NO_BUS, f"the bus: {error}"
        seen, chain, wrong = await asyncio.to_thread(_stored, postgres_url, service, extent)
        published, told = 0, None
        if not wrong and not unchecked:
            try:
                published, told = await witnesses.compare_bus(bus, service, extent, chain)
            except BUS_ERRORS as error:
                unchecked = f"the bus: {error}"
        wrong = wrong or _first(told, witnesses.compare_sightings(seen, chain))
    finally:
        await bus.close()
    if service == "billing" and anchor is not None and not wrong:
        wrong, missing = await asyncio.to_thread(_unsigned, postgres_url, anchor)
        unchecked = unchecked or missing
    head = chain.hash(chain.head).hex()
    return Finding(service, chain.head, published, len(seen), head, wrong, unchecked)


def _first(*told: witnesses.Contradiction | None) -> str:
    """The first difference in words: of several witnesses, one that knows where it is."""
    found = sorted((one for one in told if one is not None), key=lambda one: not one.exact)
    return found[0].said if found else ""


def _unsigned(postgres_url: str, anchor: Path) -> tuple[str, str]:
    store = Store(postgres_url, "billing")
    try:
        return anchors.difference(store, anchor)
    finally:
        store.close()


def _stored(
    postgres_url: str, service: str, extent: witnesses.Extent
) -> tuple[list[witnesses.Sighting], chains.Chain, str]:
    try:
        seen = witnesses.sightings(postgres_url, service)
        store = Store(postgres_url, service)
        try:
            return seen, *chains.read(store, extent.large_bytes)
        finally:
            store.close()
    except psycopg.errors.UndefinedTable:
        return [], chains.Chain(), "its tables are missing"
    except (psycopg.OperationalError, PoolTimeout) as error:
        reason = " ".join(str(error).split())
        raise Failure(
            f"PostgreSQL cannot be read: {reason}",
            Exit.UNAVAILABLE,
            code="DATABASE_AWAY",
            hint=f"start the platform with `{PROGRAM} up`",
        ) from None

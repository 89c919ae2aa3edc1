"""What placement does by itself: it ends what the clock has ended, and lets nodes join."""

import asyncio

from chassis.edge import Edge
from chassis.identity import Identity
from chassis.rpc import Servicer, serve_grpc
from leasehold.authorisation import TABLE
from placement.application import Placement

TICK_SECONDS = 1.0
STOP_SECONDS = 1.0


async def keep_time(placement: Placement, edge: Edge) -> None:
    """Looks at what is due next, once a second, and never at what is not."""
    await edge.query(lambda: placement.expect_nodes(at=edge.now()))
    while True:
        due_at = await edge.query(placement.next_due_at)
        if due_at is not None and due_at <= edge.now():
            await edge.act(lambda at: placement.tick(at=at))
        await asyncio.sleep(TICK_SECONDS)


async def serve_joins(host: str, port: int, shown: Identity, join: Servicer) -> None:
    """The join port: no client certificate is asked for, because a joining node has none."""
    server = await serve_grpc(host, port, shown, [join], TABLE, require_client_certificate=False)
    try:
        await asyncio.Event().wait()
    finally:
        await server.stop(STOP_SECONDS)

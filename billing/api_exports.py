"""The gRPC face of exports. A tenant gets its own charges; finance and operators those of all.

An export reads the database, never the views, and works beside the writer: it holds up nobody.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator

import grpc

from billing import wire_exports as wire
from billing.application import Billing
from billing.exports.export import Selection, exported
from chassis.callers import caller
from chassis.errors import Invalid, Overloaded
from chassis.events import Recorded
from chassis.store import Store
from leasehold.billing.v1 import exports_service_pb2 as pb
from leasehold.billing.v1 import exports_service_pb2_grpc as pb_grpc

# Each needs a thread, a database connection and some hundred megabytes of disk.
AT_ONCE_MAX = 2
ISSUER = "Leasehold"
_WINDOW = 5_000


class ExportService(pb_grpc.ExportServiceServicer):
    def __init__(self, billing: Billing) -> None:
        assert isinstance(billing.log, Store)
        self._log = billing.log
        self._running = 0

    async def ExportFocus(
        self, request: pb.ExportFocusRequest, context: grpc.aio.ServicerContext
    ) -> AsyncIterator[pb.ExportFocusResponse]:
        tenant_id = caller(context).scope(request.tenant_id)
        chosen = wire.selection(request, ISSUER)
        head = (await asyncio.to_thread(self._log.head)).position
        if request.position > head:
            raise Invalid(f"the log ends at {head}", code="POSITION", field="position")
        position = request.position or head
        if self._running >= AT_ONCE_MAX:
            raise Overloaded(f"{AT_ONCE_MAX} exports are running already", code="EXPORTS_MAX")
        self._running += 1
        chunks = self._chunks(chosen, tenant_id, position)
        try:
            # The first piece goes at once: with it all errors are known.
            yield pb.ExportFocusResponse(position=position)
            while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
                yield pb.ExportFocusResponse(chunk=chunk, position=position)
        finally:
            self._running -= 1
            await asyncio.to_thread(_close, chunks)

    def _chunks(self, chosen: Selection, tenant_id: str, position: int) -> Iterator[bytes]:
        return exported(self._pages(tenant_id, position), chosen)

    def _pages(self, tenant_id: str, position: int) -> Iterator[list[Recorded]]:
        """Window by window, so that no page costs more than its window."""
        for after in range(0, position, _WINDOW):
            until = min(after + _WINDOW, position)
            yield self._log.read(after, _WINDOW, until=until, tenant_id=tenant_id)


def _close(chunks: Iterator[bytes]) -> None:
    """Whoever stops reading leaves no files behind."""
    if hasattr(chunks, "close"):
        chunks.close()

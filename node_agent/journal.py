"""What the agent must not forget: an append-only file of checked lines.

Every line is a checksum and a JSON document. A kill can tear only the last write, so a bad end is
cut off when the file is opened; a bad line before good ones is damage, and is refused rather
than skipped, because it may have been money. When the file has grown it is replaced by its state
in one rename. Whatever ``record`` was given is on disk when it returns.
"""

import errno
import json
import os
import zlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from chassis.errors import Unavailable
from node_agent import durable
from node_agent.metering import Meter, Slice

LINES_MAX = 2000


@dataclass(frozen=True)
class Entry:
    """What is remembered of one lease; see ``metering.Meter`` for the meter."""

    fencing_token: int
    meter: Meter = field(default_factory=Meter)
    # How much of the output the control plane has.
    log_offset: int = 0
    # The control plane has recorded the end.
    settled: bool = False


class Journal:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.leases: dict[str, Entry] = {}
        # The highest fencing token seen per slot; outlives the leases.
        self.fences: dict[int, int] = {}
        self._lines = self._load()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        durable.sync_folder(str(path.parent))

    def accept(self, lease_id: str, fencing_token: int, slots: tuple[int, ...]) -> None:
        """Before anything of a lease exists on the node."""
        self.record(
            {"lease": lease_id, "entry": _document(Entry(fencing_token))},
            *({"slot": slot, "token": fencing_token} for slot in slots),
        )

    def put(self, entries: dict[str, Entry], *, sync: bool = True) -> None:
        documents = [{"lease": id_, "entry": _document(e)} for id_, e in entries.items()]
        self.record(*documents, sync=sync)

    def forget(self, lease_id: str) -> None:
        self.record({"lease": lease_id, "entry": None})

    def record(self, *documents: dict[str, Any], sync: bool = True) -> None:
        if not documents:
            return
        self._append(b"".join(map(_line, documents)))
        if sync:
            os.fdatasync(self._file)
        for document in documents:
            self._apply(document)
        self._lines += len(documents)
        if self._lines > LINES_MAX + len(self.leases) + len(self.fences):
            self._compact()

    def _append(self, data: bytes) -> None:
        """All of it or none of it: later lines must not follow half a line."""
        size = os.fstat(self._file).st_size
        try:
            if os.write(self._file, data) < len(data):
                raise OSError(errno.ENOSPC, "the journal could not be written", str(self._path))
        except OSError:
            os.ftruncate(self._file, size)
            raise

    def close(self) -> None:
        os.close(self._file)

    def _apply(self, document: dict[str, Any]) -> None:
        if "slot" in document:
            slot, token = int(document["slot"]), int(document["token"])
            self.fences[slot] = max(token, self.fences.get(slot, 0))
        elif document["entry"] is None:
            self.leases.pop(document["lease"], None)
        else:
            self.leases[document["lease"]] = _entry(document["entry"])

    def _load(self) -> int:
        data = self._path.read_bytes() if self._path.exists() else b""
        good, lines = 0, data.splitlines(keepends=True)
        for number, line in enumerate(lines):
            document = _checked(line)
            if document is None:
                if any(_checked(later) is not None for later in lines[number + 1 :]):
                    raise Unavailable(f"{self._path}: line {number + 1} is damaged", code="JOURNAL")
                os.truncate(self._path, good)
                return number
            self._apply(document)
            good += len(line)
        return len(lines)

    def _compact(self) -> None:
        state: list[dict[str, Any]]
        state = [{"slot": slot, "token": token} for slot, token in self.fences.items()]
        state += [{"lease": id_, "entry": _document(e)} for id_, e in self.leases.items()]
        durable.write_bytes(str(self._path), b"".join(map(_line, state)))
        os.close(self._file)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        self._lines = len(state)


def _line(document: dict[str, Any]) -> bytes:
    data = json.dumps(document, sort_keys=True).encode()
    return b"%08x %s\n" % (zlib.crc32(data), data)


def _checked(line: bytes) -> dict[str, Any] | None:
    """The document of a whole, undamaged line."""
    checksum, space, data = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or not space or checksum != b"%08x" % zlib.crc32(data):
        return None
    document: dict[str, Any] = json.loads(data)
    return document


def _document(entry: Entry) -> dict[str, Any]:
    return asdict(entry)


def _entry(document: dict[str, Any]) -> Entry:
    meter = document["meter"]
    pending = Slice(**meter["pending"]) if meter["pending"] else None
    return replace(Entry(**document), meter=Meter(**{**meter, "pending": pending}))

"""The anchor file: every signed head, one JSON line each, appended and never changed.

It is meant to be copied to where the platform cannot write twice. Whoever later rewrites the log
or replaces the key contradicts it. A line that was cut off by a crash is completed, because the
same head gives the same line.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from billing.proof.heads import SignedHead
from chassis import canonical

# Of which a line is less than a tenth.
TAIL_BYTES = 8_192


class AnchorDiffers(Exception):
    """The anchor file holds something else than the heads that were signed."""


def line(head: SignedHead, public_key: str) -> bytes:
    return canonical.dumps({**head.facts(), "public_key": public_key}) + b"\n"


def read(content: bytes) -> list[tuple[SignedHead, str]]:
    """Heads and the public keys they were signed with; a cut-off last line is left out."""
    found = []
    for number, text in enumerate(content.split(b"\n")[:-1], 1):
        try:
            facts = canonical.loads(text)
            found.append((SignedHead.of(facts), str(facts["public_key"])))
        except (ValueError, KeyError, TypeError):
            raise AnchorDiffers(f"line {number} of the anchor file is no signed head") from None
    return found


class AnchorFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    def last_size(self) -> int:
        """Of the last whole line; 0 if there is none."""
        kept = self._tail()
        whole = kept[: kept.rfind(b"\n") + 1]
        start = whole[:-1].rfind(b"\n") + 1
        heads = read(whole[start:])
        return heads[-1][0].size if heads else 0

    def append(self, heads: Iterable[tuple[SignedHead, str]]) -> None:
        kept = self._tail()
        torn = kept[kept.rfind(b"\n") + 1 :]
        lines = b"".join(line(head, key) for head, key in heads)
        if not lines:
            return
        if not lines.startswith(torn):
            raise AnchorDiffers(f"{self._path} ends in the middle of another head")
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.write(lines[len(torn) :])
            file.flush()
            os.fsync(file.fileno())

    def _tail(self) -> bytes:
        """The end of the file, which grows for years: at least the last whole line and the rest."""
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
                return file.read()
        except FileNotFoundError:
            return b""

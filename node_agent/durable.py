"""Small JSON files that are always whole: readers see the old content or the new, never half.

With ``sync`` the new content also survives a power cut once ``write`` has returned.
Imports stay few: every job's supervisor loads this file.
"""

import json
import os
from typing import Any


def write(path: str, value: dict[str, Any], *, sync: bool = True, mode: int = 0o600) -> None:
    write_bytes(path, json.dumps(value, sort_keys=True).encode(), sync=sync, mode=mode)


def write_bytes(path: str, data: bytes, *, sync: bool = True, mode: int = 0o600) -> None:
    temporary = f"{path}.new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(descriptor)
    os.replace(temporary, path)
    if sync:
        sync_folder(os.path.dirname(path))


def read(path: str) -> dict[str, Any] | None:
    """The content, or None if the file is missing or was left empty by a power cut."""
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read())
    except (FileNotFoundError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def sync_folder(path: str) -> None:
    """Makes names that were added to or removed from a folder survive a power cut."""
    descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

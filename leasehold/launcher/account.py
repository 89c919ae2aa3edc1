"""The account that PostgreSQL runs as when the platform is started by root.

PostgreSQL refuses to run as root. An account that already exists is used, none is created, and
no file becomes readable to others: where a private folder lies above the data, that one account
may pass through it (an access control entry with search permission only).
"""

import os
import pwd
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

_CANDIDATES = ("postgres", "nobody")

# The kernel's binary form of an access control list: a version, then (tag, permissions, id).
_ACL_NAME = "system.posix_acl_access"
_ACL_VERSION = struct.pack("<I", 2)
_ENTRY = struct.Struct("<HHI")
_OWNER, _USER, _GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
_NO_ID = 0xFFFFFFFF
_SEARCH = 0x1

Entry = tuple[int, int, int]


class Unreachable(Exception):
    """The account cannot get to a folder; the text names the folder."""


@dataclass(frozen=True)
class Account:
    name: str
    uid: int
    gid: int

    def can_run(self, *command: str) -> bool:
        try:
            done = subprocess.run(
                command,
                user=self.uid,
                group=self.gid,
                extra_groups=[],
                cwd="/",
                capture_output=True,
            )
        except OSError:
            return False
        return done.returncode == 0


def server_account(data_dir: Path) -> Account | None:
    """Whom to run as; None means as ourselves."""
    if os.geteuid() != 0:
        return None
    if data_dir.exists() and (owner := data_dir.stat().st_uid) != 0:
        return _account(pwd.getpwuid(owner))
    for name in _CANDIDATES:
        try:
            return _account(pwd.getpwnam(name))
        except KeyError:
            continue
    raise Unreachable("PostgreSQL cannot run as root, and there is no account 'nobody' to use")


def let_through(account: Account, folder: Path) -> None:
    """Make every folder on the way to ``folder`` passable for the account."""
    for ancestor in [*reversed(folder.parents), folder]:
        if account.can_run("test", "-x", str(ancestor)):
            continue
        try:
            _allow_search(ancestor, account.uid)
        except OSError as error:
            raise Unreachable(
                f"PostgreSQL runs as '{account.name}', which may not enter {ancestor} ({error})"
            ) from None


def _account(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _allow_search(folder: Path, uid: int) -> None:
    entries = [
        entry for entry in _entries(folder) if entry[0] != _MASK and entry[:3:2] != (_USER, uid)
    ]
    entries.append((_USER, _SEARCH, uid))
    mask = 0
    for tag, permissions, _ in entries:
        if tag not in (_OWNER, _OTHER):
            mask |= permissions
    entries.append((_MASK, mask, _NO_ID))
    ordered = sorted(entries, key=lambda entry: (entry[0], entry[2]))
    os.setxattr(folder, _ACL_NAME, _ACL_VERSION + b"".join(_ENTRY.pack(*e) for e in ordered))


def _entries(folder: Path) -> list[Entry]:
    try:
        stored = os.getxattr(folder, _ACL_NAME)
    except OSError:
        mode = folder.stat().st_mode
        return [
            (_OWNER, mode >> 6 & 7, _NO_ID),
            (_GROUP, mode >> 3 & 7, _NO_ID),
            (_OTHER, mode & 7, _NO_ID),
        ]
    return list(_ENTRY.iter_unpack(stored[len(_ACL_VERSION) :]))

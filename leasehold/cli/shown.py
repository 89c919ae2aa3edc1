"""How values read: exact money, times in UTC, durations, and lists of them.

Money is never a float here: text and nano-units convert into each other without loss.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.table import Table
from rich.text import Text

from leasehold.cli.listing import NOTHING as NOTHING
from leasehold.cli.listing import Listing

NANOS = 1_000_000_000
SECOND_US = 1_000_000
HOUR_US = 3_600 * SECOND_US

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DECIMAL = re.compile(r"(-?)([0-9]{1,20})(?:\.([0-9]{1,9}))?", re.ASCII)
_STYLES = {
    "QUEUED": "yellow", "ADMITTED": "cyan", "RUNNING": "green", "STOPPING": "magenta",
    "SUCCEEDED": "bold green", "FAILED": "bold red", "STOPPED": "magenta",
    "HELD": "yellow", "BOUND": "cyan", "ACTIVE": "green", "DRAINING": "magenta",
    "ready": "green", "silent": "red", "quarantined": "red", "invited": "yellow",
    "ok": "green", "DIFFERS": "bold red", "UNCHECKED": "yellow",
}  # fmt: skip


def money(nanos: int | str, currency: str = "") -> str:
    """``2490000000`` as ``2.49``: exact, with at least two places."""
    value = int(nanos)
    whole, fraction = divmod(abs(value), NANOS)
    places = f"{fraction:09d}".rstrip("0").ljust(2, "0")
    return f"{'-' if value < 0 else ''}{whole}.{places} {currency}".rstrip()


def nanos(text: str) -> int:
    """The nano-units of a decimal text; ValueError if it is none or has more than 9 places."""
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no amount of money, such as 100.00")
    value = int(match[2]) * NANOS + int((match[3] or "").ljust(9, "0"))
    return -value if match[1] else value


def price(price_nanos: int | str, per_gpu_us: int, currency: str = "") -> str:
    """A price as it was published: for one GPU and one hour, or for whatever it is."""
    unit = "GPU-h" if per_gpu_us == HOUR_US else f"{seconds(per_gpu_us)} GPU-s"
    return f"{money(price_nanos, currency)} / {unit}"


def moment(micros: int) -> str:
    """A time in UTC, to the second."""
    if not micros:
        return NOTHING
    return f"{_EPOCH + timedelta(microseconds=micros):%Y-%m-%d %H:%M:%S}Z"


def moment_of_today(micros: int, now: int) -> str:
    """A time in UTC, without the date if that is today's."""
    full = moment(micros)
    return full[11:] if micros and full[:10] == moment(now)[:10] else full


def seconds(micros: int) -> str:
    """Exact seconds: ``12345678`` as ``12.345678``."""
    whole, fraction = divmod(abs(micros), SECOND_US)
    digits = f"{fraction:06d}".rstrip("0").ljust(1, "0")
    return f"{'-' if micros < 0 else ''}{whole}.{digits}"


def duration(micros: int) -> str:
    """For reading at a glance: ``1 h 02 m``, ``3 m 09 s``, ``12.3 s``."""
    tenths = max(0, micros) // 100_000
    total = tenths // 10
    if total >= 3600:
        return f"{total // 3600} h {total % 3600 // 60:02d} m"
    if total >= 60:
        return f"{total // 60} m {total % 60:02d} s"
    return f"{total}.{tenths % 10} s"


def gpus(count: int, model: str) -> str:
    return f"{count} × {model}"


def plain(value: Any) -> str:
    """Text that cannot move the cursor: control characters are shown, not obeyed."""
    text = NOTHING if value is None or value == "" else str(value)
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def styled(state: Any) -> Text:
    return Text(plain(state), style=_STYLES.get(str(state), ""))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, prose: bool = False) -> Listing:
    """A listing of cells that may be anything; what is none of a Text is shown as plain text."""
    cells = [
        [cell if isinstance(cell, Text) else Text(plain(cell)) for cell in row] for row in rows
    ]
    return Listing(columns, cells, prose=prose)


def pairs(rows: Iterable[tuple[str, Any]]) -> Table:
    """Names and values, one below the other."""
    drawn = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    drawn.add_column(style="dim", no_wrap=True)
    drawn.add_column(overflow="fold")
    for name, value in rows:
        drawn.add_row(Text(name), value if isinstance(value, Text) else Text(plain(value)))
    return drawn

"""Edges of billing periods. Pure.

An edge is the first instant of a month in the tenant's zone, computed once, when the period is
opened; from then on it is the stored instant that counts, whatever becomes of the zone.
"""

from calendar import timegm
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from chassis.clock import SECOND
from chassis.errors import Invalid

GRACE_US = 72 * 3600 * SECOND
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Invalid(f"{name!r} is no time zone", code="ZONE", field="zone") from error


def month_start(at: int, zone_name: str) -> int:
    """The last edge that is not after ``at``."""
    local = _local(at, zone_name)
    return _instant(datetime(local.year, local.month, 1, tzinfo=zone(zone_name)))


def month_end(at: int, zone_name: str) -> int:
    """The first edge after ``at``."""
    local = _local(at, zone_name)
    year, month = (local.year + 1, 1) if local.month == 12 else (local.year, local.month + 1)
    return _instant(datetime(year, month, 1, tzinfo=zone(zone_name)))


def may_close(ends_at: int, watermark: int, *, at: int, grace_us: int) -> str:
    """Why a period may close now; "" while it may not."""
    if at < ends_at:
        return ""
    if watermark >= ends_at:
        return "WATERMARK"
    return "GRACE" if at >= ends_at + grace_us else ""


def _local(at: int, zone_name: str) -> datetime:
    return (_EPOCH + timedelta(microseconds=at)).astimezone(zone(zone_name))


def _instant(edge: datetime) -> int:
    return timegm(edge.utctimetuple()) * SECOND

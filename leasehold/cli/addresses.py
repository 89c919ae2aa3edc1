"""The gateway's address: where secrets may be sent, and where they may not."""

from urllib.parse import urlsplit

from leasehold.cli.failures import Exit, Failure

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def is_local(url: str) -> bool:
    return urlsplit(url).hostname in _LOOPBACK


def checked_url(url: str) -> str:
    """The URL, if secrets may be sent there."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number
        known = False
    if not known:
        raise Failure(
            f"{url!r} is no address of a gateway",
            Exit.USAGE,
            code="GATEWAY_URL",
            hint="give it as https://host:port",
        )
    if parts.scheme == "http" and not is_local(url):
        raise Failure(
            f"{url} is not encrypted, and secrets would be sent there",
            Exit.USAGE,
            code="GATEWAY_URL",
            hint="use https; plain http is for this machine only",
        )
    return url.rstrip("/")

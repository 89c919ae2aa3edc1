"""Every event of a lease, from intent to invoice line, across services and in causal order.

The order is the gateway's: no effect before its cause. Here it is only drawn.
"""

from typing import Any

import click
from rich.text import Text
from rich.tree import Tree

from leasehold.cli import naming, shown
from leasehold.cli.costs import TENANT_OPTION, tenant_of
from leasehold.cli.grammar import Command, pass_session
from leasehold.cli.session import Session

FACT_CHARACTERS_MAX = 48
_STYLES = {
    "gateway": "white", "admission": "yellow", "placement": "cyan", "aggregator": "blue",
    "enforcement": "magenta", "billing": "green",
}  # fmt: skip
# Too long for a line, or the same in all lines; -o json has everything.
_LEFT_OUT = {
    "manifest", "intent", "postings", "lines", "meta", "currency",
    "lease_id", "workload_id", "project", "env", "boot_id", "fencing_token", "release_sha256",
    "type_version", "price_version", "per_gpu_us", "seq", "confirmed",
}  # fmt: skip
_NOTHING: tuple[Any, ...] = ("", 0, False, None, [], {})


@click.command(cls=Command)
@click.argument("lease")
@click.option("--tree", "as_tree", is_flag=True, help="Draw what caused what as a tree.")
@TENANT_OPTION
@pass_session
def trail(session: Session, lease: str, as_tree: bool, tenant: str) -> None:
    """Tell every event of a lease, across all services.

    No effect stands before its cause. LEASE is the id of a lease, or the id or name of its
    workload. Times count from the first event; what no event caused is told with who asked for
    it.
    """
    client = session.client
    key = naming.lease_id(client, lease, tenant_of(session, tenant))
    answer = client.get(f"/v1/leases/{key}/trail")
    events = answer["events"]
    since = f" since {shown.moment(events[0]['at'])}" if events else ""
    head = [
        ("lease", answer["lease_id"]),
        ("workload", answer["workload_id"]),
        ("events", f"{len(events)}{since}"),
    ]
    session.show(answer, shown.pairs(head), "", _tree(events) if as_tree else timeline(events))


def timeline(events: list[dict[str, Any]]) -> Any:
    numbers = {event["event_id"]: number for number, event in enumerate(events, 1)}
    first = events[0]["at"] if events else 0
    currency = _currency(events)
    rows = [
        [
            str(numbers[event["event_id"]]),
            offset(event["at"] - first),
            _event(event),
            _cause(event, numbers),
            facts(event, first, currency) or " ",
        ]
        for event in events
    ]
    return shown.table([">#", ">AFTER", "EVENT", "BECAUSE OF", "FACTS"], rows, prose=True)


def _tree(events: list[dict[str, Any]]) -> Tree:
    """Events below what caused them; what no event caused stands at the left, with who asked."""
    root = Tree("", hide_root=True)
    first = events[0]["at"] if events else 0
    currency = _currency(events)
    branches: dict[str, Tree] = {}
    for event in events:
        parent = branches.get(event["causation_id"])
        label = Text.assemble((f"{offset(event['at'] - first)}  ", "dim"), _event(event))
        if parent is None:
            label.append(f"  by {_actor(event)}", style="dim")
        if said := facts(event, first, currency):
            label.append(f"  {said}", style="dim")
        branches[event["event_id"]] = (parent or root).add(label)
    return root


def offset(micros: int) -> str:
    """Since the first event, to the millisecond."""
    sign = "-" if micros < 0 else "+"
    whole, rest = divmod(abs(micros) // 1000, 1000)
    return f"{sign}{whole}.{rest:03d} s"


def _currency(events: list[dict[str, Any]]) -> str:
    """A lease is paid for in one currency, which not every event about its money repeats."""
    return next(filter(None, (str(event["data"].get("currency", "")) for event in events)), "")


def facts(event: dict[str, Any], first: int, currency: str) -> str:
    """The event's own fields, short enough for a line; what says nothing is left out."""
    data = event["data"]
    said = [
        f"{_name(name)}={_fact(name, value, currency, first)}"
        for name, value in data.items()
        if name not in _LEFT_OUT and (name == "exit_code" or value not in _NOTHING)
    ]
    return ", ".join(said)


def _name(field: str) -> str:
    return field.replace("_nanos", "").removesuffix("_us")


def _fact(name: str, value: Any, currency: str, first: int) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        if "_nanos" in name:
            return shown.money(value, currency)
        if name.endswith("_at"):
            return offset(value - first)
        if name.endswith("_us"):
            return f"{shown.seconds(value)} s"
    text = shown.plain(value)
    return text if len(text) <= FACT_CHARACTERS_MAX else f"{text[: FACT_CHARACTERS_MAX - 1]}…"


def _event(event: dict[str, Any]) -> Text:
    return Text(shown.plain(event["topic"]), style=_STYLES.get(event["service"], ""))


def _cause(event: dict[str, Any], numbers: dict[str, int]) -> str:
    number = numbers.get(event["causation_id"])
    return f"#{number}" if number else _actor(event)


def _actor(event: dict[str, Any]) -> str:
    """Who asked, in a word: a tenant's and a node's ids are the same all along."""
    kind, _, name = str(event["actor"]).partition(":")
    return shown.plain(name if kind == "svc" else kind)

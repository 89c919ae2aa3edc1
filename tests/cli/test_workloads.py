"""Applying, looking, explaining, following, stopping."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import StreamingResponse

from chassis.errors import Invalid, NotFound
from gateway.http import bodies
from gateway.http.intents import IntentDocument
from gateway.strict import json_document
from gateway.yaml_documents import yaml_document
from leasehold.cli import output, progress
from leasehold.cli.failures import Exit
from tests.cli.conftest import Run
from tests.cli.shapes import (
    AT,
    FAILED,
    QUEUED,
    RUNNING,
    SECOND,
    SUCCEEDED,
    explanation,
    lease_id,
    workload,
    workload_id,
    workloads,
)
from tests.cli.standin import Asked, StandIn

pytestmark = pytest.mark.usefixtures("logged_in")

LOGS = f"/v1/workloads/{workload_id(1)}/logs"
EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.*")), ids=lambda path: path.name)
def test_every_example_is_an_intent_that_the_gateway_accepts(path: Path) -> None:
    reader = json_document if path.suffix == ".json" else yaml_document
    document = bodies.read(IntentDocument, reader(path.read_bytes()))
    assert document.intent().training_job.gpu_count > 0


@pytest.mark.parametrize(
    ("name", "media"), [("train.yaml", "application/yaml"), ("train.json", "application/json")]
)
def test_the_document_is_sent_as_it_was_written(
    gateway: StandIn, leasehold: Run, name: str, media: str
) -> None:
    gateway.on("POST", "/v1/workloads", workload(1, state=QUEUED, position=1))
    code, out, _ = leasehold("apply", "-f", str(EXAMPLES / name))
    (sent,) = gateway.calls("POST", "/v1/workloads")
    assert (code, sent.headers["content-type"]) == (0, media)
    assert sent.body == (EXAMPLES / name).read_bytes()
    assert workload_id(1) in out


def test_a_key_given_by_hand_is_the_key_that_is_sent(gateway: StandIn, leasehold: Run) -> None:
    gateway.on("POST", "/v1/workloads", workload(1, state=QUEUED))
    for _ in range(2):
        assert leasehold("apply", "-f", str(EXAMPLES / "train.yaml"), "--key", "again")[0] == 0
    assert [one.key for one in gateway.calls("POST", "/v1/workloads")] == ["again", "again"]


def test_a_refused_document_names_the_field(gateway: StandIn, leasehold: Run) -> None:
    wrong = Invalid("Input should be at least 1", code="FIELD", field="spec.gpus")
    gateway.on("POST", "/v1/workloads", wrong)
    code, out, err = leasehold("apply", "-f", str(EXAMPLES / "train.yaml"))
    assert (code, out) == (Exit.USAGE, "")
    assert err.startswith("leasehold: spec.gpus: Input should be at least 1 (FIELD)\n  next: ")


def test_a_file_that_is_not_there_is_one_sentence(leasehold: Run, tmp_path: Path) -> None:
    code, _, err = leasehold("apply", "-f", str(tmp_path / "none.yaml"))
    assert (code, "No such file" in err) == (Exit.USAGE, True)


@pytest.mark.parametrize(("state", "code"), [(SUCCEEDED, 0), (FAILED, 1)])
def test_waiting_tells_each_change_once_and_ends_with_the_works_own_result(
    gateway: StandIn, leasehold: Run, monkeypatch: pytest.MonkeyPatch, state: int, code: int
) -> None:
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.01)
    queued = workload(1, state=QUEUED, reason=5, position=2, detail="needs 2, free 1")
    ended = workload(1, state=state, started_at=AT, ended_at=AT + 12 * SECOND, cause="EXITED")
    steps = iter([queued, queued, workload(1, state=RUNNING), ended])
    gateway.on("POST", "/v1/workloads", queued)
    gateway.on("GET", f"/v1/workloads/{workload_id(1)}", lambda _: next(steps))
    arguments = ["apply", "-f", str(EXAMPLES / "train.yaml"), "--wait", "-o", "json"]
    exit_code, out, err = leasehold(*arguments)
    assert exit_code == code
    assert json.loads(out) == ended
    assert err.count("QUEUED (CAPACITY, position 2): needs 2, free 1") == 1
    assert err.count("RUNNING") == 1


def test_waiting_survives_a_gateway_that_is_away_for_a_moment(
    gateway: StandIn, leasehold: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.01)
    gateway.on("POST", "/v1/workloads", workload(1, state=RUNNING))
    gateway.on("GET", f"/v1/workloads/{workload_id(1)}", workload(1, state=SUCCEEDED))
    leasehold("whoami")
    gateway.troubles.extend(["", *["503"] * 9])
    code, _, err = leasehold("apply", "-f", str(EXAMPLES / "train.yaml"), "--wait")
    assert (code, "still waiting" in err) == (0, True)


def test_waiting_ends_in_time(gateway: StandIn, leasehold: Run) -> None:
    gateway.on("POST", "/v1/workloads", workload(1, state=RUNNING))
    gateway.on("GET", f"/v1/workloads/{workload_id(1)}", workload(1, state=RUNNING))
    wait = ["--wait", "--timeout", "1"]
    code, _, err = leasehold("apply", "-f", str(EXAMPLES / "train.yaml"), *wait)
    assert (code, "(WAIT_TIMEOUT)" in err) == (Exit.UNAVAILABLE, True)


def test_ps_has_one_line_per_workload_and_no_colours_in_a_pipe(
    gateway: StandIn, leasehold: Run
) -> None:
    found = [
        workload(2, "waits", state=QUEUED, reason=4, position=3),
        workload(
            1, "n" * 63, state=FAILED, cause="EXITED", exit_code=3, started_at=AT, ended_at=AT
        ),
    ]
    gateway.on("GET", "/v1/workloads", workloads(*found))
    code, out, err = leasehold("ps")
    head, first, second = out.splitlines()
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert head.split() == ["WORKLOAD", "NAME", "STATE", "WHY", "GPUS", "STARTED", "FOR"]
    assert "QUOTA, position 3" in first
    assert all(part in second for part in (workload_id(1), "n" * 63, "EXITED 3", "2 × H100"))
    assert json.loads(leasehold("-o", "json", "ps")[1]) == {"workloads": found}


def test_all_pages_are_read_when_asked_for(gateway: StandIn, leasehold: Run) -> None:
    def page(asked: Asked) -> dict[str, Any]:
        if asked.query.get("page_token"):
            return workloads(workload(1, state=RUNNING))
        return workloads(workload(2, state=RUNNING), token="more")

    gateway.on("GET", "/v1/workloads", page)
    assert len(json.loads(leasehold("ps", "--all", "-o", "json")[1])["workloads"]) == 2


# Which workload is meant, by what was typed: (typed, what is stopped or the exit code).
@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (workload_id(7), 7),
        ("wl_0000000000000000000031", Exit.NOT_FOUND),
        ("alone", 1),
        ("again", 3),
        ("twins", Exit.USAGE),
        ("wl_00000000000000000004", 41),
        ("000000000000000000041", 41),
        ("wl_0", Exit.USAGE),
        ("nobody", Exit.NOT_FOUND),
        ("", Exit.NOT_FOUND),
    ],
)
def test_the_workload_to_stop_is_named_without_doubt(
    gateway: StandIn, leasehold: Run, typed: str, meant: int
) -> None:
    gateway.on(
        "GET",
        "/v1/workloads",
        workloads(
            workload(41, "twins", state=RUNNING),
            workload(30, "twins", state=QUEUED),
            workload(4, "again", state=FAILED),
            workload(3, "again", state=RUNNING),
            workload(1, "alone", state=FAILED),
        ),
    )
    for number in (1, 3, 7, 41):
        path = f"/v1/workloads/{workload_id(number)}/stop"
        gateway.on("POST", path, workload(number, state=RUNNING))
    code, out, _ = leasehold("stop", typed)
    if isinstance(meant, Exit):
        assert code == meant
        assert not [one for one in gateway.asked if one.path.endswith("/stop")]
    else:
        assert workload_id(meant) in out


def test_to_look_at_the_newest_of_a_name_is_meant(gateway: StandIn, leasehold: Run) -> None:
    found = [workload(2, "twins", state=QUEUED), workload(1, "twins", state=RUNNING)]
    gateway.on("GET", "/v1/workloads", workloads(*found))
    gateway.on("GET", f"/v1/workloads/{workload_id(2)}/explain", explanation([]))
    assert leasehold("explain", "twins")[0] == 0


def test_explaining_shows_position_numbers_remedies_and_every_interval(
    gateway: StandIn, leasehold: Run
) -> None:
    waits = [(0, 30 * SECOND, 6, "2 ahead"), (30 * SECOND, 60 * SECOND, 5, "needs 8, free 4")]
    answer = explanation(waits, remedies=["wait until 4 more GPUs are free"])
    gateway.on("GET", f"/v1/workloads/{workload_id(1)}/explain", answer)
    code, out, _ = leasehold("explain", workload_id(1))
    assert code == 0
    for part in ("3 (2 ahead)", "CAPACITY", "4 of 16 H100", "• wait until 4 more GPUs are free"):
        assert part in out
    first, second = out.splitlines()[-2:]
    assert "█" * 20 + "·" * 20 in first
    assert "·" * 20 + "█" * 20 in second
    assert "30.0 s" in second


def test_the_output_is_written_byte_for_byte(gateway: StandIn, leasehold: Run) -> None:
    gateway.on("GET", LOGS, StreamingResponse(iter([b"one\n", b"tw\xc3\xb6\r\n"])))
    assert leasehold("logs", workload_id(1)) == (0, "one\ntwö\r\n", "")


def test_following_resumes_where_it_broke_off(
    gateway: StandIn, leasehold: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PAUSE_SECONDS", 0.01)
    text = b"one\xe2\x80\xa8\xc2\x85two\nthree\n"  # with what Unicode calls the end of a line
    streams = iter([sse(text, 0, 12), b"", sse(text, 12, len(text)) + b"event: end\ndata: {}\n\n"])
    gateway.on("GET", LOGS, lambda _: StreamingResponse(iter([next(streams)])))
    code, out, _ = leasehold("logs", "-f", workload_id(1))
    assert (code, out) == (0, text.decode())
    seen = [one.headers.get("last-event-id") for one in gateway.calls("GET", LOGS)]
    assert seen == [None, "12", "12"]


def test_following_gives_up_on_an_error_and_after_many_failures(
    gateway: StandIn, leasehold: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PAUSE_SECONDS", 0.01)
    problem = b'event: error\ndata: {"code": "LOST", "detail": "the node is gone"}\n\n'
    gateway.on("GET", LOGS, lambda _: StreamingResponse(iter([problem])))
    code, _, err = leasehold("logs", "-f", workload_id(1))
    assert (code, "the node is gone (LOST)" in err) == (Exit.NEGATIVE, True)
    gateway.on("GET", LOGS, NotFound("no workload", code="WORKLOAD_NOT_FOUND"))
    assert leasehold("logs", "-f", workload_id(1))[0] == Exit.NOT_FOUND
    gateway.troubles.extend(["503"] * 50)
    assert leasehold("logs", "-f", workload_id(1))[0] == Exit.UNAVAILABLE
    assert len(gateway.troubles) == 50 - output.ATTEMPTS_MAX


@given(st.lists(st.text(), min_size=1), st.integers(1, 7))
def test_events_are_the_same_however_the_bytes_arrive(texts: list[str], size: int) -> None:
    stream = b": pulse\n\n" + b"".join(
        b"id: 1\ndata: " + orjson.dumps({"text": text}) + b"\n\n" for text in texts
    )
    chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert [json.loads(event.data)["text"] for event in output.parsed(chunks)] == texts


def test_a_trail_is_told_in_order_with_offsets_and_causes(gateway: StandIn, leasehold: Run) -> None:
    events = list(trail_events())
    document = {"lease_id": lease_id(1), "workload_id": workload_id(1), "events": events}
    gateway.on("GET", f"/v1/leases/{lease_id(1)}/trail", document)
    gateway.on("GET", f"/v1/workloads/{workload_id(1)}", workload(1, lease_id=lease_id(1)))
    code, out, _ = leasehold("trail", workload_id(1))
    *_, submitted, bound, closed, invoiced = out.splitlines()
    assert code == 0
    assert submitted.split()[:4] == ["1", "+0.000", "s", "admission.workload.submitted"]
    assert "tenant" in submitted
    assert bound.split()[:5] == ["2", "+0.052", "s", "placement.lease.bound", "#1"]
    assert "slots=[0, 1]" in bound
    assert "manifest" not in bound
    assert "amount=0.014394322 USD, lease=10.405534 s" in closed
    assert "amount=0.01 USD, line=1" in invoiced
    assert json.loads(leasehold("trail", lease_id(1), "-o", "json")[1]) == document
    tree = leasehold("trail", lease_id(1), "--tree")[1]
    assert "└── +0.052 s  placement.lease.bound" in tree


def test_a_workload_without_a_lease_has_no_trail_yet(gateway: StandIn, leasehold: Run) -> None:
    gateway.on("GET", f"/v1/workloads/{workload_id(1)}", workload(1, state=QUEUED))
    code, _, err = leasehold("trail", workload_id(1))
    assert (code, "leasehold explain" in err) == (Exit.NOT_FOUND, True)


def sse(text: bytes, begin: int, end: int) -> bytes:
    data = orjson.dumps({"offset": begin, "text": text[begin:end].decode()})
    return b": following\n\nid: %d\ndata: %s\n\n" % (end, data)


def trail_events() -> Iterator[dict[str, Any]]:
    closed = {"amount_nanos": 14_394_322, "currency": "USD", "lease_us": 10_405_534, "meta": {}}
    rows: list[tuple[str, str, int, str, str, dict[str, Any]]] = [
        ("admission", "workload.submitted", 0, "tenant:ten_1/cli_1", "req_1", {"intent": {}}),
        ("placement", "lease.bound", 52_000, "svc:placement", "admission/0/1",
         {"slots": [0, 1], "manifest": "{}"}),
        ("billing", "meter.closed", 10_990_000, "svc:billing", "placement/0/1", closed),
        ("billing", "meter.invoiced", 11_990_000, "tenant:ten_1/cli_1", "req_2",
         {"amount_nanos": 10_000_000, "line": 1}),
    ]  # fmt: skip
    for service, name, after, actor, cause, data in rows:
        yield {
            "service": service,
            "position": 1,
            "event_id": f"{service}/0/1",
            "topic": f"{service}.{name}",
            "at": AT + after,
            "actor": actor,
            "causation_id": cause,
            "aggregate_id": "x_1",
            "hash": "00",
            "data": data,
        }

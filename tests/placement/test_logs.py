"""What workloads print, on real PostgreSQL: in order, once, without holes, and bounded."""

from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg_pool import ConnectionPool

from chassis.errors import Refused, Unavailable
from placement import logs
from placement.logs import Chunk, LogChunks


@pytest.fixture
def chunks(database: str) -> Iterator[LogChunks]:
    with psycopg.connect(database) as connection:
        connection.execute("drop schema if exists placement cascade")
        connection.execute("create schema placement")
        connection.execute(logs.ddl("placement", "current_user").encode())
    with pool(database) as connections:
        yield LogChunks(connections)


def test_output_is_read_back_from_any_offset(chunks: LogChunks) -> None:
    chunks.append([Chunk("lse_1", 0, b"one "), Chunk("lse_2", 0, b"x"), Chunk("lse_1", 4, b"two")])
    assert chunks.read("lse_1", 0).data == b"one two"
    assert chunks.read("lse_1", 5) == Chunk("lse_1", 5, b"wo")
    assert chunks.read("lse_1", 7).data == b""
    assert chunks.read("lse_1", 99).data == b""
    assert chunks.read("lse_none", 0).data == b""


def test_what_is_stored_is_dropped_and_the_rest_is_kept(chunks: LogChunks) -> None:
    for data in (b"abc", b"abc", b"abcdef", b"ab"):
        chunks.append([Chunk("lse_1", 0, data)])
    chunks.append([Chunk("lse_1", 5, b"fg")])
    assert chunks.read("lse_1", 0).data == b"abcdefg"


def test_a_gap_is_refused_with_the_offset_that_is_wanted(chunks: LogChunks) -> None:
    chunks.append([Chunk("lse_1", 0, b"abc")])
    with pytest.raises(Refused) as error:
        chunks.append([Chunk("lse_1", 3, b"d"), Chunk("lse_1", 5, b"f")])
    assert (error.value.code, error.value.details) == ("LOG_GAP", {"expected": "4"})
    assert chunks.read("lse_1", 0).data == b"abc", "all of a call or none of it"


def test_the_newest_output_is_kept_within_its_bound(
    chunks: LogChunks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "BYTES_MAX", 10)
    for number in range(10):
        chunks.append([Chunk("lse_1", number * 4, b"%04d" % number)])
    kept = chunks.read("lse_1", 0)
    assert (kept.offset, kept.data) == (28, b"000700080009")
    chunks.append([Chunk("lse_1", 40, b"more")])
    assert chunks.read("lse_1", 36).data == b"0009more"


def test_much_output_is_read_in_pieces(chunks: LogChunks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "READ_BYTES_MAX", 100)
    written = b"".join(b"line %06d\n" % number for number in range(200))
    for offset in range(0, len(written), 24):
        chunks.append([Chunk("lse_1", offset, written[offset : offset + 24])])
    seen = b""
    while piece := chunks.read("lse_1", len(seen)).data:
        assert len(piece) <= 100 + 24
        seen += piece
    assert seen == written


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(min_size=1, max_size=60), st.lists(st.tuples(*[st.integers(0, 60)] * 2)))
def test_any_retries_give_the_output_once(
    chunks: LogChunks, output: bytes, sends: list[tuple[int, int]]
) -> None:
    lease_id = f"lse_{hash((output, tuple(sends)))}"
    stored = 0
    for begin, end in [*sends, (0, len(output))]:
        piece = Chunk(lease_id, begin, output[begin:end])
        if begin <= stored:
            chunks.append([piece])
            stored = max(stored, begin + len(piece.data))
    assert chunks.read(lease_id, 0).data == output


def test_a_database_that_is_away_is_told_as_such() -> None:
    with pool("postgresql://127.0.0.1:1/nowhere") as connections:
        away = LogChunks(connections)
        with pytest.raises(Unavailable):
            away.read("lse_1", 0)
        with pytest.raises(Unavailable):
            away.append([Chunk("lse_1", 0, b"x")])


def pool(url: str) -> ConnectionPool:
    return ConnectionPool(
        url,
        kwargs={"autocommit": True, "options": "-c search_path=placement"},
        min_size=0,
        max_size=2,
        timeout=0.5,
        open=True,
    )

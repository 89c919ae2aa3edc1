"""The journal: what it was given is there again, whenever the process was killed."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.errors import Unavailable
from node_agent import journal as journals
from node_agent.journal import Entry, Journal
from node_agent.metering import Meter, Slice

ENTRY = Entry(fencing_token=7, meter=Meter(2, 900, Slice(2, 400, 900)), log_offset=12)


def test_what_was_recorded_is_there_after_a_restart(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.accept("lse_1", 7, (0, 1))
    journal.accept("lse_2", 8, (2,))
    journal.put({"lse_1": ENTRY})
    journal.forget("lse_2")
    journal.close()
    again = Journal(tmp_path / "journal")
    assert again.leases == {"lse_1": ENTRY}
    assert again.fences == {0: 7, 1: 7, 2: 8}
    again.close()


def test_a_fence_never_falls(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.accept("lse_2", 8, (0,))
    journal.accept("lse_1", 7, (0,))
    assert journal.fences == {0: 8}
    journal.close()


@given(cut=st.integers(0, 4000), garbage=st.binary(max_size=40))
def test_a_torn_end_is_cut_off_and_writing_goes_on(cut: int, garbage: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        states = written(path)
        data = path.read_bytes()
        cut = min(cut, len(data))
        whole = data[:cut].count(b"\n")
        # What a torn write leaves behind is a piece of a line, or rubbish without an end.
        path.write_bytes(data[:cut] + garbage.replace(b"\n", b""))
        journal = Journal(path)
        assert journal.leases == states[whole]
        journal.put({"lse_9": ENTRY}, sync=False)
        journal.close()
        again = Journal(path)
        assert again.leases == {**states[whole], "lse_9": ENTRY}
        again.close()


def test_damage_before_good_lines_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    written(path)
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    with pytest.raises(Unavailable, match="line 1 is damaged"):
        Journal(path)


def test_it_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "LINES_MAX", 50)
    journal = Journal(tmp_path / "journal")
    journal.accept("lse_1", 7, (0,))
    for offset in range(500):
        journal.put({"lse_1": replace(ENTRY, log_offset=offset)}, sync=False)
    assert (tmp_path / "journal").read_bytes().count(b"\n") < 60
    journal.close()
    again = Journal(tmp_path / "journal")
    assert again.leases["lse_1"].log_offset == 499
    assert again.fences == {0: 7}
    again.close()


def written(path: Path) -> list[dict[str, Entry]]:
    """A journal of ten lines; returns the leases as they were after each number of lines."""
    journal = Journal(path)
    states: list[dict[str, Entry]] = [{}]
    for number in range(10):
        journal.put({f"lse_{number % 3}": replace(ENTRY, log_offset=number)}, sync=False)
        states.append(dict(journal.leases))
    journal.close()
    return states

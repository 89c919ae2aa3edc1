"""The state folder: one owner, one version, enough room, secrets that nobody else can read."""

import os
import stat
from pathlib import Path

import pytest

from leasehold.launcher.state import CannotStart, StateFolder
from leasehold.launcher.wipe import main, wipe


def test_a_folder_has_one_owner_at_a_time(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(CannotStart, match=f"already running .*process {os.getpid()}.*stop it"):
        StateFolder(tmp_path).open()
    first.close()
    opened(tmp_path).close()


def test_a_folder_of_another_version_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "VERSION").write_text("0")
    with pytest.raises(CannotStart, match=r"another version.*layout '0'.*`make wipe`"):
        StateFolder(tmp_path).open()
    assert (tmp_path / "VERSION").read_text() == "0"


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("my only copy")
    for act in (StateFolder(tmp_path).open, lambda: wipe(StateFolder(tmp_path))):
        with pytest.raises(CannotStart, match="LEASEHOLD_STATE"):
            act()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_full_disk_is_told_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"has 12 MB left .* needs 200 MB; make room"):
        StateFolder(tmp_path).refuse_little_space(12_345_678)
    StateFolder(tmp_path).refuse_little_space(200_000_000)


def test_a_folder_that_cannot_be_made_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotStart, match="cannot be used"):
        StateFolder(tmp_path / "file" / "state").open()


def test_secrets_are_kept_and_private(tmp_path: Path) -> None:
    first = opened(tmp_path)
    secret = first.secret("postgres")
    assert secret != first.secret("nats")
    first.close()
    assert opened(tmp_path).secret("postgres") == secret
    mode = (tmp_path / "secrets.json").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_damaged_secrets_are_not_replaced_by_new_ones(tmp_path: Path) -> None:
    state = opened(tmp_path)
    (tmp_path / "secrets.json").write_text("{")
    with pytest.raises(CannotStart, match="damaged"):
        state.secret("postgres")


def test_wiping_spares_a_platform_that_runs(tmp_path: Path) -> None:
    home = tmp_path / "state"
    running = opened(home)
    with pytest.raises(CannotStart, match="already running"):
        wipe(StateFolder(home))
    running.close()
    wipe(StateFolder(home))
    assert not home.exists()
    wipe(StateFolder(home))


@pytest.mark.parametrize("embedded", [True, False])
def test_wiping_says_that_a_database_elsewhere_keeps_its_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], embedded: bool
) -> None:
    state = opened(tmp_path / "state")
    state.write("platform.json", {"postgres_url": "postgresql://me:hidden@db:5432/leases"})
    if embedded:
        (state / "postgres").mkdir()
    state.close()
    assert main({"LEASEHOLD_STATE": str(state.path)}) == 0
    said = capsys.readouterr().out
    assert ("postgresql://me@db:5432/leases keeps its data" in said) is not embedded
    assert "hidden" not in said


def opened(path: Path) -> StateFolder:
    state = StateFolder(path)
    state.open()
    return state

"""Profiles and tokens on disk: private, whole, and refused when they are not."""

import stat
import threading
from pathlib import Path

import pytest

from leasehold.cli.failures import Exit, Failure
from leasehold.cli.profiles import Profile, Profiles, Token

PROFILE = Profile("http://127.0.0.1:7400", "cli_1", "a secret", "ten_1")


def test_only_the_owner_can_read_what_is_kept(tmp_path: Path) -> None:
    profiles = Profiles(tmp_path / "home")
    profiles.save("acme", PROFILE)
    profiles.save_token("acme", Token("t", 1, "cli_1", PROFILE.gateway_url))
    for path in [profiles.folder, *profiles.folder.rglob("*")]:
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


def test_a_profile_comes_back_as_it_was_saved_and_is_in_use(tmp_path: Path) -> None:
    profiles = Profiles(tmp_path)
    profiles.save("one", PROFILE)
    profiles.save("two", PROFILE)
    assert profiles.get("one") == PROFILE
    assert (profiles.names(), profiles.current()) == (["one", "two"], "two")
    profiles.use("one")
    assert profiles.current() == "one"


def test_a_new_credential_does_not_keep_the_old_ones_token(tmp_path: Path) -> None:
    profiles = Profiles(tmp_path)
    profiles.save("acme", PROFILE)
    profiles.save_token("acme", Token("t", 1, "cli_1", PROFILE.gateway_url))
    profiles.save("acme", PROFILE)
    assert profiles.token("acme") is None


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    profiles = Profiles(tmp_path)
    profiles.save("acme", PROFILE)
    (tmp_path / "profiles" / "acme.json").chmod(0o640)
    with pytest.raises(Failure, match="others can read") as caught:
        profiles.get("acme")
    assert caught.value.exit_code == Exit.USAGE


@pytest.mark.parametrize("content", ["", "{", "[]", '{"client_id": "x"}', '{"more": 1}'])
def test_a_damaged_profile_is_named(tmp_path: Path, content: str) -> None:
    profiles = Profiles(tmp_path)
    profiles.save("acme", PROFILE)
    path = tmp_path / "profiles" / "acme.json"
    path.write_text(content)
    with pytest.raises(Failure, match="acme.json is damaged"):
        profiles.get("acme")


@pytest.mark.parametrize("name", ["../acme", "a/b", "", ".hidden", "a" * 64, "a\nb"])
def test_a_name_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(Failure, match="cannot be the name"):
        Profiles(tmp_path).save(name, PROFILE)
    assert not list(tmp_path.iterdir())


def test_commands_at_the_same_time_leave_one_whole_file(tmp_path: Path) -> None:
    profiles = Profiles(tmp_path)
    tokens = [Token("t" * 5000 + str(n), n, "cli_1", PROFILE.gateway_url) for n in range(20)]
    threads = [
        threading.Thread(target=profiles.save_token, args=("acme", token)) for token in tokens
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert profiles.token("acme") in tokens
    assert len(list((tmp_path / "tokens").iterdir())) == 1

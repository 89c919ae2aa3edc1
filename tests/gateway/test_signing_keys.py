"""Signing keys: published before they sign, kept after, and safe on disk."""

from pathlib import Path

from gateway.policy import SECOND
from gateway.signing_keys import KEPT_AFTER, PERIOD, PUBLISHED_AHEAD, SigningKeys
from gateway.tokens import LEEWAY_SECONDS, LIFE_SECONDS, Holder, Tokens

AT = 1_767_268_800 * SECOND
# Shorter than a token lives, so that a key removed too early is noticed.
STEP = 300 * SECOND
HOLDER = Holder("cli_1", "ten_1", "tenant_user")


def test_keys_are_published_before_they_sign_and_kept_after(tmp_path: Path) -> None:
    keys, tokens_alive = SigningKeys(tmp_path), (LIFE_SECONDS + LEEWAY_SECONDS) * SECOND
    published: dict[str, int] = {}
    signing: dict[str, list[int]] = {}
    removed: dict[str, int] = {}
    for at in range(AT, AT + 3 * PERIOD, STEP):
        keys.rotate(at)
        now_published = {key["kid"] for key in keys.key_set()["keys"]}
        for kid in now_published:
            published.setdefault(kid, at)
        for kid in published.keys() - now_published:
            removed.setdefault(kid, at)
        signing.setdefault(keys.signing(at).kid, []).append(at)
    first, *later = signing
    assert len(later) >= 2
    for kid in later:
        assert signing[kid][0] - published[kid] >= PUBLISHED_AHEAD
    for kid in removed:
        assert removed[kid] - signing[kid][-1] >= tokens_alive
    assert removed[first] - signing[later[0]][0] <= KEPT_AFTER + STEP


def test_keys_survive_a_restart_and_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    before, after = SigningKeys(tmp_path), SigningKeys(tmp_path)
    before.rotate(AT)
    token = Tokens(before, "leasehold").issue(HOLDER, AT)
    after.rotate(AT + SECOND)
    assert Tokens(after, "leasehold").holder(token, AT + SECOND) == HOLDER
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o600]


def test_after_a_long_pause_the_old_key_signs_until_the_next_one_is_known(tmp_path: Path) -> None:
    keys = SigningKeys(tmp_path)
    keys.rotate(AT)
    old, late = keys.signing(AT).kid, AT + 10 * PERIOD
    keys.rotate(late)
    assert keys.signing(late).kid == old
    keys.rotate(late + PUBLISHED_AHEAD)
    assert keys.signing(late + PUBLISHED_AHEAD).kid != old

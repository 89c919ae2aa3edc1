"""The two kinds of files: keys that stay secret, and an anchor that only grows."""

from pathlib import Path

import pytest

from billing.proof import anchor, heads
from billing.proof.anchor import AnchorDiffers, AnchorFile
from billing.proof.heads import SignedHead
from billing.proof.keys import Keys, KeyUnusable
from tests.billing.proof.files import LOG_ID, Key

KEY = Key()
HEADS = [SignedHead.of(KEY.head(LOG_ID, size, bytes([size]) * 32)) for size in (1, 5, 9)]
PAIRS = [(head, KEY.public) for head in HEADS]


def test_a_key_signs_under_its_own_name_only(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys")
    public, other = keys.make(), keys.make()
    name, strange = (heads.key_id(bytes.fromhex(one)) for one in (public, other))
    assert heads.is_signed(b"text", keys.sign(name, b"text"), public)
    assert not heads.is_signed(b"text", keys.sign(strange, b"text"), public)
    (tmp_path / "keys" / f"{name}.pem").replace(tmp_path / "keys" / f"{strange}.pem")
    with pytest.raises(KeyUnusable, match="holds another key than it is named for"):
        keys.sign(strange, b"text")
    with pytest.raises(KeyUnusable, match="cannot be used"):
        keys.sign(name, b"text")


def test_nothing_is_signed_with_a_key_that_others_can_read(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    name = heads.key_id(bytes.fromhex(keys.make()))
    path = tmp_path / f"{name}.pem"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(KeyUnusable, match="others can read"):
        keys.sign(name, b"text")


def test_the_anchor_grows_by_a_line_for_each_head(tmp_path: Path) -> None:
    path = tmp_path / "anchor.jsonl"
    file = AnchorFile(path)
    assert file.last_size() == 0
    file.append(PAIRS[:1])
    file.append(PAIRS[1:])
    file.append([])
    assert file.last_size() == 9
    assert anchor.read(path.read_bytes()) == PAIRS
    assert path.read_bytes().count(b"\n") == 3


def test_a_long_anchor_is_continued_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "anchor.jsonl"
    pairs = [
        (SignedHead.of(KEY.head(LOG_ID, size, bytes(32))), KEY.public) for size in range(1, 90)
    ]
    for pair in pairs:
        file = AnchorFile(path)
        file.append([pair])
        assert file.last_size() == pair[0].size
    assert path.stat().st_size > 4 * anchor.TAIL_BYTES
    assert anchor.read(path.read_bytes()) == pairs


def test_a_line_that_a_crash_cut_off_is_completed(tmp_path: Path) -> None:
    path = tmp_path / "anchor.jsonl"
    whole = b"".join(anchor.line(*pair) for pair in PAIRS)
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        file = AnchorFile(path)
        file.append([pair for pair in PAIRS if pair[0].size > file.last_size()])
        assert path.read_bytes() == whole


def test_the_end_of_another_head_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "anchor.jsonl"
    path.write_bytes(anchor.line(*PAIRS[0]) + b'{"forged')
    with pytest.raises(AnchorDiffers, match="ends in the middle of another head"):
        AnchorFile(path).append(PAIRS[1:])
    assert path.read_bytes().endswith(b'{"forged')


@pytest.mark.parametrize("line", [b"", b"7", b"{}", b"[]", b'{"size": "1"}', b"\xff"])
def test_a_line_that_is_no_head_is_named(line: bytes) -> None:
    with pytest.raises(AnchorDiffers, match="line 2 of the anchor file is no signed head"):
        anchor.read(anchor.line(*PAIRS[0]) + line + b"\n")

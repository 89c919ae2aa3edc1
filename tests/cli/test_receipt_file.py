"""`leasehold verify invoice.json`: offline, with the public key, and every change is refused."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.billing.proof.files import Key, billed, proof_file
from tests.cli.conftest import Run

KEY, THIEF = Key(1), Key(9)
ROWS = billed().log.events
FILE = proof_file(ROWS, KEY)


@pytest.fixture
def bill(tmp_path: Path) -> Path:
    path = tmp_path / "invoice.json"
    path.write_text(json.dumps(FILE))
    return path


def pem(key: Key) -> str:
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key.public))
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def test_a_true_bill_holds_with_the_key_in_a_file(
    leasehold: Run, bill: Path, tmp_path: Path
) -> None:
    for text in (KEY.public, pem(KEY)):
        (tmp_path / "key").write_text(text)
        code, out, err = leasehold("verify", str(bill), "--public-key", str(tmp_path / "key"))
        assert (code, err) == (0, "")
        assert "✓ invoice #1 of ten_acme: 14.94 USD" in out
        assert "✓ every line follows from the slices of its lease" in out


def test_the_key_of_the_first_bill_is_kept_and_a_replaced_one_refused(
    leasehold: Run, bill: Path
) -> None:
    code, _, err = leasehold("verify", str(bill))
    assert (code, f"{KEY.public} is trusted from now on" in err) == (0, True)
    assert leasehold("verify", str(bill))[::2] == (0, "")
    bill.write_text(json.dumps(proof_file(ROWS, THIEF)))
    code, out, err = leasehold("verify", str(bill))
    assert (code, out) == (1, "")
    assert "no announcement leads from the trusted key" in err


def test_a_changed_digit_is_named_and_its_key_not_kept(leasehold: Run, bill: Path) -> None:
    document = json.loads(bill.read_text())
    document["invoice"]["lines"][1]["amount_nanos"] = "7470000001"
    bill.write_text(json.dumps(document))
    code, out, err = leasehold("verify", str(bill))
    assert (code, out) == (1, "")
    assert "invoice.lines 2.amount_nanos is '7470000001', proven is '7470000000'" in err
    bill.write_text(json.dumps(FILE))
    assert "is trusted from now on" in leasehold("verify", str(bill))[2]


def test_the_answer_can_be_read_by_a_program(leasehold: Run, bill: Path) -> None:
    code, out, _ = leasehold("verify", str(bill), "-o", "json")
    answer = json.loads(out)
    assert (code, answer["invoice"]["total_nanos"]) == (0, "14940000000")
    assert answer["head_size"] == len(ROWS)


@pytest.mark.parametrize("text", ["", "{", "7", "[]", "{}", '{"format": 1}'])
def test_what_is_no_proof_is_refused(leasehold: Run, bill: Path, text: str) -> None:
    bill.write_text(text)
    assert leasehold("verify", str(bill))[0] == 1


def test_a_file_that_is_no_key_is_refused(leasehold: Run, bill: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("no key")
    code, _, err = leasehold("verify", str(bill), "--public-key", str(tmp_path / "key"))
    assert (code, "holds no Ed25519 public key" in err) == (2, True)
    assert leasehold("verify", str(tmp_path / "missing.json"))[0] == 2

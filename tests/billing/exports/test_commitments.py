"""Commitments and credit notes in the files: every kind of charge conforms and sums up."""

from pathlib import Path

from billing.exports.conformance import check
from billing.exports.export import Selection, exported, selected
from billing.money import HOUR_US
from tests.billing.exports.test_histories import the_files_are_the_ledger
from tests.billing.test_commitments import Committed


def test_an_hour_of_a_commitment_is_used_and_unused(tmp_path: Path) -> None:
    world = Committed()
    starts_at = world.commit()
    world.wait(4 * HOUR_US)
    world.lease("lse_1", starts_at, HOUR_US // 4)
    world.settle()
    rows = list(selected([world.log.events], Selection()))
    used = sum(row.gpu_us for row in rows if row.kind == "committed")
    unused = sum(row.gpu_us for row in rows if row.kind == "unused")
    assert (used, used + unused) == (HOUR_US // 4, 2 * HOUR_US)
    # Covered by the commitment, so what the lease itself had cost is given back.
    own = sum(row.amount_nanos for row in rows if row.kind in ("usage", "adjustment"))
    assert own == 0
    the_files_are_the_ledger(world)
    for dataset in ("CostAndUsage", "ContractCommitment"):
        path = tmp_path / f"{dataset}.csv"
        path.write_bytes(b"".join(exported([world.log.events], Selection(dataset))))
        assert path.read_text().count("cmt_1") >= 1
        assert check(path) == []

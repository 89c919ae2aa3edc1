"""Finance at work on the running platform: files by the command line, and the consumers."""

import csv
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from leasehold.launcher.platform import Platform
from tests.story.books import Books
from tests.story.customer import SignUp
from tests.waiting import wait_for

pytestmark = pytest.mark.story


def test_the_files_of_finance_say_what_the_invoice_says(
    platform: Platform, sign_up: SignUp, books: Books, tmp_path: Path
) -> None:
    customer = sign_up("exported")
    workload_id = customer.submit("exported", "sleep 1", gpus=2)
    wait_for(lambda: customer.has_ended(workload_id), seconds=30, what="the end of the job")
    books.check(customer.tenant_id, [workload_id])
    invoice = customer.post("/v1/invoices")

    home = tmp_path / "home"
    run(platform, home, "leasehold.cli", "login", "--operator")
    charges, details = tmp_path / "charges.csv", tmp_path / "details.csv"
    asked = ("--tenant", customer.tenant_id, "--to")
    run(platform, home, "leasehold.cli", "export", "focus", *asked, str(charges))
    run(
        platform, home, "leasehold.cli", "export", "focus", "--dataset", "InvoiceDetail",
        *asked, str(details),
    )  # fmt: skip
    run(
        platform, home, "leasehold.cli", "export", "check", str(charges),
        "--details", str(details),
    )  # fmt: skip
    with charges.open() as file:
        billed = sum(Decimal(row["BilledCost"]) for row in csv.DictReader(file))
    assert billed * 10**9 == int(invoice["total_nanos"])
    sorted_ = tmp_path / "charges.parquet"
    run(platform, home, "leasehold.cli", "export", "parquet", *asked, str(sorted_))
    run(platform, home, "leasehold.cli", "export", "check", str(sorted_))


def test_the_example_consumers_run_against_the_platform(platform: Platform, tmp_path: Path) -> None:
    books, lake = tmp_path / "books.json", tmp_path / "lake"
    run(platform, tmp_path, "examples.consumers.finance", str(books))
    kept = json.loads(books.read_text())
    assert kept["position"] > 0
    for balances in kept["balances"].values():
        assert sum(balances.values()) == 0
    run(platform, tmp_path, "examples.consumers.analytics", str(lake))
    assert json.loads((lake / "_manifest.json").read_text())["position"] >= kept["position"]


def run(platform: Platform, home: Path, module: str, *words: str) -> str:
    environment = {
        **os.environ,
        "LEASEHOLD_STATE": str(platform.state.path),
        "LEASEHOLD_HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
    }
    done = subprocess.run(
        [sys.executable, "-m", module, *words], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout

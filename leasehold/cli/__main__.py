"""``python -m leasehold.cli``."""

from leasehold.cli import main

main()

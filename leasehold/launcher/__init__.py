"""The whole platform on one machine: what `leasehold up` runs and what the tests start."""

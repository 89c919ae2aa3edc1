"""Billing: what a lease costs, who paid, and what remains.

Owns: accounts, the price book, meters (one for each lease) and invoices; the ledger is the fold
of their postings. Emits: ``billing.account.*``, ``billing.price_book.*``, ``billing.meter.*``,
``billing.invoice.*``. Reacts to: the gateway's sign-ups, and placement's leases being bound,
activated, ended, lapsed or refused; the aggregator's machines being created, gone, or orphaned,
whose cost is ``billing.provider_meter.*``, ``…provider_bill.*`` and ``…provider_match.*``.

The lease says how long; the node only confirms. Whatever a node reports, repeats, reorders or
forgets, a closed meter's money is its price times its GPU-microseconds, rounded once.
"""

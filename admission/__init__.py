"""Admission decides what a tenant may run now, and says why when it may not.

It admits a workload only with both holds in hand: GPUs in placement and money in billing.

Owns: ``Envelope``, ``Workload``. Emits: ``admission.envelope.granted``, ``.changed``,
``.suspended``, ``.resumed``; ``admission.workload.submitted``, ``.deferred``, ``.admitted``,
``.requeued``, ``.started``, ``.stop_requested``, ``.ended``.
Reacts to: tenants signed up, suspended and resumed (gateway); leases lapsed, refused, activated
and ended, nodes joined (placement).
"""

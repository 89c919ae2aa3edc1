"""Placement decides which GPUs a workload gets, under which lease, and rendered how.

Owns: ``Lease`` (held -> bound -> active -> draining -> ended; held -> lapsed), ``Node``
(invited -> ready <-> quarantined), and what workloads print.
Emits: ``placement.lease.*``, ``placement.node.*``.
Reacts to: a workload being admitted or asked to stop (admission), a balance running out
(billing), a step of the ladder being taken or lifted (enforcement).
"""

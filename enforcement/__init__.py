"""Enforcement: is every lease within what it was promised and what it promised?

Owns: guards, one for each active lease. Emits: ``enforcement.guard.*``. Reacts to: placement's
leases being activated, moved to a node and ended. Telemetry comes in, steps of the degradation
ladder go out; placement carries a step to the node, and the node to the workload.
"""

"""What a tenant may hold, and the workloads it has submitted.

Commands ask the policy and may say no. Events state what happened and never say no: ``apply``
runs again on every replay, long after the rule that allowed it has changed. Commands that
reactions give are total: out of turn they do nothing, because the order of two services' events
is free.
"""

from admission.domain.envelope import Envelope
from admission.domain.workload import Workload

__all__ = ["Envelope", "Workload"]

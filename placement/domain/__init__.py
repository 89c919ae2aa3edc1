"""The state machines of placement: leases and nodes.

Commands ask the policy and may say no. Events state what happened and never say no: ``apply``
runs again on every replay, long after the rule that allowed it has changed.
"""

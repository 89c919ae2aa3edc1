"""The gRPC face of placement: ``leases`` for people and services, ``nodes`` for machines.

Handlers translate and delegate; they decide nothing.
"""

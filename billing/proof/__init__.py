"""What lets a tenant check a bill alone: a Merkle tree over the log, and its signed heads.

The tree's leaves are the stored bytes of billing's events: the event at position ``p`` is leaf
``p - 1``. Nothing is left out and nothing is encoded again, so a head vouches for the whole log.
"""

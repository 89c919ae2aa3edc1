"""Aggregator: GPUs from many sources as one inventory.

Owns: sources and instances. Emits: ``aggregator.source.*`` and ``aggregator.instance.*``. Reacts
to nothing yet; operators ask. Every call to a provider follows an event that says it will be
made, and an unclear answer is resolved by looking for the instance's tag, never by asking twice.
"""

"""Providers: one interface, one adapter for each. The rest of the platform speaks this model.

An adapter turns whatever a provider answers into a closed model or one of three errors, and
never retries by itself: only the caller knows whether a repetition is safe.
"""

from typing import Protocol

from aggregator.policy import Inventory, Machine, Offer


class ProviderError(Exception):
    """A provider did not do what it was asked."""


class Rejected(ProviderError):
    """The provider said no; nothing was done and asking again will not help."""


class Busy(ProviderError):
    """The provider asked us to come back later; nothing was done."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unclear(ProviderError):
    """The answer was lost or makes no sense; it may have been done. Look before asking again."""


class Provider(Protocol):
    async def offers(self) -> list[Offer]: ...
    async def create(self, offer: str, tag: str) -> Machine: ...
    async def find(self, tag: str) -> Machine | None: ...
    async def inventory(self) -> Inventory: ...
    async def delete(self, provider_id: str) -> None: ...
    async def close(self) -> None: ...

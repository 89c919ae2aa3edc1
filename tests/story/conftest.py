"""One platform for all stories: every process of it real, on free ports, in a temporary folder."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leasehold.launcher.platform import Platform
from leasehold.launcher.ports import free_base
from leasehold.launcher.settings import PlatformSettings
from tests.story.books import Books
from tests.story.customer import Customer, funded_customer

# Short slices, so that a job of seconds has several of them.
NODE = {"SLICE_SECONDS": "1"}


@pytest.fixture(scope="session")
def platform() -> Iterator[Platform]:
    folder = Path(tempfile.mkdtemp(prefix="leasehold-story-"))
    settings = PlatformSettings(state=folder / "state", port_base=free_base())
    platform = Platform(settings, {"node-1": NODE, "node-2": NODE})
    platform.start()
    try:
        yield platform
    finally:
        platform.stop()
        shutil.rmtree(folder)


@pytest.fixture
def books(platform: Platform) -> Books:
    return Books(platform.addresses()["postgres_url"])


@pytest.fixture
def sign_up(platform: Platform) -> Iterator[Callable[..., Customer]]:
    """Makes funded customers, and sees them out."""
    customers: list[Customer] = []

    def sign_up(name: str, amount: str = "100.00") -> Customer:
        customers.append(funded_customer(platform, name, amount))
        return customers[-1]

    yield sign_up
    for customer in customers:
        customer.close()

"""Folders for platforms under test.

Not pytest's: started by root, PostgreSQL runs as another account, which needs a way into the
folder, and every pytest that starts on the machine closes pytest's folders to others again.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@pytest.fixture
def home() -> Iterator[Path]:
    with _folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def shared_home() -> Iterator[Path]:
    with _folder() as folder:
        yield folder


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="leasehold-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)

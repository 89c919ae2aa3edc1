"""How this program was called, so that what it says to type next can be typed as it stands."""

import os
import shutil
import sys
from pathlib import Path

NAME = "leasehold"


def as_typed(program: str) -> str:
    """The name alone where the shell finds this very program by it, else the way to it."""
    path = Path(program)
    if path.name != NAME:
        return NAME
    found = shutil.which(NAME)
    if found is not None and Path(found).absolute() == path.absolute():
        return NAME
    return min(os.path.relpath(path), str(path.absolute()), key=len)


PROGRAM = as_typed(sys.argv[0])

"""`make wipe`: remove all state of the local platform, unless it is running."""

import os
import shutil
import sys
from collections.abc import Mapping

from chassis.settings import SettingsError, load
from leasehold.launcher import leftovers
from leasehold.launcher.settings import PlatformSettings
from leasehold.launcher.state import CannotStart, StateFolder


def wipe(state: StateFolder) -> None:
    """Only a folder that bears our mark is removed, and nothing that belongs to it runs on."""
    if not state.path.exists():
        return
    state.own()
    leftovers.end_processes(state)
    leftovers.end_jobs(state)
    shutil.rmtree(state.path)
    state.close()


def main(environ: Mapping[str, str] = os.environ) -> int:
    try:
        state = StateFolder(load(PlatformSettings, environ).state)
        wipe(state)
    except (CannotStart, SettingsError) as reason:
        print(f"Nothing is removed: {reason}", file=sys.stderr)
        return 1
    print(f"{state.path} is removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`make wipe`: remove all state of the local platform, unless it is running."""

import os
import shutil
import sys
from collections.abc import Mapping

from chassis.settings import SettingsError, load
from leasehold.launcher import leftovers
from leasehold.launcher.database import without_password
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


def kept(state: StateFolder) -> str:
    """What stays although the folder goes, in a sentence, or ""."""
    url = str(state.read("platform.json").get("postgres_url", ""))
    if not url or (state / "postgres").exists():
        return ""
    return f"The database at {without_password(url)} keeps its data; drop it to begin anew."


def main(environ: Mapping[str, str] = os.environ) -> int:
    try:
        state = StateFolder(load(PlatformSettings, environ).state)
        stays = kept(state)
        wipe(state)
    except (CannotStart, SettingsError) as reason:
        print(f"Nothing is removed: {reason}", file=sys.stderr)
        return 1
    print(f"{state.path} is removed")
    if stays:
        print(stays)
    return 0


if __name__ == "__main__":
    sys.exit(main())

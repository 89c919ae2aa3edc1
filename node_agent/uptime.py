"""Time since this machine booted: the only clock that durations and deadlines are measured with.

It never jumps, counts while the machine sleeps, and is the same for every process, so that a
supervisor and a restarted agent agree. A reading means something only together with the boot id.
"""

import time


def uptime_us() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()

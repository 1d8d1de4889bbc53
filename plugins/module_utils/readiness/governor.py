"""Does the host's frequency scaling offer the governor that the class declares?"""

from __future__ import annotations

from ..host.host import Host
from ..words.expectations import Expectations

# Linux, Documentation/admin-guide/pm/cpufreq.rst. All CPUs of a host have one driver, and so the same governors.
CPU = "/sys/devices/system/cpu/cpu0/cpufreq"
FILES = (f"{CPU}/scaling_available_governors", f"{CPU}/scaling_governor")


def lacks(host: Host, expect: Expectations) -> list[str]:
    """Return that the governor cannot be had."""
    wanted = expect.cpu.governor
    if wanted is None:
        return []
    offered = " ".join(host.read(path).stdout for path in host.paths(*FILES)).split()
    if not offered:
        return [f"cpu.governor: {wanted}, and the host has no frequency scaling (a guest has none: declare null)"]
    return [] if wanted in offered else [f"cpu.governor: found {', '.join(sorted(set(offered)))}, expected {wanted}"]

"""Will there be a perftest that reaches the memory of GPUs, as check ``perftest`` of preflight asks for?"""

from __future__ import annotations

from collections.abc import Collection

from ..checks import perftest as check
from ..host.host import Host, Unreadable
from ..probes import perftest as probe
from ..words.expectations import Expectations
from ..words.finding import PASS


def lacks(host: Host, expect: Expectations, tools: Collection[str], doca: bool) -> list[str]:
    """Return that the host's perftest cannot, where none of the declared ``tools`` is one.

    ``doca`` says that DOCA-OFED is installed later, which brings a perftest of its own: preflight judges that one.
    """
    if not check.subjects(expect) or "perftest" in tools or doca:
        return []
    output = probe.collect(host, expect)
    # A build with CUDA, which does not start before the driver is there: preflight judges it.
    if "libcuda.so" in output.stderr:
        return []
    try:
        findings = check.decide({"perftest": probe.parse(output)}, expect)
    except Unreadable as exc:
        return [f"perftest: {output.error or exc}; declare perftest in gpu_stack_tools (role gpu_stack)"]
    return [f"perftest: {finding.reason}" for finding in findings if finding.verdict != PASS]

"""Are all GPUs of the host in one NVLink domain: one cluster and one clique, which NVSwitches beyond the host made?

A GPU in no domain has a cluster's UUID of zeros. That the other hosts of the rack are in the same domain is for
acceptance to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import unread
from ..judging.nvlink_domain import NO_CLUSTER, domain_of, gpu_domain
from ..probes.nvidia_smi import Gpus
from ..words.expectations import Expectations, gpu_subjects
from ..words.finding import FAIL, PASS, Finding

NAME = "nvlink_domain"
RULES = 3
PROBES: tuple[str, ...] = ("nvidia_smi",)

_EXPECTED = "one cluster and clique"


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host, if its class' GPUs are in a domain with those of other hosts."""
    return ["host"] if expect.gpu and expect.nvlink and expect.nvlink.domain else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge the GPUs that are in no domain, then those in another one than most, then those that do not tell."""
    report: Gpus = values["nvidia_smi"]
    domains = {gpu.address: gpu_domain(gpu) for gpu in report.gpus}
    parts = {address: domains.get(address) for address in (*gpu_subjects(expect), *domains)}
    measured = domain_of(report)
    outside = [address for address, domain in parts.items() if domain and domain.startswith(NO_CLUSTER)]
    if outside:
        why = f"in no NVLink domain: {_named(outside, expect)}; see the fabric manager of the rack's NVSwitches"
        return [Finding(NAME, "host", FAIL, measured, _EXPECTED, "", why, "investigate")]
    times = Counter(domain for domain in parts.values() if domain)
    if len(times) > 1:
        most, count = times.most_common(1)[0]
        if count > len(parts) / 2:
            others = [address for address, domain in parts.items() if domain not in (most, None)]
            why = f"in another NVLink domain than {most} of most GPUs: {_named(others, expect)}"
        else:
            why = f"the GPUs are in {len(times)} NVLink domains: " + "; ".join(
                f"{domain} of {_named([at for at, own in parts.items() if own == domain], expect)}"
                for domain in sorted(times)
            )
        return [Finding(NAME, "host", FAIL, measured, _EXPECTED, "", why, "investigate")]
    silent = [address for address, domain in parts.items() if domain is None]
    if silent or not parts:
        why = f"could not be read: cluster UUID and clique ID of {_named(silent, expect) or 'any GPU'}"
        return [unread(NAME, "host", why, _EXPECTED)]
    return [Finding(NAME, "host", PASS, measured, _EXPECTED)]


def _named(addresses: Sequence[str], expect: Expectations) -> str:
    names = gpu_subjects(expect)
    return ", ".join(names.get(address, f"gpu {address}") for address in addresses)

"""Does the fabric manager run, in the version of the driver? Any other version refuses to start at the next boot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import missing, unread
from ..probes.fabric_manager import FabricManager
from ..probes.nvidia_smi import Gpus
from ..words.expectations import Expectations
from ..words.finding import FAIL, PASS, Finding

NAME = "fabric_manager"
RULES = 3
PROBES: tuple[str, ...] = ("fabric_manager", "nvidia_smi")


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the host, if its class has NVSwitches of its own to manage."""
    return ["host"] if expect.gpu and expect.nvlink and expect.nvlink.fabric_manager else []


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Judge the service's state, then its version against the driver's."""
    service: FabricManager = values["fabric_manager"]
    report: Gpus = values["nvidia_smi"]
    if service.load != "loaded":
        why = f"nvidia-fabricmanager.service is {service.load}: install the fabric manager of the driver's version"
        return [Finding(NAME, "host", FAIL, service.load, "active (running)", "", why, "investigate")]
    if (service.active, service.sub) != ("active", "running"):
        state = f"{service.active} ({service.sub})"
        why = f"nvidia-fabricmanager.service is {state}, result {service.result}, exit status {service.exit_status}"
        if expect.nvlink and expect.nvlink.subnet_manager:
            why += "; it does not start without nvlsm, its configuration and ib_umad (nvlink_subnet_manager)"
        return [Finding(NAME, "host", FAIL, state, "active (running)", "", why, "investigate")]
    why = missing(fabric_manager_version=service.version, driver_version=report.driver)
    if why:
        return [unread(NAME, "host", why, "the driver's version")]
    if service.version != report.driver:
        why = f"fabric manager is {service.version}, driver {report.driver}: both have to be of one version"
        return [Finding(NAME, "host", FAIL, service.version, report.driver, "", why, "investigate")]
    return [Finding(NAME, "host", PASS, service.version, report.driver)]

"""Counts of PCIe errors against the class."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import pcie_aer as check
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes import nvme_sysfs
from ansible_collections.muster.cluster.plugins.module_utils.probes.pcie_aer import SEVERITIES, Errors

from tests.typed import typed
from tests.unit.module_utils.conftest import healthy

DRIVES = nvme_sysfs.parse(Output(healthy("nvme_sysfs")))


def findings(expect, drives=DRIVES, **errors):
    devices = [part["address"] for part in expect["gpu"]["parts"]]
    devices += [rail["address"] for rail in expect["nic"]["rails"]] + [f"nvme{number}" for number in range(8)]
    values = {device: {severity: Errors(0) for severity in SEVERITIES} for device in devices}
    values["0000:1a:00.0"].update(errors)
    found = check.decide({"pcie_aer": values, "nvme_sysfs": drives}, typed(expect))
    return {finding.subject: finding for finding in found}


def test_every_part_passes_without_errors(expect):
    found = findings(expect)
    assert list(found) == list(check.subjects(typed(expect))) and len(found) == 18
    assert {finding.verdict for finding in found.values()} == {"pass"}


@pytest.mark.parametrize(
    ("errors", "answer"),
    [
        ({"correctable": Errors(100, ("RxErr 100",))}, ("pass", 100)),
        ({"correctable": Errors(101, ("RxErr 101",))}, ("fail", 101)),
        ({"nonfatal": Errors(1)}, ("fail", 1)),
        ({"fatal": Errors(1)}, ("fail", 1)),
        ({"fatal": Errors(2), "correctable": Errors(500)}, ("fail", 2)),
        ({"fatal": Errors(1), "nonfatal": Errors(None)}, ("fail", 1)),
        ({"nonfatal": Errors(None)}, ("incomplete", None)),
        ({"correctable": Errors(None)}, ("incomplete", None)),
    ],
)
def test_worst_severity_above_the_class_limit_counts(expect, errors, answer):
    found = findings(expect, **errors)["nic rail0"]
    assert (found.verdict, found.measured) == answer


def test_drives_that_nobody_can_tell_apart_get_no_finding(expect):
    assert not [part for part in findings(expect, None) if part.startswith("nvme")]


def test_class_without_such_counters_owes_nothing(expect):
    assert check.subjects(typed({**expect, "pcie": {**expect["pcie"], "errors": None}})) == []
    assert check.subjects(typed({**expect, "pcie": None})) == []

"""Expectations: a wrong class is named by its key, before anything is measured."""

from dataclasses import fields

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import (
    Expectations,
    gpu_subjects,
    pci_address,
    read_expectations,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError

from tests.typed import typed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("0000:1b:00", "0000:1b:00.0"),
        ("0004:01:00.3", "0004:01:00.3"),
        ("1b:00.0", None),
        ("", None),
        ("ERR!", None),
    ],
)
def test_pci_address(text, expected):
    assert pci_address(text) == expected


def test_good_class_and_class_without_gpus(expect):
    read_expectations(expect)
    read_expectations({**expect, "gpu": None})
    assert gpu_subjects(typed(expect))["0000:ab:00.0"] == "gpu SXM6 0000:ab:00.0"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("gpu", "gone", 'gpu: found "gone", expected a mapping'),
        ("gpu.count", 3, "gpu.parts: found 2 parts, expected 3, as gpu.count says"),
        ("gpu.count", True, "gpu.count: found true"),
        ("gpu.memory_mib", "80 GB", 'gpu.memory_mib: found "80 GB"'),
        ("gpu.parts", {}, "gpu.parts: found a mapping, expected a list"),
        ("gpu.parts.0.address", "1B:00.0", r'gpu.parts\[0\].address: found "1B:00.0"'),
        ("gpu.parts.0.address", "0000:ab:00.0", r'parts\[1\].address: found "0000:ab:00.0" again'),
        ("gpu.parts.0.slot", "SXM6", r'parts\[1\].slot: found "SXM6" again'),
        ("cpu.sockets", "two", 'cpu.sockets: found "two"'),
        ("cpu.cores", 0, "cpu.cores: found 0"),
        (
            "affinity.parts",
            [{"slot": "GPU0", "numa_node": 0, "rail": None}],
            r'affinity.parts\[0\].slot: found "GPU0", expected a slot of gpu.parts',
        ),
        ("memory.tolerance_percent", -1, "memory.tolerance_percent: found -1"),
        ("clock", None, "clock: found nothing, expected a mapping"),
        ("disk.paths.0.path", "var", r'disk.paths\[0\].path: found "var", expected an absolute path'),
        ("tools.root", "", 'tools.root: found ""'),
        ("nvme.addresses", ["0000:1a:00.0"], "nvme.addresses: found 1 addresses, expected 8, as nvme.count says"),
        ("nvme.addresses", ["0000:1a:00.0"] * 8, r'nvme.addresses\[1\]: found "0000:1a:00.0" again'),
        ("nic.rails.1.address", None, r"nic.rails\[1\].address: found nothing, expected a PCI address"),
        ("nic.rails.1.address", "0000:1a:00.0", r'nic.rails\[1\].address: found "0000:1a:00.0" again'),
        ("nic.rails.1.address", "mlx5_1", r'nic.rails\[1\].address: found "mlx5_1", expected a PCI address'),
        ("nic.rails.1.rail", 0, r"nic.rails\[1\].rail: found 0 again"),
        ("nic.rails.1.device", "mlx5_1", r'nic.rails\[1\]: found unknown key "device", expected one of rail, address'),
        ("affinity.parts", [{"slot": "SXM1", "numa_node": 0, "nic": "mlx5_0"}], 'found unknown key "nic"'),
        (
            "affinity.parts",
            [{"slot": "SXM1", "numa_node": 0, "rail": 8}],
            r"affinity.parts\[0\].rail: found 8, expected a",
        ),
        ("bmc.interface", "snmp", 'bmc.interface: found "snmp", expected one of ipmitool, redfish'),
        ("bmc.interface", "redfish", "bmc.redfish: found nothing, expected address, netrc, certificate and documents"),
        ("bmc.log.since", "yesterday", 'bmc.log.since: found "yesterday", expected a date'),
    ],
)
def test_wrong_key_is_named(expect, path, value, message):
    *parents, last = path.split(".")
    place = expect
    for key in parents:
        place = place[int(key)] if isinstance(place, list) else place[key]
    place[int(last) if isinstance(place, list) else last] = value
    with pytest.raises(ReadError, match=message):
        read_expectations(expect)


@pytest.mark.parametrize("key", sorted(each.name.rstrip("_") for each in fields(Expectations)))
def test_missing_key_is_named(expect, key):
    del expect[key]
    with pytest.raises(ReadError, match=f"^{key}: found nothing, expected (a mapping|a list|text)"):
        read_expectations(expect)


def test_gpu_stack_without_the_drivers_version_is_refused(expect):
    stack = {"packages": [{"name": "nvidia-open-570", "version": "570.86.15-0ubuntu1"}], "services": []}
    with pytest.raises(ReadError, match=r"gpu\.driver: found nothing"):
        read_expectations({**expect, "gpu_stack": stack})
    read_expectations({**expect, "gpu_stack": stack, "gpu": {**expect["gpu"], "driver": "570.86.15"}})

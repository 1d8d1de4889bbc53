"""The kernel's counts of PCIe errors: what is read, and what must not be taken for a count."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import pcie_aer

from tests.typed import typed
from tests.unit.module_utils.conftest import healthy

PATH = "/sys/bus/pci/devices/0000:1a:00.0/aer_dev_correctable"


def correctable(text, path=PATH):
    (device,) = pcie_aer.parse(Output(f"==> {path} <==\n{text}")).values()
    return device["correctable"]


def test_healthy_host_has_counts_of_gpus_rails_and_drives():
    found = pcie_aer.parse(Output(healthy("pcie_aer")))
    assert len(found) == 24 and {"0000:0b:00.0", "0000:dc:00.0", "nvme0"} < set(found)
    assert {errors for device in found.values() for errors in device.values()} == {pcie_aer.Errors(0)}


def test_only_the_class_decides_whose_files_are_read(fake_host, expect):
    expect["nic"]["rails"] = [{"rail": 0, "address": "0000:1c:00.0"}]
    fake_host.outputs.update(
        {
            f"/sys/bus/pci/devices/0000:1c:00.0/aer_dev_{name}": Output(rc=None, error="gone")
            for name in pcie_aer.SEVERITIES
        }
    )
    found = pcie_aer.parse(pcie_aer.collect(fake_host, typed(expect)))
    assert set(found["0000:1c:00.0"].values()) == {pcie_aer.Errors(None)}
    assert "0000:1a:00.0" not in found and "0000:1b:00.0" in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RxErr 3\nBadTLP 0\nTOTAL_ERR_COR 3\n", pcie_aer.Errors(3, ("RxErr 3",))),
        # One message may tell two kinds; new kinds come with new kernels.
        ("RxErr 3\nNewKind 4\nTOTAL_ERR_COR 3\n", pcie_aer.Errors(4, ("RxErr 3", "NewKind 4"))),
        ("TOTAL_ERR_COR 0\nRxErr 0\n", pcie_aer.Errors(0)),
        ("RxErr 0\n", pcie_aer.Errors(None)),
        ("RxErr N/A\nTOTAL_ERR_COR 0\n", pcie_aer.Errors(None)),
        ("RxErr 0\nTOTAL_ERR_FATAL 0\nTOTAL_ERR_COR 0\n", pcie_aer.Errors(None)),
        ("RxErr 0\nTOTAL_ERR_COR 0\nRxErr 0\n", pcie_aer.Errors(None)),
        ("RxErr 0\nTOTAL_ERR_COR 1", pcie_aer.Errors(None)),
        ("", pcie_aer.Errors(None)),
    ],
)
def test_count(text, expected):
    assert correctable(text) == expected


@pytest.mark.parametrize("text", ["", "\x00" * 8, "==> /sys/other <==\n1\n", "RxErr 0\nTOTAL_ERR_COR 0\n"])
def test_what_is_no_count_is_unreadable(text):
    with pytest.raises(Unreadable):
        pcie_aer.parse(Output(text))

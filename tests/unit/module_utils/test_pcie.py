"""What of PCIe differs from its settings, and what cannot be told; kernel parameters and peer memory beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.boot import pcie_settings as pcie
from ansible_collections.muster.cluster.plugins.module_utils.host import kernel_parameters
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.host.secure_boot import LOCKDOWN
from ansible_collections.muster.cluster.plugins.module_utils.nic.peer_memory import why_not
from ansible_collections.muster.cluster.plugins.module_utils.probes import boot_loader, lspci
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Rail
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError

from tests.fake_host import FakeHost
from tests.typed import typed

from .conftest import HEALTHY

NIC = "0000:1a:00.0"
RAIL = Rail(0, NIC)
DEVICES = lspci.parse(Output((HEALTHY / "lspci.txt").read_text()))
SETTINGS = pcie.Settings((RAIL,), 4096, True, (NIC,), True, "/usr/bin", "/")
SEEN = pcie.Seen(DEVICES, (pcie.Interrupt(RAIL, "200", "0-3", "0-3"),), False)


def seen(**nic):
    return replace(SEEN, devices={**DEVICES, NIC: replace(DEVICES[NIC], **nic)})


def steps(what, settings=SETTINGS):
    return [" ".join(step.argv) or "=".join(step.file) for step in pcie.plan(what, settings)]


def test_node_as_declared_needs_nothing():
    assert steps(SEEN) == []


@pytest.mark.parametrize(
    ("size", "value"), [(128, "0000"), (256, "1000"), (512, "2000"), (1024, "3000"), (2048, "4000")]
)
def test_read_request_is_written_below_its_mask(size, value):
    expected = [f"setpci -s {NIC} CAP_EXP+8.w={value}:7000"]
    assert steps(SEEN, replace(SETTINGS, max_read_request_bytes=size)) == expected


@pytest.mark.parametrize(("wanted", "value"), [(True, "0010"), (False, "0000")])
def test_relaxed_ordering_is_one_bit(wanted, value):
    other = seen(relaxed_ordering=not wanted)
    assert steps(other, replace(SETTINGS, relaxed_ordering=wanted)) == [f"setpci -s {NIC} CAP_EXP+8.w={value}:0010"]


def test_undeclared_values_are_left_alone():
    other = seen(relaxed_ordering=False, max_read_request_bytes=128)
    assert steps(other, replace(SETTINGS, relaxed_ordering=None, max_read_request_bytes=None)) == []


def test_access_control_goes_off_on_every_bridge_to_the_root_port_once():
    (bridge,) = lspci.above(NIC, DEVICES)
    on = {**DEVICES, bridge.address: replace(bridge, acs=("SrcValid", "ReqRedir"))}
    expected = [f"setpci -s {bridge.address} ECAP_ACS+6.w=0000:007f"]
    assert steps(replace(SEEN, devices=on)) == expected
    assert steps(replace(SEEN, devices=on), replace(SETTINGS, acs_off_above=(NIC, NIC))) == expected
    assert steps(replace(SEEN, devices=on), replace(SETTINGS, acs_off_above=())) == []


@pytest.mark.parametrize(("allowed", "right"), [("0-3", True), ("0,1,2-3", True), ("0", False), ("0-191", False)])
def test_interrupts_go_to_the_cpus_next_to_the_nic(allowed, right):
    found = replace(SEEN, interrupts=(pcie.Interrupt(RAIL, "200", allowed, "0-3"),))
    assert steps(found) == ([] if right else ["/proc/irq/200/smp_affinity_list=0-3"])


def test_irqbalance_is_masked():
    assert steps(replace(SEEN, balancer=True)) == ["systemctl mask --now irqbalance.service"]


@pytest.mark.parametrize("text", ["", "all", "3-1", "0-", "0,,2", "-1"])
def test_list_of_cpus_that_is_none_is_refused(text):
    with pytest.raises(pcie.PcieError, match="expected a list of CPUs"):
        pcie.cpus_of(text)


@pytest.mark.parametrize("nic", [{"max_read_request_bytes": None}, {"relaxed_ordering": None}])
def test_register_that_lspci_does_not_show_is_an_error(nic):
    with pytest.raises(pcie.PcieError, match="does not show the Device Control register"):
        steps(seen(**nic))


def test_bridge_that_is_not_readable_is_an_error():
    (bridge,) = lspci.above(NIC, DEVICES)
    with pytest.raises(pcie.PcieError, match="not all listed, or not readable"):
        steps(replace(SEEN, devices={**DEVICES, bridge.address: replace(bridge, readable=False)}))
    without = {address: device for address, device in DEVICES.items() if address != bridge.address}
    with pytest.raises(pcie.PcieError, match="not all listed, or not readable"):
        steps(replace(SEEN, devices=without))


def test_settings_survive_their_file_and_unknown_keys_do_not():
    data = SETTINGS.to_dict()
    assert pcie.Settings.from_dict(data) == SETTINGS
    with pytest.raises(ReadError, match="unknown key"):
        pcie.Settings.from_dict({**data, "max_payload": 256})


@pytest.mark.parametrize(
    ("required", "pages", "expected"),
    [
        (["iommu=pt"], {"transparent": None, "reserved": []}, ["iommu=pt"]),
        ([], {"transparent": "madvise", "reserved": []}, ["transparent_hugepage=madvise"]),
        (
            ["iommu=pt"],
            {"transparent": None, "reserved": [{"size_kib": 1048576, "count": 16}, {"size_kib": 2048, "count": 8}]},
            ["iommu=pt", "hugepagesz=1048576K", "hugepages=16", "hugepagesz=2048K", "hugepages=8"],
        ),
        # What the class spells out itself is not said twice.
        (["hugepages=4"], {"transparent": None, "reserved": [{"size_kib": 2048, "count": 4}]}, ["hugepages=4"]),
        (["iommu=pt"], None, ["iommu=pt"]),
    ],
)
def test_class_gives_its_parameters_and_huge_pages(expect, required, pages, expected):
    expect["kernel"]["command_line"]["required"] = required
    expect["memory"]["hugepages"] = pages
    assert kernel_parameters.declared_parameters(typed(expect)) == expected


def test_every_kernel_of_grub_is_read_and_memory_testers_are_not():
    text = (
        "menuentry 'a' {\n\tlinux\t/vmlinuz-6 root=UUID=1 ro iommu=pt\n}\n"
        "\tmenuentry 'b' {\n\t\tlinux  /vmlinuz-5 root=UUID=1 ro single\n\t}\n"
        "menuentry 'memtest' {\n\tlinux /memtest86+x64.bin\n}\n"
    )
    kernels = boot_loader.parse(Output(text))
    assert kernels == (("root=UUID=1", "ro", "iommu=pt"), ("root=UUID=1", "ro", "single"))


@pytest.mark.parametrize("output", [Output(""), Output("set default=0\n"), Output(rc=None, error="Permission denied")])
def test_boot_loader_without_a_kernel_is_unreadable(output):
    with pytest.raises(Unreadable):
        boot_loader.parse(output)


def kernel(release):
    return FakeHost({"uname -r": release if isinstance(release, Output) else Output(f"{release}\n")})


@pytest.mark.parametrize(
    ("release", "right"),
    [("5.12.0", True), ("5.15.0-1063-nvidia", True), ("6.1.0-18-amd64", True), ("5.11.22", False), ("4.18.0", False)],
)
def test_dmabuf_needs_linux_5_12(release, right):
    assert (why_not(kernel(release), "dmabuf") == "") is right


@pytest.mark.parametrize("release", ["", "unknown", Output(rc=None, error="uname: not found"), Output("6.1", rc=1)])
def test_kernel_release_that_cannot_be_read_is_no_yes(release):
    assert why_not(kernel(release), "dmabuf")


@pytest.mark.parametrize("method", ["nvidia_peermem", "none"])
def test_dmabufs_kernel_is_asked_of_dmabuf_alone(method):
    host = kernel("4.18.0")
    assert why_not(host, method) == "" and host.runs == []


def test_device_that_is_not_there_needs_no_way_opened_to_it():
    settings = pcie.Settings((), None, None, ("0000:85:00.0",), False, "/usr/bin", "/")
    assert pcie.plan(pcie.Seen({}, (), False), settings) == []


LOCKED = {LOCKDOWN: Output("none [integrity] confidentiality\n")}
CAUSE = "lockdown (integrity, which Secure Boot turns on) refuses writes to PCIe registers"


@pytest.mark.parametrize("lockdown", [LOCKED, {}])
@pytest.mark.parametrize(
    ("setpci", "said"),
    [
        (Output(stderr="setpci: Operation not permitted\n", rc=1), ": setpci: Operation not permitted"),
        (Output(), "after it was set there was still to do: rail 0"),
    ],
)
def test_register_that_is_not_written_under_lockdown_names_the_cause(lockdown, setpci, said):
    lspci_output = Output((HEALTHY / "lspci.txt").read_text())
    host = FakeHost({"lspci": lspci_output, "setpci": setpci, **lockdown})
    settings = pcie.Settings((RAIL,), 512, None, (), False, "/usr/bin", "/")
    with pytest.raises(pcie.PcieError) as raised:
        pcie.apply(host, settings)
    assert said in str(raised.value)
    assert (CAUSE in str(raised.value)) is bool(lockdown)


def test_file_that_is_not_written_has_nothing_to_do_with_lockdown():
    place = f"/sys/bus/pci/devices/{NIC}"
    files = {f"{place}/local_cpulist": "0-3", f"{place}/msi_irqs/200": "", "/proc/irq/200/smp_affinity_list": "7"}
    outputs = {path: Output(f"{text}\n") for path, text in files.items()}
    outputs |= {"lspci": Output((HEALTHY / "lspci.txt").read_text()), "systemctl": Output("masked\n", rc=1), **LOCKED}
    host = FakeHost(outputs)
    host.write = lambda path, text: "Input/output error"
    settings = pcie.Settings((RAIL,), None, None, (), True, "/usr/bin", "/")
    with pytest.raises(pcie.PcieError, match=r"to CPUs 0-3 in place of 7: Input/output error$"):
        pcie.apply(host, settings)

"""A class drafted from good hosts passes these and names a sick one of the same kind."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.judging.nvlink_domain import NO_CLUSTER
from ansible_collections.muster.cluster.plugins.module_utils.probes import lspci
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import stated
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.draft_error import DraftError
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.drafted_class import draft_class

from tests.grace import tray

from .hosts import (
    MANAGERS,
    changed,
    collected,
    dgx_documents,
    expectations,
    faults,
    fleet_of,
    h200_outputs,
    healthy_outputs,
    hgx_b200_outputs,
    judged,
    judged_in,
    recorded,
    rejudged,
    tray_collected,
    tray_outputs,
    xe9680_outputs,
)

HGX_RAILS = [f"0000:{bus:02x}:00.0" for bus in range(0x11, 0x19)]


def hgx_outputs() -> dict[str, Output]:
    return {"nvidia_smi": Output(recorded("nvidia-smi/qx-h100x8-570.86.15.xml").decode())}


def without_gpu(outputs: dict[str, Output], address: str) -> dict[str, Output]:
    """Return outputs in which nvidia-smi no longer lists a GPU."""
    text = outputs["nvidia_smi"].stdout
    (block,) = re.findall(rf'(?s)\t<gpu id="0000{address.upper()}">.*?</gpu>\n', text)
    text = text.replace(block, "").replace("<attached_gpus>8<", "<attached_gpus>7<")
    return {**outputs, "nvidia_smi": Output(text)}


def asked_by_address(outputs: dict[str, Output]) -> dict[str, Output]:
    """Return outputs as a class with the drives' addresses has them: smartctl's reports are under the parts' names."""
    drives = re.findall(r"(?m)^(0000:\S+)$", outputs["nvme_sysfs"].stdout)
    names = [(f"==> nvme {number} <==", f"==> nvme {at} <==") for number, at in enumerate(drives, 1)]
    return changed(outputs, "smartctl", *names)


def test_healthy_hosts_pass_both_stages_by_their_own_class() -> None:
    outputs = healthy_outputs()
    drafted = draft_class(fleet_of(3, outputs))
    assert (drafted.extends, drafted.link_layer, drafted.speed_gbps) == ("hgx_h100", "Ethernet", 400)
    assert drafted.differences == {}
    assert set(drafted.unseen) == {"bmc.log", "bmc.inlet", "bmc.airflow.outlet"}
    assert drafted.unseen["bmc.airflow.outlet"].startswith("Exhaust Temp is held against the inlet")
    assert {"rdma", "gpu_stress", "collective"} <= set(drafted.floors)
    for stage in ("preflight", "burn_in"):
        assert judged_in(stage, drafted, asked_by_address(outputs)) == {}, stage


def test_healthy_hosts_show_parts_versions_and_memory() -> None:
    values = draft_class([collected(healthy_outputs())]).values
    assert values["gpu"]["parts"][0] == {"slot": "GPU0", "address": "0000:04:00.0"}
    assert values["nic"]["rails"][7] == {"rail": 7, "address": "0000:dc:00.0"}
    # By nvidia-smi topo, as GPUs and NICs lie at root ports of their own.
    assert values["affinity"]["parts"][4] == {"slot": "GPU4", "numa_node": 1, "rail": 4}
    assert "nic_connection" not in values["affinity"]
    assert {**values["nic"], "rails": []} == {
        **{"model": "MT4129", "firmware": "28.43.1014", "link_layer": "Ethernet", "rails": []}
    }
    assert values["cpu"]["cores"] == 96
    assert {**values["memory"]["dimms"], "slots": []} == {
        "count": 32,
        "size_mib": 65536,
        "speed_mts": 4400,
        "slots": [],
    }
    assert values["firmware"] == {
        **{"system_product": "Lab HGX", "bios_vendor": "Lab", "bios_version": "1.4", "bmc_version": "1.01"}
    }
    assert values["bmc"] == {
        **{"interface": "ipmitool", "redfish": None, "log": None, "inlet": None},
        **{"sensors": {"count": 18, "required": []}, "power_supplies": {"count": 6}},
        "airflow": {"outlet": None, "rise_celsius": None, "fans": 4},
    }
    # What is as in the base, and what a role sets, is not written.
    assert not {"model", "count", "persistence", "power_limit_watts"} & set(values["gpu"])
    assert not {"governor", "sockets"} & set(values["cpu"])


def test_redfish_is_drafted_where_the_bmc_was_asked_by_it() -> None:
    outputs = {name: output for name, output in healthy_outputs().items() if name not in ("ipmi_sdr", "ipmi_mc")}
    drafted = draft_class([collected(outputs)])
    bmc = drafted.values["bmc"]
    assert (bmc["interface"], bmc["inlet"]) == ("redfish", {"sensor": "Inlet Temp", "limit_celsius": 37})
    assert bmc["airflow"] == {"outlet": "Exhaust Temp", "rise_celsius": None, "fans": 8}
    assert "/redfish/v1/Managers/1" in bmc["redfish"]["documents"]
    assert any("declare them in bmc.redfish" in note for note in drafted.notes)
    checks = ("bmc_sensors", "power_supplies", "inlet_temperature", "airflow", "firmware")
    assert faults(rejudged(outputs, expectations(drafted), checks)) == {}


def test_xe9680_has_the_places_and_links_of_the_shipped_class() -> None:
    outputs = xe9680_outputs()
    drafted = draft_class([collected(outputs)])
    assert drafted.extends == "xe9680_h100"
    assert drafted.values == {
        "firmware": {
            **{"system_product": "PowerEdge XE9680", "bios_vendor": None, "bios_version": None, "bmc_version": None}
        }
    }
    found = judged(drafted, outputs)
    # The recorded kernel log does not begin with the boot, which is all that is said of it.
    assert {why.partition(":")[0] for why in found.values()} == {"kernel_log"}
    assert not {check for check, _ in found} & {"pcie_links", "acs", "firmware"}


def test_xe9680_places_are_read_from_lspci_alone() -> None:
    drafted = draft_class([collected(xe9680_outputs())], extends="hgx_h100")
    shipped = draft_class([collected(xe9680_outputs())]).extends
    assert (drafted.extends, shipped) == ("hgx_h100", "xe9680_h100")
    exact = expectations(draft_class([collected(xe9680_outputs())]))
    own = expectations(drafted)
    assert (own.gpu and own.gpu.parts, own.nic and own.nic.rails) == (exact.gpu.parts, exact.nic.rails)  # type: ignore[union-attr]
    assert own.affinity and exact.affinity and own.affinity.parts == exact.affinity.parts
    assert own.nvme and exact.nvme and own.nvme.addresses == exact.nvme.addresses


def test_downgraded_link_is_named_by_the_class_of_its_kind() -> None:
    outputs = xe9680_outputs()
    drafted = draft_class([collected(outputs)])
    before, gpu, after = re.split(r"(?sm)(^3b:00\.0 .*?\n\n)", outputs["lspci"].stdout, maxsplit=1)
    slow = re.sub(r"LnkSta:\tSpeed 32GT/s(.*?)Width x16", r"LnkSta:\tSpeed 32GT/s\1Width x8", gpu)
    assert slow != gpu
    sick = {"lspci": Output(before + slow + after)}
    assert "below the class floor" in judged(drafted, sick)["pcie_links", "gpu GPU1 0000:3b:00.0"]


def test_hgx_without_lspci_asks_for_its_rails() -> None:
    with pytest.raises(DraftError, match=r"^gpu-01: rails cannot be told, .* name them with --rails ADDRESS"):
        draft_class([collected(hgx_outputs())])


def test_hgx_passes_by_its_own_class_but_for_what_a_role_sets() -> None:
    outputs = hgx_outputs()
    drafted = draft_class([collected(outputs)], rails=HGX_RAILS)
    gpu = drafted.values["gpu"]
    assert (gpu["driver"], gpu["vbios"], gpu["pcie_generation"]) == ("570.86.15", "96.00.A5.00.01", 4)
    assert [rail["address"] for rail in drafted.values["nic"]["rails"]] == HGX_RAILS
    # Persistence is off on the recorded host: a draft learns no policy from it.
    assert {check for check, _ in judged(drafted, outputs)} == {"gpu_settings"}


def test_missing_gpu_is_named_by_the_class_of_its_kind() -> None:
    outputs = hgx_outputs()
    drafted = draft_class([collected(outputs)], rails=HGX_RAILS)
    found = judged(drafted, without_gpu(outputs, "0000:0b:00.0"))
    assert "lists 7 of 8 GPUs" in found["gpu_inventory", "gpu GPU2 0000:0b:00.0"]


def test_memory_errors_are_named_by_the_class_of_its_kind() -> None:
    outputs = healthy_outputs()
    drafted = draft_class([collected(outputs)])
    before, after = outputs["nvidia_smi"].stdout.split('<gpu id="00000000:8B:00.0">')
    after = re.sub(r"<dram_uncorrectable>0<", "<dram_uncorrectable>3<", after, count=1)
    sick = {**outputs, "nvidia_smi": Output(f'{before}<gpu id="00000000:8B:00.0">{after}')}
    assert ("gpu_ecc", "gpu GPU6 0000:8b:00.0") in judged(drafted, sick)


def test_bmc_of_a_dgx_h100_is_drafted_and_passes() -> None:
    documents = dgx_documents()
    drafted = draft_class([collected({**hgx_outputs(), "redfish": documents})], rails=HGX_RAILS)
    bmc = drafted.values["bmc"]
    assert bmc["inlet"] == {"sensor": "TEMP_AMBIENT", "limit_celsius": 37}
    assert bmc["airflow"] == {"outlet": "TEMP_MB_OUTLET", "rise_celsius": None, "fans": 36}
    assert bmc["sensors"] == {"required": [], "count": 162}
    # Its supplies are documents of their own, which nobody has recorded.
    assert bmc["power_supplies"] is None and "power supplies" in drafted.unseen["bmc.power_supplies"]
    assert judged(drafted, {"redfish": documents}) == {}
    assert '"ReadingCelsius": 22' in documents.stdout
    hot = Output(documents.stdout.replace('"ReadingCelsius": 22', '"ReadingCelsius": 41'))
    assert "inlet_temperature" in {check for check, _ in judged(drafted, {"redfish": hot})}


def test_power_supplies_are_counted_and_a_missing_one_is_named() -> None:
    text = recorded("redfish/smc821ge-power.json").decode()
    drafted = draft_class([collected({**hgx_outputs(), "redfish": Output(text)})], rails=HGX_RAILS)
    assert drafted.values["bmc"]["power_supplies"] == {"count": 8}
    assert judged(drafted, {"redfish": Output(text)}) == {}
    document = json.loads(text)
    del document["PowerSupplies"][-1]
    sick = judged(drafted, {"redfish": Output(json.dumps(document))})
    assert sick["power_supplies", "psu 8"] == "the BMC lists 7 of 8 power supplies"


def test_guest_with_one_h200_and_no_rail_extends_the_board_of_that_gpu() -> None:
    outputs = h200_outputs()
    drafted = draft_class([collected(outputs)], rails=[])
    assert drafted.extends == "hgx_h200"
    assert (drafted.values["nic"], drafted.values["rdma"]) == (None, None)
    assert drafted.values["collective"] == {"ranks_per_node": 1}
    assert "rdma" not in drafted.floors and not any(key.startswith("nic.") for key in drafted.unseen)
    assert judged(drafted, outputs) == {}


def test_gpu_model_without_a_shipped_class_has_no_floors_to_inherit() -> None:
    outputs = changed(healthy_outputs(), "nvidia_smi", ("NVIDIA H100 80GB HBM3", "NVIDIA B300 SXM6 AC"))
    expected = r"^GPU model is NVIDIA B300 SXM6 AC, expected one .* NVIDIA H100 80GB HBM3, NVIDIA H200"
    with pytest.raises(DraftError, match=expected):
        draft_class([collected(outputs)])
    with pytest.raises(DraftError, match=expected):
        draft_class([collected(outputs)], extends="hgx_h100")


def test_nvswitches_that_nics_of_the_host_manage_are_learned() -> None:
    outputs = hgx_b200_outputs()
    drafted = draft_class(fleet_of(2, outputs))
    assert drafted.values["nvlink"] == {"subnet_manager": True}
    assert not {rail["address"] for rail in drafted.values["nic"]["rails"]} & {*MANAGERS}
    assert judged_in("burn_in", drafted, asked_by_address(outputs)) == {}
    stopped = changed(outputs, "nvlsm", ("process <==\n    0 Ssl\n", "process <== (exit status 1: )\n"))
    assert ("nvlink_subnet_manager", "host") in judged(drafted, stopped)


def test_trays_of_an_nvlink_rack_are_drafted_and_pass() -> None:
    outputs = tray_outputs()
    drafted = draft_class([tray_collected(outputs, host) for host in ("tray-01", "tray-02")])
    assert drafted.extends == "gb200_nvl72"
    # The fabric manager that runs there has nothing to do: its class says none, and so do GPUs in a domain.
    assert "nvlink" not in drafted.values
    assert [rail["address"] for rail in drafted.values["nic"]["rails"]] == [f"{at}:00.0" for at in tray.RAILS.values()]
    assert [part.numa_node for part in stated(stated(expectations(drafted).affinity).parts)] == [0, 0, 1, 1]
    assert judged_in("burn_in", drafted, outputs) == {}
    sick = changed(outputs, "nvidia_smi", (f"<clusterUuid>{tray.UUID}", f"<clusterUuid>{NO_CLUSTER}"))
    assert set(judged_in("burn_in", drafted, sick)) == {("nvlink_domain", "host")}


def test_trays_with_other_addresses_have_the_class_of_their_gpus() -> None:
    outputs = {
        probe: Output(re.sub(r"\b((?:0000)?00[01][89]):01:", r"\1:06:", output.stdout))
        for probe, output in tray_outputs().items()
    }
    drafted = draft_class([tray_collected(outputs, "tray-01")])
    assert drafted.extends == "gb200_nvl72"
    assert [part["address"] for part in drafted.values["gpu"]["parts"]][:2] == ["0008:06:00.0", "0009:06:00.0"]
    assert judged_in("burn_in", drafted, outputs) == {}


def test_b200_has_the_class_of_its_board() -> None:
    outputs = changed(hgx_b200_outputs(), "nvidia_smi", ("NVIDIA H100 80GB HBM3", "NVIDIA B200"))
    assert draft_class([collected(outputs)]).extends == "hgx_b200"


def test_nics_that_may_manage_nvswitches_are_told() -> None:
    text = re.sub("SW_MNG|none", "unread", hgx_b200_outputs()["nvswitch_nics"].stdout)
    drafted = draft_class([collected({**hgx_b200_outputs(), "nvswitch_nics": Output(text)})])
    assert "whether a NIC manages NVSwitches could not be read" in drafted.unseen["nvlink.subnet_manager"]


@pytest.mark.parametrize(
    ("extends", "expected"),
    [
        ("hgx_h200", "GPU model is NVIDIA H100 80GB HBM3, expected NVIDIA H200 of class hgx_h200"),
        ("ours", "extends is ours, expected one of dgx_h100, "),
    ],
)
def test_class_of_another_model_or_name_is_refused(extends: str, expected: str) -> None:
    with pytest.raises(DraftError, match=f"^{expected}"):
        draft_class([collected(healthy_outputs())], extends=extends)


def test_lab_class_is_that_of_hosts_in_files_only() -> None:
    outputs = healthy_outputs()
    lab = draft_class([collected(outputs, root="/opt/lab/root", tool_path="/opt/lab/bin:/bin")])
    # Where nodes look for tools is no archive's to say.
    assert lab.extends == "lab_h100" and "tools" not in lab.values
    # Its slots and its inlet's limit are those of the base.
    assert "parts" not in lab.values["gpu"] and "bmc" not in lab.values
    assert lab.values["affinity"]["parts"][0] == {"slot": "SXM1", "numa_node": 0, "rail": 2}
    assert draft_class([collected(outputs)]).extends == "hgx_h100"
    with pytest.raises(DraftError, match="hosts were read below /, expected /opt/lab/root"):
        draft_class([collected(outputs)], extends="lab_h100")


def test_what_differs_between_hosts_is_named_and_not_written() -> None:
    outputs = healthy_outputs()
    other = changed(outputs, "nvidia_smi", ("<driver_version>570.86.15<", "<driver_version>570.99.01<"))
    drafted = draft_class([collected(outputs, "a"), collected(other, "b")])
    assert drafted.differences == {"gpu.driver": {"a": "570.86.15", "b": "570.99.01"}}
    assert "driver" not in drafted.values["gpu"]
    assert ("gpu_versions", "host") not in judged(drafted, outputs)


def test_largest_memory_holds_for_all_within_the_tolerance() -> None:
    outputs = healthy_outputs()
    kib = int(re.findall(r"MemTotal:\s+(\d+)", outputs["meminfo"].stdout)[0])

    def drafted_with(less: int) -> Any:
        other = changed(outputs, "meminfo", (str(kib), str(kib - less)))
        return draft_class([collected(other, "a"), collected(outputs, "b")])

    near, far = drafted_with(4096), drafted_with(kib // 10)
    assert near.differences["memory.mib"] == {"a": kib // 1024 - 4, "b": kib // 1024}
    assert near.values["memory"]["mib"] == kib // 1024
    assert set(far.differences) == {"memory.mib"} and "mib" not in far.values["memory"]


def test_slow_rails_are_named_as_less_than_the_base_asks() -> None:
    outputs = healthy_outputs()
    slow = changed(outputs, "infiniband", ("400 Gb/sec (4X NDR)", "200 Gb/sec (4X HDR)"))
    assert draft_class([collected(outputs)]).weaker == ()
    drafted = draft_class([collected(slow)])
    assert drafted.values["nic"]["speed_gbps"] == 200
    assert drafted.weaker == ("nic.speed_gbps is 200, shipped 400",)


def test_modules_that_do_not_divide_among_sockets_are_not_learned() -> None:
    outputs = healthy_outputs()
    text = outputs["dmidecode_memory"].stdout.replace("Size: 64 GB", "Size: No Module Installed", 1)
    missing = {**outputs, "dmidecode_memory": Output(text)}
    drafted = draft_class([collected(missing)])
    assert {"count", "slots"}.isdisjoint(drafted.values["memory"].get("dimms") or {})
    assert "do not divide among 2 sockets" in drafted.unseen["memory.dimms.count"]
    assert ("dimms", "host") in judged(drafted, missing)


def test_most_sensors_hold_for_all() -> None:
    outputs = healthy_outputs()
    other = changed(outputs, "ipmi_sdr", ("VBAT             | 38h | ok  |  7.18 | 3.02 Volts\n", ""))
    drafted = draft_class([collected(outputs, "a"), collected(other, "b")])
    assert drafted.differences == {"bmc.sensors.count": {"a": 18, "b": 17}}
    assert drafted.values["bmc"]["sensors"] == {"count": 18, "required": []}
    assert drafted.chosen == {"bmc.sensors.count": 18}
    assert ("bmc_sensors", "bmc") in judged(drafted, other) or ("bmc_sensors", "host") in judged(drafted, other)


def test_what_one_host_does_not_tell_is_named_with_the_host() -> None:
    outputs = healthy_outputs()
    blind = {**outputs, "lscpu": Output(rc=None, error="lscpu: not found")}
    drafted = draft_class([collected(outputs, "a"), collected(blind, "b")])
    assert drafted.values["cpu"]["cores"] == 96
    assert drafted.unread["cpu.cores"] == "b: lscpu: not found" and "cpu.cores" not in drafted.unseen
    alone = draft_class([collected(blind, "b")])
    assert "cores" not in alone.values["cpu"] and alone.unseen["cpu.cores"] == "lscpu: not found"


def test_host_that_lacks_a_gpu_is_named() -> None:
    outputs = hgx_outputs()
    hosts = [*fleet_of(3, outputs), collected(without_gpu(outputs, "0000:8c:00.0"), "gpu-04")]
    with pytest.raises(DraftError) as caught:
        draft_class(hosts, rails=HGX_RAILS)
    assert str(caught.value) == (
        "gpu-04 has no GPU at 0000:8c:00.0, which 3 others have; "
        "leave out the host that is not good, or draft each kind by itself"
    )


def test_host_that_lacks_a_drive_or_has_another_model_is_named() -> None:
    outputs = healthy_outputs()
    drive = changed(outputs, "nvme_sysfs", ("0000:1b:00.0", "0000:2b:00.0"))
    with pytest.raises(DraftError, match=r"^b has no NVMe drive at 0000:1b:00.0, which one other has; a has no NVMe"):
        draft_class([collected(outputs, "a"), collected(drive, "b")])
    model = changed(outputs, "nvidia_smi", ("NVIDIA H100 80GB HBM3", "NVIDIA H200"))
    with pytest.raises(DraftError, match=r"^gpu.model is NVIDIA H100 80GB HBM3 on a, NVIDIA H200 on b; leave out"):
        draft_class([collected(outputs, "a"), collected(model, "b")])


def test_host_whose_gpu_lies_at_another_node_is_named() -> None:
    outputs = healthy_outputs()
    moved = changed(outputs, "topology", ("48-95,144-191	1", "48-95,144-191	0"))
    with pytest.raises(
        DraftError, match=r"^place of GPU 0000:84:00.0 is NUMA node 1, rail 4 on a, NUMA node 0, rail 4"
    ):
        draft_class([collected(outputs, "a"), collected(moved, "b")])


def test_no_host_and_one_host_twice_are_refused() -> None:
    with pytest.raises(DraftError, match=r"^no host was collected"):
        draft_class([])
    with pytest.raises(DraftError, match=r"^two archives of one host among a, a"):
        draft_class([collected(healthy_outputs(), "a"), collected(healthy_outputs(), "a")])


def test_host_without_a_drive_has_none_where_lspci_says_so() -> None:
    outputs = {**healthy_outputs(), "nvme_sysfs": Output("==> files <==\n0 in all\n")}
    assert draft_class([collected(outputs)]).values["nvme"]["addresses"]
    text = outputs["lspci"].stdout.replace("Non-Volatile memory controller", "Mass storage controller")
    without = draft_class([collected({**outputs, "lspci": Output(text)})])
    assert without.values["nvme"] is None and "nvme is not asked" in without.weaker
    blind = draft_class([collected({**outputs, "lspci": Output(rc=None, error="lspci: not found")})])
    assert "nvme" not in blind.values and "lspci could not be read" in blind.unseen["nvme"]


def test_drives_of_several_models_all_count_and_none_is_declared() -> None:
    outputs = changed(healthy_outputs(), "nvme_sysfs", ("16.0 GT/s PCIe", "8.0 GT/s PCIe"))
    text = outputs["nvme_sysfs"].stdout.replace("8.0 GT/s PCIe", "16.0 GT/s PCIe", 7)
    text = text.replace("SAMSUNG MZWLR3T8HCLS-00A07", "BOOT", 1)
    mixed = {**outputs, "nvme_sysfs": Output(text)}
    drafted = draft_class([collected(mixed)])
    assert len(drafted.values["nvme"]["addresses"]) == 8
    assert drafted.values["nvme"]["link_gt_per_second"] is None and "model" not in drafted.values["nvme"]
    several = "NVMe drives of several models, for which no one is declared: BOOT, SAMSUNG MZWLR3T8HCLS-00A07 (gpu-01)"
    assert several in drafted.notes
    assert ("nvme", "nvme 0000:1a:00.0") not in judged(drafted, mixed)


def test_slow_drive_among_its_like_stays_a_fault() -> None:
    outputs = healthy_outputs()
    text = outputs["nvme_sysfs"].stdout.replace("16.0 GT/s PCIe", "8.0 GT/s PCIe", 1)
    slow = {**outputs, "nvme_sysfs": Output(text)}
    drafted = draft_class([collected(slow)])
    assert "link_gt_per_second" not in drafted.values["nvme"]
    assert "differs on one host" in drafted.unseen["nvme.link_gt_per_second"]
    assert "nvme" in {check for check, _ in judged(drafted, slow)}


def test_empty_slots_and_absent_power_supplies_are_to_be_looked_at() -> None:
    outputs = healthy_outputs()
    text = outputs["dmidecode_memory"].stdout.replace("Size: 64 GB", "Size: No Module Installed", 2)
    drafted = draft_class(fleet_of(2, {**outputs, "dmidecode_memory": Output(text)}))
    assert any(note.startswith("memory slots without a module: A1, A2 (gpu-01, gpu-02)") for note in drafted.notes)


def test_lspci_tells_the_numa_node() -> None:
    devices = lspci.parse(xe9680_outputs()["lspci"])
    assert (devices["0000:19:00.0"].numa_node, devices["0000:db:00.0"].numa_node) == (0, 1)
    alone = "00:1f.0 ISA bridge: Intel\n\tControl: I/O+\n\n"
    assert lspci.parse(Output(alone))["0000:00:1f.0"].numa_node is None

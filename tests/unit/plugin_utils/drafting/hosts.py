"""Hosts as they are collected: the healthy one of the tests, and outputs of real machines, read where they lie."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collecting.archive import Collected, Taken
from ansible_collections.muster.cluster.plugins.module_utils.collecting.collect import collected_probes
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import PROBES, judge_stage
from ansible_collections.muster.cluster.plugins.module_utils.examination.rejudge import rejudged
from ansible_collections.muster.cluster.plugins.module_utils.host.blocks import joined, listed, split
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes.nvlsm import PROGRAM
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.drafting.drafted_class import DraftedClass
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.grace import tray
from tests.recorded.gpu_static import section
from tests.recorded.judged import RECORDED
from tests.typed import typed

HEALTHY = Path(__file__).resolve().parents[3] / "healthy"


def healthy_outputs() -> dict[str, Output]:
    """Return what every probe prints on the healthy host."""
    return {path.stem: Output(path.read_text(encoding="utf-8")) for path in HEALTHY.iterdir() if path.stem in PROBES}


def changed(outputs: Mapping[str, Output], probe: str, *replacements: tuple[str, str]) -> dict[str, Output]:
    """Return outputs of which one has every occurrence of a text replaced, each of which it holds."""
    text = outputs[probe].stdout
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return {**outputs, probe: Output(text)}


def collected(
    outputs: Mapping[str, Output], host: str = "gpu-01", taken: Sequence[Taken] = (), **more: Any
) -> Collected:
    """Return a host; of what was taken what tells the NICs that each of the healthy host's tools was asked of."""
    by_default = [
        Taken(probe, f"tool -d 0000:{bus}:00.0", 0, 0)
        for probe in ("cables", "mlxlink", "nic_config")
        for bus in ("1a", "3c", "4d", "5e", "9c", "bc", "cc", "dc")
    ]
    return Collected(host, 0.0, outputs, tuple(taken or by_default), **more)


def whole_outputs() -> dict[str, Output]:
    """Return the outputs of the healthy host that an archive has."""
    return {name: output for name, output in healthy_outputs().items() if name in collected_probes()}


def fleet_of(number: int, outputs: Mapping[str, Output]) -> list[Collected]:
    """Return so many hosts that print the same."""
    return [collected(outputs, f"gpu-{index:02}") for index in range(1, number + 1)]


def recorded(file: str) -> bytes:
    """Return a recorded file; skips the test where there is none."""
    path = RECORDED / file
    if not path.exists():
        pytest.skip(f"no recorded output at {path}")
    return path.read_bytes()


# Where the NICs that manage the NVSwitches lie.
MANAGERS = tuple(f"0000:a8:00.{function}" for function in range(4))


def hgx_b200_outputs() -> dict[str, Output]:
    """Return outputs of a host whose GPU board has four functions of a ConnectX-7 besides the eight rails' NICs."""
    outputs = healthy_outputs()
    devices, infiniband = outputs["lspci"].stdout, split(outputs["infiniband"].stdout)
    (rail,) = re.findall(r"(?ms)^0000:1a:00\.0 .*?\n\n", devices)
    (bridge,) = re.findall(r"(?ms)^0000:00:02\.0 PCI bridge(?:[^\n]|\n(?!\n))*secondary=1a.*?\n\n", devices)
    devices += bridge.replace("0000:00:02.0", "0000:00:1d.0").replace("=1a", "=a8")
    names, managers = outputs["rail_names"].stdout, ""
    files = {path: output for path, output in infiniband.items() if "/mlx5_0/" in path and "/net/" not in path}
    for number, address in enumerate(MANAGERS, 8):
        devices += rail.replace("0000:1a:00.0 Ethernet", f"{address} Infiniband")
        names += f"/sys/bus/pci/devices/{address}/infiniband/mlx5_{number}\n"
        names += f"/sys/bus/pci/devices/{address}/net/ibp{number}\n"
        managers += f"{address} SW_MNG\n"
        for path, output in files.items():
            text = output.stdout.replace("Ethernet", "InfiniBand")
            infiniband[path.replace("/mlx5_0/", f"/mlx5_{number}/")] = Output(text)
    up = {"operstate": "up", "mtu": "2044", "speed": "400000", "carrier_changes": "1"}
    interfaces = split(outputs["net_devices"].stdout)
    interfaces |= {f"/sys/class/net/ibp8/{name}": Output(f"{value}\n") for name, value in up.items()}
    nics = outputs["nvswitch_nics"].stdout.replace("8 in all", "12 in all")
    texts = {"lspci": devices, "rail_names": names, "nvswitch_nics": managers + nics}
    process = {"process": Output("    0 Ssl\n"), "files": Output(f"/sys/module/ib_umad yes\n{PROGRAM} yes\n")}
    return {
        **outputs,
        **{probe: Output(text) for probe, text in texts.items()},
        **{"infiniband": listed(infiniband), "net_devices": listed(interfaces), "nvlsm": joined(process)},
    }


def tray_outputs() -> dict[str, Output]:
    """Return outputs of a GB200 tray, without the GPUs and NICs of the healthy host that a tray has no more."""
    gone = [*tray.GONE_GPUS, *(f"0000:{bus}" for bus in ("9c", "bc", "cc", "dc"))]
    texts = {name: tray.output(name).stdout for name in collected_probes() if name in PROBES}
    for part in gone:
        texts["lspci"] = re.sub(rf"(?ms)^{part}:00\.0 .*?\n\n", "", texts["lspci"])
        texts["rail_names"] = re.sub(rf"(?m)^.*/{part}:.*\n", "", texts["rail_names"])
    for probe in ("mlxlink", "cables", "nic_config"):
        texts[probe] = texts[probe].partition("==> rail4 <==")[0]
    return {name: Output(text) for name, text in texts.items()}


def tray_collected(outputs: Mapping[str, Output], host: str) -> Collected:
    """Return a tray whose tools were asked of its four rails."""
    probes = ("cables", "mlxlink", "nic_config")
    taken = [Taken(probe, f"tool -d {at}:00.0", 0, 0) for probe in probes for at in tray.RAILS.values()]
    return collected(outputs, host, taken)


def xe9680_outputs() -> dict[str, Output]:
    """Return what was recorded of a Dell XE9680."""
    lspci = gzip.decompress(recorded("lspci/lspci-vvv-dell-xe9680-hgx-h100.txt.gz")).decode()
    system = recorded("dmidecode/dmidecode-xe9680-system.txt").decode()
    log = recorded("kernel/dmesg-boot-xe9680-h100-mlx5.log").decode()
    return {"lspci": Output(lspci), "dmidecode": Output(system), "kernel_log": Output(log)}


def dgx_documents() -> Output:
    """Return what the probe gives of a DGX H100's BMC: three documents of it, one after the other."""
    names = ("chassis-power", "chassis-thermal", "powersubsystem")
    return joined({f"/redfish/v1/{name}": Output(recorded(f"redfish/dgxh100-{name}.json").decode()) for name in names})


def h200_outputs() -> dict[str, Output]:
    """Return what nvidia-smi printed on a guest with one H200."""
    data = recorded("nvidia-smi/capture-h200-1gpu-590.48.01.txt")
    capabilities = {"nvlink": "capabilities :: nvlink -s", "topology": "capabilities :: topo -m"}
    parts = {"nvidia_smi": "idle :: query (-q)", **capabilities}
    return {probe: section(name)(data) for probe, name in parts.items()}


def expectations(drafted: DraftedClass) -> Expectations:
    """Return what a node of the drafted class is judged by, as a fleet file would have it."""
    classes = {"ours": {"extends": drafted.extends, **drafted.values}}
    return typed(expectations_of("ours", classes, "x.fleet.yml"))


def faults(findings: Sequence[Finding]) -> dict[tuple[str, str], str]:
    """Return what did not pass by check and part."""
    return {(each.check, each.subject): each.reason for each in findings if each.verdict != PASS}


def judged(drafted: DraftedClass, outputs: Mapping[str, Output]) -> dict[tuple[str, str], str]:
    """Return what does not pass of all that the outputs suffice to judge."""
    return faults(rejudged(outputs, expectations(drafted)))


def judged_in(stage: str, drafted: DraftedClass, outputs: Mapping[str, Output]) -> dict[tuple[str, str], str]:
    """Return what does not pass in a whole stage."""
    return faults(judge_stage(stage, outputs, expectations(drafted)).findings)

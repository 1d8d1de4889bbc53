"""Simulated tools against what the real ones print."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.probes import nvidia_smi

Run = Callable[..., subprocess.CompletedProcess[bytes]]
SetFaults = Callable[..., None]


def gpus_of(xml: bytes | str) -> list[ET.Element]:
    return ET.fromstring(xml).findall("gpu")


def test_nvidia_smi_names_each_slot_at_its_address(tool: Run) -> None:
    found = {
        gpu.findtext("gpu_module_id"): gpu.findtext("pci/pci_bus_id")
        for gpu in gpus_of(tool("nvidia-smi", "-q", "-x").stdout)
    }
    assert found["6"] == "00000000:85:00.0"
    assert sorted(found) == list("12345678")


def test_nvidia_smi_shows_faults(tool: Run, set_faults: SetFaults) -> None:
    set_faults(
        gpus_missing=["SXM6"],
        gpu_serials={"SXM1": "1650000000000"},
        gpu_values={"SXM2": {"vbios_version": "96.00.00.00.99", "ecc_errors/volatile/dram_correctable": "7"}},
    )
    output = tool("nvidia-smi", "-q", "-x").stdout
    gpus = {gpu.findtext("gpu_module_id"): gpu for gpu in gpus_of(output)}
    assert ET.fromstring(output).findtext("attached_gpus") == "7"
    assert "6" not in gpus
    assert gpus["1"].findtext("serial") == "1650000000000"
    assert gpus["2"].findtext("vbios_version") == "96.00.00.00.99"
    assert gpus["2"].findtext("ecc_errors/volatile/dram_correctable") == "7"
    assert gpus["3"].findtext("ecc_errors/volatile/dram_correctable") == "0"
    assert tool("nvidia-smi", "-L").stdout.count(b"\n") == 7


def test_nvidia_smi_without_a_gpu_fails(tool: Run, set_faults: SetFaults) -> None:
    set_faults(gpus_missing=[f"SXM{slot}" for slot in range(1, 9)])
    done = tool("nvidia-smi", "-q", "-x")
    assert (done.returncode, done.stdout) == (6, b"No devices were found\n")


@pytest.mark.parametrize("driver", ["550.163.01", "535.309.01"])
def test_nvidia_smi_with_a_lost_gpu_ends_with_its_address(tool: Run, set_faults: SetFaults, driver: str) -> None:
    set_faults(gpus_lost=["SXM6"], driver=driver)
    for arguments in (["-q", "-x"], ["nvlink", "--status"]):
        done = tool("nvidia-smi", *arguments)
        assert done.returncode == 15
        assert done.stdout.startswith(b"Unable to determine the device handle for GPU0000:85:00.0: GPU is lost.")
    assert b"00000000:04:00.0" in tool("nvidia-smi", "-q", "-x", "-i", "0").stdout
    assert tool("nvidia-smi", "topo", "-m").returncode == 255


def test_nvidia_smi_lists_a_lost_gpu_where_the_driver_does(tool: Run, set_faults: SetFaults) -> None:
    set_faults(gpus_lost_listed=["SXM6"])
    done = tool("nvidia-smi", "-q", "-x")
    gpus = {gpu.get("id"): gpu for gpu in gpus_of(done.stdout)}
    assert (done.returncode, len(gpus)) == (0, 8)
    assert gpus["00000000:85:00.0"].findtext("serial") == "GPU is lost"
    assert gpus["00000000:04:00.0"].findtext("temperature/gpu_temp") == "32 C"


def test_nvidia_smi_is_the_one_of_the_drivers_branch(tool: Run, set_faults: SetFaults) -> None:
    for driver in ("550.163.01", "535.309.01", "570.86.15"):
        set_faults(driver=driver)
        text = tool("nvidia-smi").stdout.decode()
        assert f"Driver Version: {driver}" in text
        assert f"NVIDIA-SMI {'535' if driver.startswith('535') else '550'}." in text


def test_nvidia_smi_that_watches_sees_the_gpus_at_work(tool: Run, set_faults: SetFaults) -> None:
    query = ("--query-gpu=index,power.draw", "--format=csv,noheader,nounits")
    set_faults(gpu_values={"SXM4": {"gpu_power_readings/power_draw": "400.00 W"}})
    assert tool("nvidia-smi", *query).stdout.splitlines()[:2] == [b"0, 400.00", b"1, 70.00"]
    with pytest.raises(subprocess.TimeoutExpired) as watched:
        tool("nvidia-smi", *query, "-lms", "100", timeout=0.5)
    assert (watched.value.stdout or b"").splitlines()[:2] == [b"0, 400.00", b"1, 695.00"]


def test_nvidia_smi_query_prints_csv(tool: Run) -> None:
    query = "--query-gpu=index,name,pci.bus_id,memory.total"
    lines = tool("nvidia-smi", query, "--format=csv").stdout.decode().splitlines()
    assert lines[0] == "index, name, pci.bus_id, memory.total [MiB]"
    assert lines[1] == "0, NVIDIA H100 80GB HBM3, 00000000:04:00.0, 81559 MiB"
    bare = tool("nvidia-smi", query, "--format=csv,noheader,nounits", "-i", "7").stdout.decode()
    assert bare == "7, NVIDIA H100 80GB HBM3, 00000000:8C:00.0, 81559\n"


def section(capture: str, name: str) -> str:
    """Return one section of a capture of several commands."""
    parts = capture.split("#" * 80 + "\n")
    return parts[next(at for at, part in enumerate(parts) if part.startswith(f"# {name}\n")) + 1].strip("\n") + "\n"


CAPTURE = "nvidia-smi/capture-h100-1gpu-590.48.01.txt"


def test_nvidia_smi_says_the_same_as_text_and_as_xml(tool: Run, set_faults: SetFaults) -> None:
    set_faults(
        gpu_processes={"SXM3": [{"pid": 42, "name": "python", "memory_mib": 512}]},
        gpu_values={"SXM2": {"remapped_rows/remapped_row_pending": "Yes", "fabric/state": "In Progress"}},
    )
    text, xml = (
        nvidia_smi.parse(Output(tool("nvidia-smi", *arguments).stdout.decode())) for arguments in (["-q"], ["-q", "-x"])
    )
    assert text == xml
    assert xml.gpus[0].processes == ()
    assert [process.name for gpu in xml.gpus for process in gpu.processes or ()] == ["python"]


def test_nvlink_status_has_the_lines_of_a_recorded_one(tool: Run, set_faults: SetFaults, recorded: Path) -> None:
    def shape(text: str) -> list[str]:
        return [re.sub(r"UUID: [^)]+", "UUID", line) for line in text.splitlines()]

    real = shape(section((recorded / CAPTURE).read_text(encoding="utf-8"), "capabilities :: nvlink -s"))
    assert shape(tool("nvidia-smi", "nvlink", "--status").stdout.decode())[: len(real)] == real
    set_faults(nvlinks={"SXM4": {"3": 0, "4": 25000}})
    lines = tool("nvidia-smi", "nvlink", "-s").stdout.decode().splitlines()
    assert lines[4:6] == ["\t Link 3: <inactive>", "\t Link 4: 25 GB/s"]


def test_topology_has_the_layout_of_recorded_ones(tool: Run, recorded: Path) -> None:
    ours = tool("nvidia-smi", "topo", "-m").stdout.decode().split("\n")
    single = section((recorded / CAPTURE).read_text(encoding="utf-8"), "capabilities :: topo -m").split("\n")
    assert ours[0].startswith("\t\x1b[4mGPU0\t") and single[0].startswith("\t\x1b[4mGPU0\t")
    assert ours[0][ours[0].index("\tCPU Affinity") :] == single[0][single[0].index("\tCPU Affinity") :]
    real = (recorded / "nvidia-smi/topo-nv18x8-12nics-tabs-numa-off.txt").read_text(encoding="utf-8").split("\n")
    assert ours[1].split("\t")[-3:] == ["0", "", "N/A"] == real[1].split("\t")[-3:]
    assert ours[1].split("\t")[:9] == real[1].split("\t")[:9]
    assert ours[9].split("\t")[-4:] == [""] * 4 == real[9].split("\t")[-4:]
    assert ours[17:29] == real[21:33]
    assert [line.split(":")[0] for line in ours[29:37]] == [line.split(":")[0] for line in real[33:41]]


def test_nvidia_smi_list_has_the_layout_of_a_recorded_one(tool: Run, recorded: Path) -> None:
    real = section((recorded / CAPTURE).read_text(encoding="utf-8"), "capabilities :: list (-L)")
    ours = tool("nvidia-smi", "-L").stdout.decode().splitlines()[0]
    assert re.sub(r"GPU-[0-9a-f-]+", "", ours) == re.sub(r"GPU-[0-9a-f-]+", "", real.strip())


def test_nvidia_smi_query_gives_values_as_a_recorded_one(tool: Run, recorded: Path) -> None:
    names = ("name", "pci.bus_id", "memory.total", "power.draw", "temperature.gpu", "ecc.mode.current")
    header, values = (recorded / "nvidia-smi/query-gpu-h100-idle.csv").read_text(encoding="utf-8").splitlines()[:2]
    real = dict(zip((name.split(" [")[0] for name in header.split(", ")), values.split(", "), strict=True))
    query = "--query-gpu=" + ",".join(names)
    ours = tool("nvidia-smi", query, "--format=csv,noheader").stdout.decode().splitlines()[0].split(", ")

    def shape(value: str) -> str:
        return re.sub(r"[\dA-F]+", "9", value)

    assert [shape(value) for value in ours] == [shape(real[name]) for name in names]


def test_fabric_manager_shows_its_state_and_version(tool: Run, set_faults: SetFaults) -> None:
    service = ("show", "nvidia-fabricmanager.service", "--property=LoadState,ActiveState,SubState")
    assert tool("systemctl", *service).stdout == b"LoadState=loaded\nActiveState=active\nSubState=running\n"
    assert tool("nv-fabricmanager", "--version").stdout == b"Fabric Manager version is : 550.163.01\n"
    set_faults(fabric_manager={"active": "failed", "sub": "failed", "version": "565.57.01"})
    assert tool("systemctl", *service).stdout == b"LoadState=loaded\nActiveState=failed\nSubState=failed\n"
    assert b"565.57.01" in tool("nv-fabricmanager", "--version").stdout
    set_faults(fabric_manager={"active": None, "sub": None, "version": None})
    assert tool("systemctl", *service).stdout == b"LoadState=not-found\nActiveState=inactive\nSubState=dead\n"


def test_lscpu_names_its_fields_as_a_recorded_one(tool: Run, recorded: Path) -> None:
    def fields(text: str) -> set[str]:
        return {line.partition(":")[0].strip() for line in text.splitlines() if not line.startswith(" " * 20)}

    real = fields((recorded / "numa" / "lscpu-3.txt").read_text(encoding="utf-8"))
    wanted = {"Architecture", "CPU(s)", "Thread(s) per core", "Core(s) per socket", "Socket(s)", "NUMA node(s)"}
    assert wanted <= real
    assert wanted <= fields(tool("lscpu").stdout.decode())


def test_lscpu_json_has_the_layout_of_the_real_tool(tool: Run) -> None:
    real_tool = shutil.which("lscpu")
    version = subprocess.run(["lscpu", "--version"], capture_output=True, text=True, check=False) if real_tool else None
    if version is None or "2.38" not in version.stdout:
        pytest.skip("the simulated lscpu follows util-linux 2.38, which is not here")

    def shape(text: str) -> set[str]:
        return {re.sub(r': ".*"', "", line) for line in text.splitlines()}

    real = subprocess.run(["lscpu", "-J"], capture_output=True, text=True, check=True).stdout
    ours = tool("lscpu", "-J").stdout.decode()
    assert shape(ours) == shape(real)
    fields = {entry["field"]: entry["data"] for entry in json.loads(ours)["lscpu"]}
    assert (fields["Socket(s):"], fields["Core(s) per socket:"], fields["CPU(s):"]) == ("2", "48", "192")


def test_chronyc_tracking_has_the_layout_of_a_recorded_one(tool: Run, recorded: Path) -> None:
    def shape(text: str) -> list[str]:
        labels = [line[:18] for line in text.splitlines()]
        return labels + [
            re.sub(r"[\d.]+", "9", line[18:]) for line in text.splitlines() if line.startswith("System time")
        ]

    real = (recorded / "chrony" / "chronyc-tracking-stratum3.txt").read_text(encoding="utf-8")
    assert shape(tool("chronyc", "-n", "tracking").stdout.decode()) == shape(real)


def test_chronyc_shows_the_offset(tool: Run, set_faults: SetFaults) -> None:
    set_faults(clock_offset_ms=-250)
    fields = tool("chronyc", "-c", "tracking").stdout.decode().strip().split(",")
    assert (len(fields), float(fields[4]), fields[-1]) == (14, -0.25, "Normal")
    assert b"System time     : 0.250000000 seconds fast of NTP time" in tool("chronyc", "tracking").stdout
    set_faults(clock_synchronised=False)
    assert tool("chronyc", "-c", "tracking").stdout.startswith(b"00000000,,0,0.000000000,")
    assert b"Leap status     : Not synchronised" in tool("chronyc", "tracking").stdout


def test_journalctl_prints_an_ordinary_boot_without_faults(tool: Run) -> None:
    lines = tool("journalctl", "-k", "-o", "short-iso", "--no-pager", "-b", "0").stdout.decode().splitlines()
    assert all(re.fullmatch(r"\d{4}(-\d\d){2}T\d\d:\d\d:\d\d[+-]\d{4} gpu-01 kernel: .+", line) for line in lines)
    assert not any("Xid" in line or "error" in line.lower() for line in lines)


def test_journalctl_prints_the_fault_with_its_time(tool: Run, set_faults: SetFaults) -> None:
    now = int(time.time())
    set_faults(kernel_log=["old", {"seconds": now + 5, "message": "new"}])
    messages = tool("journalctl", "-k", "-o", "cat").stdout.decode().splitlines()
    assert messages[-2:] == ["old", "new"]
    since = tool("journalctl", "-k", "--since", f"@{now}", "-o", "json").stdout.decode().splitlines()
    assert [json.loads(line)["MESSAGE"] for line in since] == ["new"]


def test_uname_shows_the_kernel_of_the_state(tool: Run, set_faults: SetFaults) -> None:
    set_faults(kernel="6.8.0-1024-nvidia")
    assert tool("uname", "-r").stdout == b"6.8.0-1024-nvidia\n"
    assert tool("uname", "-m").stdout.decode().strip() == os.uname().machine


@pytest.mark.parametrize(
    "name", ["nvidia-smi", "journalctl", "uname", "lscpu", "chronyc", "mlxlink", "systemctl", "nv-fabricmanager"]
)
def test_every_tool_can_break_in_every_way(name: str, tool: Run, set_faults: SetFaults) -> None:
    arguments = {
        "nvidia-smi": ["-q", "-x"],
        "journalctl": ["-k"],
        "uname": ["-r"],
        "chronyc": ["tracking"],
        "mlxlink": ["-d", "0000:1a:00.0", "--json"],
        "systemctl": ["show", "nvidia-fabricmanager.service", "--property=LoadState,ActiveState,SubState"],
        "nv-fabricmanager": ["--version"],
    }.get(name, [])
    whole = tool(name, *arguments).stdout
    outputs = {}
    for fault in ("crash", "truncate", "empty", "garble"):
        set_faults(tool_faults={name: fault})
        outputs[fault] = tool(name, *arguments)
    assert outputs["crash"].returncode == -signal.SIGSEGV
    assert 0 < len(outputs["truncate"].stdout) < len(whole)
    assert (outputs["empty"].returncode, outputs["empty"].stdout) == (0, b"")
    assert b"\xfe" in outputs["garble"].stdout
    set_faults(tool_faults={name: "missing"})
    with pytest.raises(FileNotFoundError):
        tool(name, *arguments)
    set_faults(tool_faults={name: "hang"})
    with pytest.raises(subprocess.TimeoutExpired):
        tool(name, *arguments, timeout=0.3)


def test_smartctl_has_the_fields_of_a_recorded_one(tool: Run, recorded: Path) -> None:
    def keys(value: object, prefix: str = "") -> set[str]:
        if not isinstance(value, dict):
            return {prefix}
        return {key for name, item in value.items() for key in keys(item, f"{prefix}/{name}")}

    real = json.loads((recorded / "nvme" / "smartctl-nvme-good.json").read_text(encoding="utf-8"))
    assert keys(json.loads(tool("smartctl", "-j", "-i", "-H", "-A", "/dev/nvme0").stdout)) == keys(real)


def test_smartctl_of_a_drive_that_is_gone_says_so(tool: Run, set_faults: SetFaults) -> None:
    set_faults(nvme_missing=[1])
    done = tool("smartctl", "-j", "-i", "-H", "-A", "/dev/nvme0")
    assert done.returncode == json.loads(done.stdout)["smartctl"]["exit_status"] == 2


@pytest.mark.parametrize(
    ("name", "histogram"),
    [("mlxlink-json-400g-dr4.json", []), ("mlxlink-json-400g-fec-histogram-eye.json", ["--rx_fec_histogram"])],
)
def test_mlxlink_has_the_fields_of_a_recorded_one(tool: Run, recorded: Path, name: str, histogram: list[str]) -> None:
    def shape(value: object) -> object:
        if isinstance(value, dict):
            # The recorded run was asked for more than ours.
            more = ("EYE Opening Info", "Serdes Tuning Transmitter Info")
            return {key: shape(item) for key, item in value.items() if key not in more}
        return [shape(item) for item in value] if isinstance(value, list) else type(value)

    real = json.loads((recorded / "mlxlink" / name).read_text(encoding="utf-8"))
    ours = json.loads(tool("mlxlink", "-d", "0000:1a:00.0", "-m", "-c", *histogram, "--json").stdout)
    assert shape(ours) == shape(real)


def test_mlxlink_shows_faults(tool: Run, set_faults: SetFaults) -> None:
    set_faults(
        nics_down=["rail1"],
        nics_missing=["rail2"],
        nic_values={"rail3": {"mlxlink/Effective Physical BER": "1E-9", "mlxlink/Bin 15": 2}},
    )

    def output(address: str) -> Any:
        words = ["-m", "-c", "--rx_fec_histogram", "--show_histogram", "--json"]
        found: Any = json.loads(tool("mlxlink", "-d", address, *words).stdout)["result"]
        return found["output"]

    assert output("0000:3c:00.0")["Operational Info"]["State"] == "Polling"
    assert output("0000:5e:00.0")["Physical Counters and BER Info"]["Effective Physical BER"] == "1E-9"
    assert output("0000:5e:00.0")["Histogram of FEC Errors"]["Bin 15"] == {"values": ["[15]", "2"]}
    gone = tool("mlxlink", "-d", "0000:4d:00.0", "-m", "--json")
    assert (gone.returncode, gone.stdout) == (1, b"\x1b[31m \n\x1b[0m \n")
    assert gone.stderr == b'-E- Failed to open device: "0000:4d:00.0", No such file or directory\n'


def test_ipmitool_lists_sensors_in_the_columns_of_a_recorded_one(tool: Run, recorded: Path) -> None:
    def shape(text: str) -> set[str]:
        # Widths of the columns; the last one is free text. The recorded lines stand one blank further to the right.
        return {
            re.sub(r"\w", "x", re.sub(r" \| [^|]*$", "", line.removeprefix(" "))[17:24]) for line in text.splitlines()
        }

    real = (recorded / "ipmi" / "ipmitool-sdr-type-voltage.txt").read_text(encoding="utf-8")
    ours = tool("ipmitool", "sdr", "elist").stdout.decode()
    assert shape(ours) == shape(real)
    assert {len(line.split("|")) for line in ours.splitlines()} == {len(line.split("|")) for line in real.splitlines()}


def test_ipmitool_lists_events_in_the_columns_of_a_recorded_one(
    tool: Run, recorded: Path, set_faults: SetFaults
) -> None:
    line = "01/27/2015 | 11:41:08 | Memory | Correctable ECC | Asserted | CPU 0 DIMM 8"
    set_faults(bmc_log=[line])
    real = (recorded / "ipmi" / "ipmitool-sel-list-dimm-ce.txt").read_text(encoding="utf-8").splitlines()
    (theirs,) = [entry for entry in real if entry.endswith(line)]
    ours = tool("ipmitool", "sel", "elist").stdout.decode().splitlines()[-1]
    assert re.fullmatch(r" *[0-9a-f]+ \| .*", ours) and ours.split("|")[1:] == theirs.split("|")[1:]
    assert b"Entries          : 2\n" in tool("ipmitool", "sel", "info").stdout


def test_dmidecode_prints_the_system_as_a_recorded_one(tool: Run, recorded: Path) -> None:
    def fields(text: str) -> list[str]:
        _, _, system = text.partition("System Information\n")
        return [line.strip().partition(":")[0] for line in system.partition("\n\n")[0].splitlines()]

    real = (recorded / "dmidecode" / "dmidecode-xe9680-system.txt").read_text(encoding="utf-8")
    ours = tool("dmidecode", "-t", "0,1,2").stdout.decode()
    assert fields(ours) == fields(real)
    assert ours.splitlines()[:3] == real.splitlines()[:3]

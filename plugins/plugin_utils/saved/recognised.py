"""Which tool printed a text: by what only that tool prints, never by the name of a file.

The first tool of the table that knows a text is the one, so that the more specific stands before the more general. How
a probe or stress keeps an output that it collects itself (a heading for each part) is added here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType

from ansible_collections.muster.cluster.plugins.module_utils.formats import nvidia_smi_query
from ansible_collections.muster.cluster.plugins.module_utils.host import blocks
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding

from . import (
    array_state,
    dcgm_health,
    fio_report,
    gpu_burn_report,
    host_network_reports,
    infiniband_reports,
    journal_json,
    lustre_health,
    nccl_debug_log,
    nccl_tests_report,
    nvidia_smi_table,
    nvlink_error_counters,
    nvme_health_text,
    perftest_report,
    service_states,
    slurm_reasons,
    switch_counters,
)
from .saved_text import Piece

# A text is told by its beginning: a log may have tens of megabytes.
_HEAD = 2**18
DISCOVERY = "dcgmi discovery -l"
# Where a part lies whose output does not say it: in a domain that no host has.
NOWHERE = "ffff"

# The outputs of one probe, each with the command that a prompt says, as the probe keeps them.
Kept = Callable[[Sequence[Piece]], str]


@dataclass(frozen=True)
class Tool:
    """A tool by its name: ``probe`` is the probe or stress that reads it, ``findings`` judges it where none does."""

    name: str
    marks: Callable[[str], bool]
    probe: str = ""
    kept: Kept | None = None
    # Whether the probe asks it once for each part, so that several texts of it are one output.
    each_part: bool = False
    findings: Callable[[str, Expectations | None], list[Finding]] | None = None
    # Whether what it tells wants the command that was typed, as its text does not name what was done.
    with_command: bool = False


def tool_of(text: str) -> Tool | None:
    """Return the tool that printed a clean text, None for one that no tool is known by."""
    head = text[:_HEAD]
    return next((tool for tool in TOOLS if tool.marks(head)), None)


def tools_of(text: str) -> list[Tool]:
    """Return all tools that printed parts of a clean text, the most specific first: two may stand in one unparted."""
    head = text[:_HEAD]
    known: dict[str, Tool] = {}
    for tool in TOOLS:
        if (tool.probe or tool.name) not in known and tool.marks(head):
            known[tool.probe or tool.name] = tool
    found = list(known.values())
    return [tool for at, tool in enumerate(found) if not any((each.name, tool.name) in _HOLDS for each in found[:at])]


def output_of(tool: Tool, pieces: Sequence[Piece]) -> Output:
    """Return the texts of one probe's tool as the probe keeps them."""
    if tool.kept and not pieces[0].text.startswith("==> "):
        return Output(tool.kept(pieces))
    return Output("".join(piece.text for piece in pieces))


def _has(*patterns: str) -> Callable[[str], bool]:
    """Return what is true for a text in which all of these patterns are found."""
    compiled = [re.compile(pattern, re.MULTILINE) for pattern in patterns]
    return lambda text: all(pattern.search(text) for pattern in compiled)


def _any(*marks: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda text: any(mark(text) for mark in marks)


def _under(name: Callable[[int], str]) -> Kept:
    """Return what puts each text under a heading of its own, made of its number."""
    return lambda pieces: blocks.joined({name(at): Output(each.text) for at, each in enumerate(pieces)}).stdout


# NVIDIA/DCGM, dcgmi diag: the tests that each level adds (level 1 has those of the deployment alone).
_LEVELS = (
    (4, re.compile(r"memtest|pulse|\beud\b", re.IGNORECASE)),
    (3, re.compile(r"diagnostic\b(?! *\||\"? *:)|targeted|sm stress|nvbandwidth", re.IGNORECASE)),
    (2, re.compile(r"gpu memory|\"memory\"|\bpcie\b", re.IGNORECASE)),
)
_LEVEL = re.compile(r"\bdiag\b.*?(?:-r|--run)[ =]?([1-4])\b")


def _diagnosis(pieces: Sequence[Piece]) -> str:
    """Return the diagnostic and the list of GPUs under the command lines by which the stress tells them."""
    named: dict[str, Output] = {}
    for piece in pieces:
        if _LISTS_GPUS(piece.text):
            named[DISCOVERY] = Output(piece.text)
            continue
        typed = _LEVEL.search(piece.command)
        body = re.sub(r"DCGM (?:GPU )?Diagnostic|^.*\bSkip\b.*$", "", piece.text, flags=re.MULTILINE)
        level = typed.group(1) if typed else next((number for number, mark in _LEVELS if mark.search(body)), 1)
        named[f"dcgmi diag -r {level} -j"] = Output(piece.text)
    return blocks.joined(named).stdout


def list_of_gpus(pieces: Sequence[Piece]) -> str:
    """Return what ``dcgmi discovery -l`` would say of the GPUs of these counters, whose places are not known."""
    rows = [
        f"| {number} | Name: GPU |\n|  | PCI Bus ID: {NOWHERE}:{at:02x}:00.0 |\n|  | Device UUID: GPU-{at:08d} |\n"
        for at, number in enumerate(map(_gpu_number, pieces, range(len(pieces))))
    ]
    return f"{len(rows)} GPUs found.\n| GPU ID | Device Information |\n{''.join(rows)}"


def _gpu_number(piece: Piece, otherwise: int) -> int:
    typed = re.search(r"-g[ =]?(\d{1,3})\b", piece.command)
    return int(typed.group(1)) if typed else otherwise


def _nvlink_errors(pieces: Sequence[Piece]) -> str:
    listed = [piece for piece in pieces if _LISTS_GPUS(piece.text)]
    lists = {DISCOVERY: Output(listed[-1].text)} if listed else {}
    counters = [piece for piece in pieces if not _LISTS_GPUS(piece.text)]
    numbers = map(_gpu_number, counters, range(len(counters)))
    named = {
        f"dcgmi nvlink -e -g {number} -j": Output(each.text) for number, each in zip(numbers, counters, strict=True)
    }
    return blocks.joined({**lists, **named}).stdout


def _documents(pieces: Sequence[Piece]) -> str:
    """Return Redfish documents under the paths that they give themselves."""
    if len(pieces) == 1:
        return pieces[0].text
    paths = [re.search(r'"@odata\.id"\s*:\s*"([^"\n]+)"', piece.text) for piece in pieces]
    named = {
        path.group(1) if path else f"document {at}": Output(piece.text)
        for at, (path, piece) in enumerate(zip(paths, pieces, strict=True))
    }
    return blocks.joined(named).stdout


_LISTS_GPUS = _has(r"\b\d+ GPUs? found\.", r"^\| GPU ID +\|")
# A line of the kernel's in the forms of dmesg, journalctl, syslog and /dev/kmsg, or of a driver without any stamp.
_KERNEL_LINE = re.compile(
    r"(?:<\d{1,3}>|\d{1,8}:?\s*)?\[ *\+?\d+\.\d{4,6}\]|\[[A-Z][a-z]{2} ?\d{1,2} \d\d:\d\d\]|kernel: \S"
    r"|.{0,160}\bNVRM: Xid|\S+ nvidia-peermem "
    r"|\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}\]|\d+,\d+,\d+,"
    r"|(?:kern|user|daemon|syslog) *:\w+ *:|.{8,60}? kernel: \S|NVRM: |nvidia-nvswitch\d|knvlink|mlx5_core [0-9a-f]{4}:"
    r"|nvme nvme\d+: |pcieport |EDAC |mce: |\{\d+\}\[Hardware Error\]|(?:Oops|Panic)#\d+ Part\d+"
    r"|BUG: (?:kernel |unable to handle |soft lockup |Bad page )|Oops: [0-9a-f]{4} |Kernel panic - not syncing"
    r"|rcu: INFO: |watchdog: BUG: |INFO: task .{1,80} blocked for more than "
)
_SYSLOG_LINE = re.compile(r"(?:<\d{1,3}>)?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ \S+: ")
_ISO_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^ ]* \S+ (?:\S+: |\[)")


def _mostly(*lines: re.Pattern[str]) -> Callable[[str], bool]:
    """Return what is true for a text half of whose lines, or more, are such ones."""

    def marks(text: str) -> bool:
        sample = [line for line in text[:_HEAD].split("\n") if line.strip()][:400]
        found = sum(any(line.match(each.lstrip()) for line in lines) for each in sample)
        return 0 < len(sample) <= 2 * found

    return marks


def _files(path: str) -> Callable[[str], bool]:
    """Return what is true for files of sysfs or proc under their headings."""
    return _has(rf"^==> {path}")


_JSON = r"\A\s*[{\[]"
_RULER_TABLE = r"^\|[ -]*(?:Diagnostic +\| Result|----- +(?:Deployment|Metadata|Hardware|Integration|Stress) )"
_RESULT = r"^\| (?:Software|GPU Memory|Targeted \w+|Memtest|PCIe|[A-Z][\w ]+?) +\| +(?:Pass|Fail|Skip|Warn)\b"
# A counter of a link has a name, and so a second colon.
_LINKS_OF_GPU = r"^[ \t]+Link \d+: [^:\n]*$|^N[vV][lL]ink queries|inActive"
_REPORT_OF_GPU = _any(
    _has(r"NVSMI LOG"),
    _has(r"^GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d"),
    _has(r"Unable to determine the (?:device handle for|PCI bus id)"),
    _has(r"^ +(?:ECC Errors|Remapped Rows|Retired Pages|ECC Mode|Clocks (?:Event|Throttle) Reasons)\b"),
)
_DIAGNOSIS = _any(_has(_JSON, r'"DCGM (?:GPU )?Diagnostic"'), _has(_RULER_TABLE), _has(_RESULT))
_COPIES = _any(
    _has(_JSON, r'"nvbandwidth"'),
    _has(r"^Running \w+_(?:memcpy|latency|copy|local)\w*\."),
    _has(r"^nvbandwidth Version:"),
    _files("nvbandwidth "),
)
_MLXLINK = _any(
    _has(_JSON, r'"result"', r'"(?:Operational Info|Module Info|Histogram of FEC Errors|EYE Opening[^"]*)"'),
    _has(r"^(?:Operational Info|Physical Counters and BER Info|Supported Info|Module Info)$", r"^-{5,}$"),
)
_MLXLINK_OF_RAILS = _any(
    _has(r"^==> rail\d", r'"(?:Operational|Module) Info"'), _has(r"^==> rail\d+ <==\n+Operational")
)
_SMARTCTL = _any(
    _has(_JSON, r'"(?:smartctl|nvme_smart_health_information_log)"'),
    _has(
        r"^smartctl \d+\.\d|^=== START OF (?:INFORMATION|(?:READ )?SMART DATA) SECTION ==="
        r"|^SMART/Health Information \(NVMe Log 0x02|^Critical Warning: +0x"
    ),
)
_REDFISH = _any(_has(r'"@odata\.(?:id|type)"'), _has(r"^==> /redfish/"))
_SLOTS = r"^(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] [A-Z0-9].*: "
_IBSTAT = _any(
    _has(r"^CA '[\w.-]+'$"),
    _has(r"^Infiniband device '"),
    _has(r"^==> \S*/ports/\d+/(?:counters/\w+|lid|rate|state|phys_state|link_layer|cap_mask)"),
)
_EVENT = r"^ *[0-9a-f]{1,4} \| +(?:\d\d/\d\d/\d{2,4}|Pre-Init[^|]*) +\||^SEL has no entries|^[ \t]*SEL Record ID +:"
_SENSOR = (
    r"^[^|\n]+\|[^|\n]+\| *(?:ok|ns|nc|cr|nr|lnc|lcr|lnr|unc|ucr|unr|us) *(?:\||$)"
    # ipmitool sensor: name, reading, unit, state, six limits.
    r"|^[^|\n]+(?:\|[^|\n]*){2}\| *(?:ok|na|[lu]?(?:nc|cr|nr)|0x[0-9a-f]{4}) *(?:\|[^|\n]*){6}$"
)
_LSCPU = _any(_has(r"^Architecture: "), _has(_JSON, r'"lscpu"'))
_TRACKING = _any(_has(r"^Reference ID +: "), _has(r"\A[0-9A-F]{8},(?:[^,\n]*,){12}[^,\n]*$"))
_FABRIC_STAMP = r"\[[A-Z][a-z]{2} [ \d]\d \d{4} \d\d:\d\d:\d\d\]"
_FABRIC_MANAGER = _any(
    _mostly(re.compile(_FABRIC_STAMP + r" \[\w+\]")),
    _has(rf"^{_FABRIC_STAMP} \[(?:INFO|ERROR|WARN\w*)\]"),
    _has(r"^[^\n]* nv(?:idia)?-fabricmanager[\w.-]*\[\d+\]: "),
)
_STREAM, _RANDLIST = r"^stress-ng: .*\bstream\b", r"^stress-ng: .*\brandlist\b"
_PROCESSORS = (r"^processor\s*: \d+$", r"^(?:microcode|flags|CPU implementer)\s*: ")
_GPU_STRESS = _has(r'\A\{.*"event": "start"', r'"multiprocessors"|"tflops"|"event": "end"')


def _judged_by(module: ModuleType) -> Tool:
    return Tool(module.NAME, module.recognises, findings=module.findings)


def _rail(at: int) -> str:
    return f"rail{at}"


def _drive(at: int) -> str:
    return f"nvme {at + 1}"


def _messages(pieces: Sequence[Piece]) -> str:
    return "".join(journal_json.short_lines(piece.text) for piece in pieces)


def _health_of_drives(pieces: Sequence[Piece]) -> str:
    """Return each drive's report as ``smartctl -j`` prints it."""
    reports = [each for piece in pieces for each in nvme_health_text.reports_in(piece.text)]
    return blocks.joined({_drive(at): Output(each) for at, each in enumerate(reports)}).stdout


def _copies(pieces: Sequence[Piece]) -> str:
    return blocks.joined({"nvbandwidth -j": Output("".join(each.text for each in pieces))}).stdout


# Tools in whose own texts what the second is known by stands by nature: our probes ask several things at once.
_HOLDS = {
    (nccl_tests_report.NAME, nccl_debug_log.NAME),
    ("the fabric manager's log", "the kernel's log"),
    ("the fabric manager's log", "a system log"),
    ("dcgmi diag", "dcgmi discovery"),
    ("dcgmi nvlink -e", "dcgmi discovery"),
    ("stress-ng", "stress-ng"),
    ("InfiniBand state", "EDAC counters"),
    ("AER counters", "NVMe drives"),
    (host_network_reports.NAME, "network interfaces"),
    (host_network_reports.NAME, "RoCE GIDs"),
}
# One line for each form that a tool's text has: its name, what the text is known by, the probe or stress that reads it.
# The first that fits wins. So stand a log before what its lines quote, XML and JSON before tables, a tool's own words
# before files under headings (``==> /sys/...``), and last what is a log by some of its lines alone. Our own programs'
# outputs have keys that nobody else uses.
TOOLS: tuple[Tool, ...] = (
    Tool("journalctl -o json", _mostly(journal_json.MESSAGE), "kernel_log", _messages),
    Tool("the kernel's log", _mostly(_KERNEL_LINE), "kernel_log"),
    Tool("nvidia-smi -q -x", _has(r"<!DOCTYPE nvidia_smi_log|<nvidia_smi_log>"), "nvidia_smi"),
    _judged_by(nvidia_smi_table),
    _judged_by(gpu_burn_report),
    Tool("nvidia-smi --query-gpu", nvidia_smi_query.recognises, "nvidia_smi"),
    Tool("dcgmi nvlink -s", _has(r"NvLink Link Status", r"^ *gpuId \d+:"), "nvlink"),
    _judged_by(nvlink_error_counters),
    Tool("nvidia-smi nvlink", _has(r"^GPU \d+: .*\(UUID: ", _LINKS_OF_GPU), "nvlink"),
    Tool("nvidia-smi topo", _has(r"^[ \t]*GPU0[ \t].*", r"CPU Affinity|^[ \t]*GPU0[ \t]+X[ \t]"), "topology"),
    Tool("nvidia-smi -q", _REPORT_OF_GPU, "nvidia_smi"),
    _judged_by(dcgm_health),
    Tool("dcgmi diag", _DIAGNOSIS, "dcgm_diag", _diagnosis),
    Tool("dcgmi nvlink -e", _has(_JSON, r'"CRC (?:FLIT|Data) Error"'), "dcgmi_nvlink", _nvlink_errors, each_part=True),
    Tool("dcgmi nvlink -e", _files(r"dcgmi nvlink -e"), "dcgmi_nvlink"),
    Tool("dcgmi diag", _files(r"dcgmi diag"), "dcgm_diag"),
    Tool("dcgmi discovery", _LISTS_GPUS),
    Tool("nvbandwidth", _COPIES, "nvbandwidth", _copies),
    replace(_judged_by(nccl_tests_report), with_command=True),
    _judged_by(nccl_debug_log),
    _judged_by(perftest_report),
    _judged_by(infiniband_reports),
    Tool("mlxlink", _MLXLINK, "mlxlink", _under(_rail), each_part=True),
    Tool("mlxlink", _MLXLINK_OF_RAILS, "mlxlink"),
    Tool("mlxconfig", _has(r"^==> rail\d", r"^Device type:"), "nic_config"),
    Tool("mlxconfig", _has(r"^Device type: ", r"^Configurations: "), "nic_config", _under(_rail), each_part=True),
    Tool("smartctl of array drives", _has(r"^==> nvme ", r'"percentage_used"', r'"svn_revision"'), "smartctl"),
    Tool("fio", _has(r"^==> nvme ", r'"fio version"'), "nvme_read"),
    Tool("smartctl", _has(r"^==> nvme ", r'"smartctl"'), "smartctl"),
    Tool("fio", _has(_JSON, r'"fio version"'), "nvme_read", _under(_drive), each_part=True),
    _judged_by(fio_report),
    Tool("smartctl", _SMARTCTL, "smartctl", _health_of_drives, each_part=True),
    Tool("nvme smart-log", nvme_health_text.is_log_of_nvme_cli, "smartctl", _health_of_drives, each_part=True),
    Tool("Redfish", _REDFISH, "redfish", _documents, each_part=True),
    Tool("lspci", _has(_SLOTS), "lspci"),
    Tool("InfiniBand state", _IBSTAT, "infiniband"),
    Tool("ipmitool sel", _has(_EVENT), "ipmi_sel"),
    Tool("ipmitool sdr", _has(_SENSOR), "ipmi_sdr"),
    Tool("dmidecode", _has(r"^Handle 0x\w+, DMI type (?:16|17),"), "dmidecode_memory"),
    Tool("dmidecode", _has(r"^Handle 0x\w+, DMI type [012],"), "dmidecode"),
    Tool("lscpu", _LSCPU, "lscpu"),
    Tool("chronyc tracking", _TRACKING, "chrony"),
    Tool("the fabric manager's log", _FABRIC_MANAGER, "fabric_manager_log"),
    Tool("stress-ng", _has(r"^==> stress-ng <=="), "cpu_stress"),
    Tool("stress-ng", _has(r"^==> numa \d+ <==", _STREAM), "memory_bandwidth"),
    Tool("stress-ng", _has(r"^==> numa \d+ <==", _RANDLIST), "memory_latency"),
    Tool("stress-ng", _has(r"^stress-ng: \w+: +\["), "cpu_stress", _under(lambda _: "stress-ng")),
    _judged_by(service_states),
    _judged_by(slurm_reasons),
    _judged_by(array_state),
    _judged_by(lustre_health),
    _judged_by(switch_counters),
    _judged_by(host_network_reports),
    Tool("muster gpu-stress", _GPU_STRESS, "gpu_stress"),
    Tool("muster gpu-telemetry", _has(_JSON, r'"files_trouble"'), "gpu_telemetry"),
    Tool("muster nic-load", _has(_JSON, r'"lasted"', r'"rails"'), "nic_load"),
    Tool("NVML", _has(_JSON, r'"ecc_uncorrected"', r'"remap_pending"'), "nvml"),
    # Files of sysfs and proc under their paths.
    Tool("AER counters", _files(r"\S*/aer_dev_"), "pcie_aer"),
    Tool("EDAC counters", _files(r"\S*/edac/"), "edac"),
    Tool("network interfaces", _files(r"\S*/sys/class/net/"), "net_devices"),
    Tool("NVMe drives", _files(r"\S*/class/nvme"), "nvme_sysfs"),
    Tool("NUMA nodes", _files(r"\S*/system/node/"), "numa"),
    Tool("scaling governors", _files(r"\S*/cpufreq/"), "cpufreq"),
    Tool("huge pages", _files(r"\S*hugepages"), "hugepages"),
    Tool("GPUs in sysfs", _files(r"\S*/proc/driver/nvidia/"), "gpu_sysfs"),
    Tool("/proc/cpuinfo", _has(*_PROCESSORS), "cpuinfo"),
    Tool("/proc/meminfo", _has(r"^MemTotal: +\d+ kB$", r"^MemFree: +\d+ kB$"), "meminfo"),
    Tool("df", _has(r"^Filesystem .*Mounted on$"), "disk_free"),
    Tool("ipmitool mc info", _has(r"^Firmware Revision +: ", r"^Device ID +: "), "ipmi_mc"),
    Tool("ipmitool lan print", _has(r"^IP Address Source +: "), "ipmi_lan"),
    Tool("smpquery", _files(r"\S+ nodedesc"), "infiniband_neighbours"),
    Tool("NIC counters", _files(r"before /sys/class/"), "nic_counters"),
    Tool("RoCE GIDs", _files(r"\S*/ports/\d+/gids/"), "roce_gids"),
    Tool("RDMA device names", _has(r"\A/sys/bus/pci/devices/\S+/(?:infiniband|net)/"), "rail_names"),
    Tool("nvidia-imex-ctl", _has(r"^==> domain <==", r"^IMEX version is"), "imex"),
    Tool("the fabric manager's service", _has(r"^==> service <==", r"^Fabric Manager version is"), "fabric_manager"),
    Tool("lldpctl", _has(r'\A\s*\{\s*"lldp"\s*:'), "lldp"),
    Tool("a system log", _mostly(_SYSLOG_LINE, _ISO_LINE), "kernel_log"),
    Tool("the kernel's log", lambda text: any(_KERNEL_LINE.match(line) for line in text.split("\n")), "kernel_log"),
)


def tools_by_probe() -> Mapping[str, Iterable[str]]:
    """Return, by probe or stress, the names of the tools whose texts it reads."""
    found: dict[str, list[str]] = {}
    for tool in TOOLS:
        if tool.probe:
            found.setdefault(tool.probe, []).append(tool.name)
    return found

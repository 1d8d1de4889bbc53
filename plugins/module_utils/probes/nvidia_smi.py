"""``nvidia-smi -q -x``: the GPUs the driver can talk to, and all it says of each.

A person's saved ``nvidia-smi -q`` (text), or an excerpt of it (``-q -d ECC``), is read as well (see nvidia_smi_report),
and so is ``nvidia-smi --query-gpu=... --format=csv`` (see nvidia_smi_query).
A field that the driver does not have or could not read (``N/A``, ``ERR!``, ``[Unknown Error]``) is None.

A lost GPU shows in one of three ways, as nvidia-smi 535, 550 and 580 print it on a stand-in for NVML. It is listed, and
its fields say ``GPU is lost``: nothing else of it is believed. Or it gives no handle: 535 and 550 name it and stop
(exit status 15), 580 names it on standard error, describes the others and ends with 0. Or it gives not even its
address: then one is lost, and nobody says which.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..formats.nvidia_smi_query import read_query, recognises
from ..formats.nvidia_smi_report import INFOROM_FIELD, LOST, RESET, Node, known, read
from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations, pci_address

NAME = "nvidia_smi"
ARGV = ("nvidia-smi", "-q", "-x")
# Without the persistence daemon the driver initialises every GPU first: tens of seconds on eight of them.
TIMEOUT_SECONDS = 60.0

# Why a GPU runs below its highest clock: our name, its name in XML (with either prefix), its place in the text.
THROTTLE_REASONS = {
    "idle": ("gpu_idle", "idle"),
    "sw_power_cap": ("sw_power_cap", "sw_power_cap"),
    "hw_slowdown": ("hw_slowdown", "hw_slowdown"),
    "hw_thermal_slowdown": ("hw_thermal_slowdown", "hw_slowdown/hw_thermal_slowdown"),
    "hw_power_brake_slowdown": ("hw_power_brake_slowdown", "hw_slowdown/hw_power_brake_slowdown"),
    "sw_thermal_slowdown": ("sw_thermal_slowdown", "sw_thermal_slowdown"),
}
# Each below its heading, or below one that was lost.
_RESET_STATUS = tuple((f"gpu_reset_status/{name}", name) for name in ("reset_required", "drain_and_reset_recommended"))
# Flags that a driver may lack: what none of them says is not asked for.
_YES_OR_NO = (
    "ecc_errors/aggregate/sram_threshold_exceeded",
    "ecc_errors/channel_repair_pending",
    "ecc_errors/tpc_repair_pending",
    "ecc_errors/unrepairable_memory",
)
_HEALTH = ("summary", "bandwidth", "route_recovery_in_progress", "route_unhealthy", "access_timeout_recovery")
_UUID = re.compile(r"([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})")
# Driver 615 says beside it that a list of cliques by kind shall be read in its place.
# "96.00.A5.00.01"; an error that nvidia-smi prints in its place is no version.
_VBIOS = re.compile(r"[0-9A-Fa-f]{2}(?:\.[0-9A-Fa-f]{2})+")
_CLIQUE = re.compile(r"([0-9]{1,10})(?: \[Deprecated; see field Cliques\])?")

# "Unable to determine the device handle for GPU0000:91:00.0: GPU is lost.  Reboot the system to recover this GPU"
# Older drivers put a blank before the address, newer ones the index: "GPU1: 0000:34:00.0: Unknown Error".
_NO_HANDLE = re.compile(
    r"Unable to determine the device handle for (?:GPU|gpu) ?(?:\d{1,2}: )?([0-9a-fA-F:.]+?):? (.*)"
)
# "WARNING: infoROM is corrupted at gpu 0000:65:00.0"; nvidia-smi(1) gives it an exit status of its own as well.
_WARNING = re.compile(r"WARNING: (.*?)(?: at (?:gpu|GPU) ?([0-9a-fA-F:.]+?))?\.?\s*")
INFOROM, _INFOROM_STATUS = "infoROM is corrupted", 14
# Such lines, and the blank ones and the dot that may follow them.
_ASIDE = re.compile(r"Unable to determine the device handle for .*|WARNING: .*|\s*\.?\s*")
# "A GPU reset must occur before this GPU can be used again.", a blank line and a dot: nvidia-smi 535 to 580.
_RESET = re.compile(r"GPU reset must occur|requires reset", re.IGNORECASE)
# In the place of a description, and with it the exit status that stands for a lost GPU.
_NO_ADDRESS, _LOST_STATUS = "Unable to determine the PCI bus id for the target device", 15


@dataclass(frozen=True)
class Pcie:
    """The PCIe link: generations and lanes, and packets sent again since the last reset."""

    generation: int | None = None
    # The highest that card and slot allow together, and the card alone.
    generation_max: int | None = None
    generation_max_device: int | None = None
    width: int | None = None
    width_max: int | None = None
    replays: int | None = None


@dataclass(frozen=True)
class Errors:
    """Memory errors of one life: since the driver was loaded (volatile), or ever (aggregate)."""

    sram_correctable: int | None = None
    sram_uncorrectable: int | None = None
    dram_correctable: int | None = None
    dram_uncorrectable: int | None = None
    # Of both and of what is neither, where a sum is told.
    uncorrectable: int | None = None


@dataclass(frozen=True)
class RemappedRows:
    """Rows of HBM replaced by spare ones (Ampere and later); ``banks_without_spare`` are out of spare rows."""

    correctable: int | None = None
    uncorrectable: int | None = None
    pending: bool | None = None
    failure: bool | None = None
    banks_without_spare: int | None = None


@dataclass(frozen=True)
class RetiredPages:
    """Memory pages no longer used (GPUs before Ampere)."""

    single_bit: int | None = None
    double_bit: int | None = None
    pending: bool | None = None


@dataclass(frozen=True)
class Heat:
    """How hot a GPU is, and how hot its driver says it may be, in degrees C.

    ``left`` is what is left to the limit (``T.Limit``) and ``left_least`` what has to be, where a driver tells that.
    """

    gpu: float | None = None
    gpu_most: float | None = None
    left: float | None = None
    left_least: float | None = None
    memory: float | None = None
    memory_most: float | None = None


@dataclass(frozen=True)
class Process:
    """A process on the GPU; ``kind`` is C (compute), G (graphics) or both."""

    pid: str
    kind: str | None
    name: str | None


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi describes it; a field it does not give is None. Memory in MiB, power in watts."""

    address: str
    model: str | None = None
    memory_mib: int | None = None
    serial: str | None = None
    uuid: str | None = None
    vbios: str | None = None
    module_id: str | None = None
    memory_used_mib: int | None = None
    # GPUs of one board may have one serial number.
    multi_gpu_board: bool | None = None
    architecture: str | None = None
    gsp_firmware: str | None = None
    bar1_mib: int | None = None
    compute_mode: str | None = None
    # Of the GPU's processors: highest, highest that a user may set, what is set, and what it was set to at first. MHz.
    clock_max_mhz: int | None = None
    clock_max_boost_mhz: int | None = None
    clock_set_mhz: int | None = None
    clock_default_mhz: int | None = None
    persistence: bool | None = None
    mig: bool | None = None
    mig_pending: bool | None = None
    ecc: bool | None = None
    ecc_pending: bool | None = None
    performance_state: str | None = None
    utilisation_percent: int | None = None
    heat: Heat = Heat()
    # Sensor (temperature, power draw, a clock, ...) -> the error that the driver says in the place of a number.
    sensor_errors: Mapping[str, str] = field(default_factory=dict)
    power_watts: float | None = None
    power_default_watts: float | None = None
    power_enforced_watts: float | None = None
    # "None", "Reset", "Reboot", "Drain P2P", "Drain and Reset".
    recovery_action: str | None = None
    pcie: Pcie = Pcie()
    volatile: Errors = Errors()
    aggregate: Errors = Errors()
    sram_threshold_exceeded: bool | None = None
    # Told since driver 580.
    repair_pending: bool | None = None
    memory_unrepairable: bool | None = None
    # Fields not every driver has, and that say neither Yes nor No.
    not_understood: tuple[str, ...] = ()
    remapped_rows: RemappedRows = RemappedRows()
    retired_pages: RetiredPages = RetiredPages()
    # Reason (THROTTLE_REASONS) -> whether it holds now.
    throttle: Mapping[str, bool | None] = field(default_factory=dict)
    fabric_state: str | None = None
    fabric_status: str | None = None
    # The NVLink domain: all zero and 0 where the NVSwitches are the host's own.
    cluster_uuid: str | None = None
    clique_id: int | None = None
    # What the driver says of the fabric's health, as far as it says anything.
    fabric_health: Mapping[str, str] = field(default_factory=dict)
    processes: tuple[Process, ...] | None = None


@dataclass(frozen=True)
class Gpus:
    """The GPUs of the host that can be described.

    ``lost`` are the addresses of those that the driver cannot reach, ``nameless`` counts those of which it gives no
    address either. ``stopped`` says that nvidia-smi ended early: a GPU that is not listed may well be there.
    ``warnings`` are its lines of that name, each with the address that it names (None: none).
    """

    driver: str | None
    gpus: tuple[Gpu, ...]
    lost: tuple[str, ...] = ()
    nameless: int = 0
    stopped: bool = False
    warnings: tuple[tuple[str | None, str], ...] = ()

    @property
    def whole(self) -> bool:
        """Return whether every GPU that the driver knows is described."""
        return not (self.lost or self.nameless or self.stopped)


def collect(host: Host, expect: Expectations) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> Gpus:
    """Return the GPUs; raises Unreadable when the text neither describes all of them nor names one that is lost."""
    report, beside = _parted(output.stdout)
    beside += output.stderr.split("\n")
    warnings = _warnings(report, beside, output.rc)
    silent = _without_handle(beside)
    # Of one that only has to be reset nothing else is known.
    waiting = tuple(Gpu(address, recovery_action="Reset") for address, reset in silent.items() if reset)
    lost = {address for address, reset in silent.items() if not reset}
    try:
        if output.rc not in (_LOST_STATUS, _INFOROM_STATUS):
            require_success(output)
        host, nodes = read_query(report) if recognises(report) else read(report)
        nameless = _nameless(report, host)
        if not nameless and output.rc != _INFOROM_STATUS:
            require_success(output)
        described = [(_gpu(node), node.says(LOST)) for node in nodes]
    except Unreadable:
        if not silent:
            raise
        return Gpus(None, waiting, tuple(sorted(lost)), stopped=True, warnings=warnings)
    lost |= {gpu.address for gpu, says_lost in described if says_lost}
    gpus = [gpu for gpu, _ in described if gpu.address not in silent]
    addresses = [gpu.address for gpu, _ in described]
    if len(set(addresses)) != len(addresses):
        raise Unreadable("describes one PCI address twice")
    count, attached = len({*addresses, *silent}) + nameless, host.value("attached_gpus")
    seen = tuple(gpu for gpu in (*gpus, *waiting) if gpu.address not in lost)
    if attached != str(count):
        if lost:
            return Gpus(None, waiting, tuple(sorted(lost)), stopped=True, warnings=warnings)
        # Of a saved output the other half may be gone: there nvidia-smi 580 names one that is lost.
        why = f"says {attached or 'nothing'} of attached GPUs and describes {count}, expected the same"
        raise Unreadable(f"{why} (see its standard error)", Gpus(None, seen, (), stopped=True, warnings=warnings))
    corrupted = ((pci_address(node.text or ""), INFOROM) for node in nodes if node.says(INFOROM_FIELD))
    warnings = tuple(dict.fromkeys((*warnings, *corrupted)))
    return Gpus(host.value("driver_version"), seen, tuple(sorted(lost)), nameless, warnings=warnings)


def _warnings(report: str, beside: Iterable[str], status: int | None) -> tuple[tuple[str | None, str], ...]:
    """Return the warnings that stand beside the report, or at the margin of a text."""
    lines = [*beside, *([] if report.startswith("<") else report.split("\n"))]
    found = [(pci_address(match.group(2) or ""), match.group(1)) for match in map(_WARNING.fullmatch, lines) if match]
    if status == _INFOROM_STATUS and not any(text == INFOROM for _, text in found):
        found.append((None, INFOROM))
    return tuple(dict.fromkeys(found))


def _parted(text: str) -> tuple[str, list[str]]:
    """Return the report, and the lines about GPUs out of reach and the warnings that stand before and behind it.

    Within it such a line may be of a process' name, which a user gives and which may have several lines.
    """
    lines = text.split("\n")
    report = [at for at, line in enumerate(lines) if not _ASIDE.fullmatch(line)]
    if not report:
        return "", lines
    first, end = report[0], report[-1] + 1
    # A last line without its end stays without.
    return "\n".join(lines[first:end]) + "\n" * (end < len(lines)), lines[:first] + lines[end:]


def _nameless(report: str, host: Node) -> int:
    """Return how many GPUs the report calls lost without their addresses."""
    if report.startswith("<"):
        return sum((node.text or "").startswith(_NO_ADDRESS) for node in host.all("error_string"))
    return sum(line.startswith(_NO_ADDRESS) for line in report.split("\n"))


def _without_handle(lines: Iterable[str]) -> dict[str, bool]:
    """Return the GPUs that a line calls out of reach, and whether it says that a reset brings them back."""
    found: dict[str, bool] = {}
    for match in filter(None, map(_NO_HANDLE.fullmatch, lines)):
        address = pci_address(match.group(1).rstrip(":"))
        if address:
            found[address] = found.get(address, True) and bool(_RESET.search(match.group(2)))
    return found


def _gpu(node: Node) -> Gpu:
    address = pci_address(node.text or "")
    if address is None:
        raise Unreadable(f"a GPU has the PCI address {node.text!r}, expected a form such as 00000000:1B:00.0")
    return Gpu(
        address=address,
        model=node.value("product_name"),
        memory_mib=node.count("fb_memory_usage/total", unit="MiB"),
        serial=_identity(node.value("serial", "serial_number")),
        uuid=_identity(node.value("uuid", "gpu_uuid")),
        vbios=_vbios(node.value("vbios_version")),
        multi_gpu_board=_yes(node, "multigpu_board"),
        architecture=node.value("product_architecture"),
        gsp_firmware=node.value("gsp_firmware_version"),
        bar1_mib=node.count("bar1_memory_usage/total", unit="MiB"),
        compute_mode=node.value("compute_mode"),
        clock_max_mhz=_clock(node, "max_clocks/sm_clock", "max_clocks/sm"),
        clock_max_boost_mhz=_clock(
            node, "max_customer_boost_clocks/graphics_clock", "max_customer_boost_clocks/graphics"
        ),
        clock_set_mhz=_clock(node, "applications_clocks/graphics_clock", "applications_clocks/graphics"),
        clock_default_mhz=_clock(
            node, "default_applications_clocks/graphics_clock", "default_applications_clocks/graphics"
        ),
        # gpu_module_id up to driver 550, platformInfo/module_id since 570 (nvidia-smi 535, 550 and 580; recorded 570).
        module_id=node.value("platforminfo/module_id", "platform_info/module_id", "gpu_module_id", "module_id"),
        memory_used_mib=node.count("fb_memory_usage/used", unit="MiB"),
        persistence=_enabled(node, "persistence_mode"),
        mig=_enabled(node, "mig_mode/current_mig", "mig_mode/current"),
        mig_pending=_enabled(node, "mig_mode/pending_mig", "mig_mode/pending"),
        ecc=_enabled(node, "ecc_mode/current_ecc", "ecc_mode/current"),
        ecc_pending=_enabled(node, "ecc_mode/pending_ecc", "ecc_mode/pending"),
        performance_state=node.value("performance_state"),
        utilisation_percent=node.count("utilization/gpu_util", "utilization/gpu", unit="%"),
        heat=_heat(node),
        sensor_errors=_sensor_errors(node),
        power_watts=node.number("W", *_DRAWS),
        power_default_watts=_power(node, "default_power_limit"),
        # Drivers before 530 tell what was asked for (power_limit) and what holds (enforced_power_limit).
        power_enforced_watts=_power(node, "current_power_limit", "enforced_power_limit"),
        recovery_action=_recovery_action(node),
        pcie=_pcie(node),
        volatile=_errors(node, "ecc_errors/volatile/"),
        aggregate=_errors(node, "ecc_errors/aggregate/"),
        sram_threshold_exceeded=_yes(node, "ecc_errors/aggregate/sram_threshold_exceeded"),
        repair_pending=_either(
            _yes(node, "ecc_errors/channel_repair_pending"), _yes(node, "ecc_errors/tpc_repair_pending")
        ),
        memory_unrepairable=_yes(node, "ecc_errors/unrepairable_memory"),
        not_understood=tuple(
            path.rpartition("/")[2].replace("_", " ")
            for path in _YES_OR_NO
            if node.value(path) is not None and _yes(node, path) is None
        ),
        remapped_rows=_remapped(node),
        retired_pages=RetiredPages(
            single_bit=node.count(
                "retired_pages/multiple_single_bit_retirement/retired_count", "retired_pages/single_bit_ecc"
            ),
            double_bit=node.count("retired_pages/double_bit_retirement/retired_count", "retired_pages/double_bit_ecc"),
            pending=_yes(
                node,
                "retired_pages/pending_blacklist",
                "retired_pages/pending_retirement",
                "retired_pages/pending_page_blacklist",
                "retired_pages/pending",
            ),
        ),
        throttle={reason: _throttled(node, *names) for reason, names in THROTTLE_REASONS.items()},
        fabric_state=node.value("fabric/state"),
        fabric_status=node.value("fabric/status"),
        cluster_uuid=_matched(_UUID, node.value("fabric/clusteruuid")),
        clique_id=_clique_id(node),
        fabric_health=_fabric_health(node),
        processes=_processes(node),
    )


def _recovery_action(node: Node) -> str | None:
    """Return what the driver asks for, whichever way it says so.

    The action is named since driver 570; 535 and 550 say whether the GPU has to be reset, at once or when it is idle
    (nvidia-smi 535, 550 and 580 themselves; recorded 570 and 590). Any driver may say so in the place of a value.
    """
    named = node.value("gpu_recovery_action")
    if named is not None and named.lower() != "none":
        return named
    required, drain = (_yes(node, *paths) for paths in _RESET_STATUS)
    if required or node.says(RESET):
        return "Reset"
    if drain:
        return "Drain and Reset"
    # Of an answer that nobody knows it is not known what it asks for.
    if any((node.value(*paths) or node.error(*paths)) and _yes(node, *paths) is None for paths in _RESET_STATUS):
        return None
    return "None" if required is False else named


def _enabled(node: Node, *paths: str) -> bool | None:
    return node.flag("enabled", "disabled", *paths)


def _yes(node: Node, *paths: str) -> bool | None:
    return node.flag("yes", "no", *paths)


def _either(first: bool | None, second: bool | None) -> bool | None:
    known_ones = {first, second} - {None}
    return any(known_ones) if known_ones else None


def _power(node: Node, *names: str) -> float | None:
    return node.number("W", *_power_paths(*names))


def _power_paths(*names: str) -> list[str]:
    # Renamed in driver 535, when the module's own readings came to stand beside the GPU's.
    return [f"{section}/{name}" for section in ("gpu_power_readings", "power_readings") for name in names]


_DRAWS = _power_paths("instant_power_draw", "instantaneous_power_draw", "power_draw", "average_power_draw")
# In XML, in text.
_TEMPERATURE = ("temperature/gpu_temp", "temperature/gpu_current_temp")
_MEMORY_TEMPERATURE = ("temperature/memory_temp", "temperature/memory_current_temp")
_CLOCKS = {
    "clock": ("clocks/sm_clock", "clocks/sm"),
    "graphics clock": ("clocks/graphics_clock", "clocks/graphics"),
    "memory clock": ("clocks/mem_clock", "clocks/memory"),
}


def _sensor_errors(node: Node) -> dict[str, str]:
    sensors = {"temperature": _TEMPERATURE, "memory temperature": _MEMORY_TEMPERATURE, "power draw": _DRAWS}
    sensors |= {"utilisation": ("utilization/gpu_util", "utilization/gpu", "gpu_util"), **_CLOCKS}
    errors = {name: node.error(*paths) for name, paths in sensors.items()}
    return {name: error for name, error in errors.items() if error is not None}


def _heat(node: Node) -> Heat:
    at = "temperature/"
    return Heat(
        gpu=_celsius(node, *_TEMPERATURE),
        gpu_most=node.number("C", at + "gpu_temp_max_gpu_threshold", at + "gpu_max_operating_temp"),
        left=node.number("C", at + "gpu_temp_tlimit", at + "gpu_tlimit_temp"),
        left_least=node.number("C", at + "gpu_temp_max_gpu_tlimit_threshold", at + "gpu_max_operating_tlimit_temp"),
        memory=_celsius(node, *_MEMORY_TEMPERATURE),
        memory_most=node.number("C", at + "gpu_temp_max_mem_threshold", at + "memory_max_operating_temp"),
    )


def _celsius(node: Node, *paths: str) -> float | None:
    """Return a temperature, None for one that nothing can have."""
    celsius = node.number("C", *paths)
    return celsius if celsius is not None and celsius > -273.15 else None


def _clock(node: Node, *paths: str) -> int | None:
    return node.count(*paths, unit="MHz")


def _pcie(node: Node) -> Pcie:
    xml, text = "pci/pci_gpu_link_info/", "pci/gpu_link_info/"
    return Pcie(
        generation=node.count(xml + "pcie_gen/current_link_gen", text + "pcie_generation/current"),
        generation_max=node.count(xml + "pcie_gen/max_link_gen", text + "pcie_generation/max"),
        generation_max_device=node.count(xml + "pcie_gen/max_device_link_gen", text + "pcie_generation/device_max"),
        width=node.count(xml + "link_widths/current_link_width", text + "link_width/current", unit="x"),
        width_max=node.count(xml + "link_widths/max_link_width", text + "link_width/max", unit="x"),
        replays=node.count("pci/replay_counter", "pci/replays_since_reset"),
    )


def _errors(node: Node, at: str) -> Errors:
    uncorrectable = node.count(at + "sram_uncorrectable")
    if uncorrectable is None:
        # Hopper tells its two kinds apart; both have to be known.
        kinds = [node.count(at + "sram_uncorrectable_parity"), node.count(at + "sram_uncorrectable_secded")]
        known_kinds = [kind for kind in kinds if kind is not None]
        uncorrectable = sum(known_kinds) if len(known_kinds) == len(kinds) else None
    return Errors(
        sram_correctable=node.count(at + "sram_correctable"),
        sram_uncorrectable=uncorrectable,
        # GPUs before Ampere tell single and double bit errors by unit.
        dram_correctable=node.count(at + "dram_correctable", at + "single_bit/device_memory"),
        dram_uncorrectable=node.count(at + "dram_uncorrectable", at + "double_bit/device_memory"),
        uncorrectable=node.count(at + "uncorrectable_total", at + "double_bit/total"),
    )


def _remapped(node: Node) -> RemappedRows:
    at = "remapped_rows/"
    return RemappedRows(
        correctable=node.count(at + "remapped_row_corr", at + "correctable_error"),
        uncorrectable=node.count(at + "remapped_row_unc", at + "uncorrectable_error"),
        pending=_yes(node, at + "remapped_row_pending", at + "pending"),
        failure=_yes(node, at + "remapped_row_failure", at + "remapping_failure_occurred"),
        banks_without_spare=node.count(
            at + "row_remapper_histogram/row_remapper_histogram_none",
            at + "bank_remap_availability_histogram/none",
            unit="bank(s)",
        ),
    )


def _throttled(node: Node, xml: str, text: str) -> bool | None:
    # Called throttle reasons up to driver 530.
    return node.flag(
        "active",
        "not active",
        f"clocks_event_reasons/clocks_event_reason_{xml}",
        f"clocks_throttle_reasons/clocks_throttle_reason_{xml}",
        f"clocks_event_reasons/{text}",
        f"clocks_throttle_reasons/{text}",
    )


def _identity(text: str | None) -> str | None:
    # Both have digits; an error that nvidia-smi prints in their place has none.
    return text if text is not None and re.search("[0-9]", text) else None


def _vbios(text: str | None) -> str | None:
    return text if text is not None and _VBIOS.fullmatch(text) else None


def _matched(pattern: re.Pattern[str], text: str | None) -> str | None:
    match = pattern.fullmatch(text or "")
    return match.group(1).lower() if match else None


def _clique_id(node: Node) -> int | None:
    found = _matched(_CLIQUE, node.value("fabric/cliqueid"))
    return None if found is None else int(found)


def _fabric_health(node: Node) -> dict[str, str]:
    health = {name: node.value(f"fabric/health/{name}") for name in (*_HEALTH, "incorrect_configuration")}
    return {name: value for name, value in health.items() if value is not None}


def _processes(node: Node) -> tuple[Process, ...] | None:
    """Return the processes; () only where the report says that there are none."""
    sections = list(node.all("processes"))
    if len(sections) != 1:
        return None
    section = sections[0]
    if not section.children:
        # An empty element in XML, "None" in text; a heading with nothing below it was cut off.
        return () if section.text is not None and section.text.strip().lower() in ("", "none") else None
    in_xml = [
        Process(child.value("pid") or "unknown", child.value("type"), child.value("process_name"))
        for child in section.all("process_info")
    ]
    in_text = [
        Process(known(child.text) or "unknown", child.value("type"), child.value("name"))
        for child in section.all("process_id")
    ]
    return tuple(in_xml + in_text) or None

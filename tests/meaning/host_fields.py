"""What the fields of a host's tools and files mean: CPU, memory, clock, disks, NVMe, BMC, stress-ng, mounts."""

from __future__ import annotations

from .field_meaning import ANY, NOT_FAIL, NOT_PASS, SICK, Field, Parts, Told
from .nic_fields import _file

_REDFISH = {"variant": "redfish"}
_NO_COUNT = ("-1", "none", "0x")


def _lscpu(name: str, sick: tuple[str, ...], wrong: tuple[str, ...] = ()) -> Field:
    return Field("lscpu", ("cpu",), rf'"{name}:",\s+"data": "([^"]*)"', sick, wrong, json=True)


def _sensor(check: str, row: str, sick: tuple[str, ...], **more: object) -> Field:
    """Return the reading of the sensors whose row of `ipmitool sdr elist` begins so."""
    return Field("ipmi_sdr", (check,), rf"^{row} *\|[^|]*\| ok +\|[^|]*\| (.*)$", sick, **more)  # type: ignore[arg-type]


FIELDS: tuple[Field, ...] = (
    _lscpu(r"Socket\(s\)", ("1", "4"), ("-2", "0")),
    _lscpu(r"Core\(s\) per socket", ("24", "47", "49"), ("-48", "0")),
    Field("cpuinfo", ("microcode",), r"^microcode\t: (\S+)", ("0x2b000602", "0x1"), word=True),
    Field(
        "cpufreq", ("cpu_governor",), r"scaling_governor <==\n(.*)", ("powersave", "schedutil", "ondemand"), word=True
    ),
    Field(
        "meminfo",
        ("memory",),
        r"^MemTotal: +(\d+ kB)",
        ("1056964608 kB", "1980000000 kB", "0 kB"),
        wrong=("-2113929216 kB", "2113929216 B", "2064384"),
    ),
    Field("meminfo", ("swap",), r"^SwapTotal: +(\d+ kB)", ("2097152 kB", "1024 kB"), wrong=("-1 kB",)),
    _file("edac", "memory_errors", "dimm_ce_count", ("51", "100000"), wrong=_NO_COUNT, good=("1", "50")),
    _file("edac", "memory_errors", "dimm_ue_count", ("1", "100000"), wrong=_NO_COUNT),
    _file("edac", "memory_errors", "mc\\d/ue_count", ("1", "100000"), wrong=_NO_COUNT),
    Field(
        "numa",
        ("numa",),
        r"^Node \d MemTotal: +(\d+ kB)",
        ("528482304 kB", "0 kB"),
        wrong=("-1056964608 kB", "1056964608 MB"),
    ),
    Field("hugepages", ("hugepages",), r"2048kB/nr_hugepages <==\n(\d+)", ("1024",), wrong=("-1",), owed=False),
    Field("cmdline", ("kernel_command_line",), r"(iommu=pt)", ("iommu=off", "iommu=on"), word=True),
    Field(
        "cmdline",
        ("kernel_command_line",),
        r"(quiet)",
        ("mce=off", "mem=64G", "numa=off", "pci=noaer"),
        owed=False,
        lost=NOT_PASS,
        word=True,
    ),
    Field(
        "clocksource",
        ("clocksource",),
        r"^(\w+)$",
        ("hpet", "acpi_pm", "jiffies"),
        wrong=("tsc hpet", "tsc-early"),
        word=True,
    ),
    Field(
        "chrony",
        ("clock",),
        r"^(?:[^,]*,){4}([^,]*)",
        ("0.2", "-0.2", "0.1001", "-86400.5"),
        wrong=("0.2 ms",),
        good=("0.0999", "-0.0999", "0.000000000"),
    ),
    Field("chrony", ("clock",), r",(\w+)$", ("Not synchronised",), wrong=("normal?",), odd=("Insert second",)),
    Field("disk_free", ("disk",), r"/dev/md1 +\d+ +\d+ +(\d+)", ("5368709119", "0"), wrong=("-5", "475G"), lost=ANY),
    # --- NVMe
    _file(
        "nvme_sysfs",
        "nvme",
        "nvme\\d/state",
        ("dead", "resetting", "connecting", "deleting"),
        wrong=("alive",),
        word=True,
    ),
    _file("nvme_sysfs", "nvme", "current_link_width", ("2", "1"), wrong=("0", "-4", "63")),
    _file("nvme_sysfs", "nvme", "current_link_speed", ("8.0 GT/s PCIe", "2.5 GT/s PCIe"), wrong=("16.0 MT/s PCIe",)),
    *(
        Field("smartctl", ("nvme_smart",), rf'^\s+"{name}": (\d+)', sick, wrong, good, json=True)
        for name, sick, wrong, good in (
            ("critical_warning", ("1", "2", "4", "8", "16", "31"), ("-1", "256"), ()),
            ("media_errors", ("1", "70000"), ("-1",), ()),
            ("percentage_used", ("81", "100", "255"), ("-1",), ("1", "80")),
            ("available_spare", ("9", "0"), ("-1", "101"), ("100", "11")),
        )
    ),
    Field(
        "smartctl",
        ("nvme_smart",),
        r'health_information_log": \{\s+"critical_warning": 0,\s+"temperature": (\d+)',
        ("81", "95"),
        wrong=("-400", "999"),
        good=("20", "80"),
        json=True,
    ),
    Field("smartctl", ("nvme_smart",), r'"passed": (\w+)', ("false",), json=True),
    Field("smartctl", ("nvme_smart",), r'"critical_comp_time": (\d+)', ("90",), ("-1",), owed=False, json=True),
    Field("local_drives", ("local_drives",), r'"critical_warning": (\d+)', ("1", "4"), variant="storage", json=True),
    Field("nvme_read", ("nvme_speed",), r'^ {8}"iops" : (1\d+\.0)', ("120.0",), wrong=("-1198500.0", "0.0"), json=True),
    Field("nvme_read", ("nvme_speed",), r'^ {6}"error" : (\d+)', wrong=("-1", "5", "22"), json=True),
    # --- stress-ng
    Field("cpu_stress", ("cpu_stress",), r"^.* cpu +(\d{4,}) ", wrong=("0",), owed=False),
    Field(
        "memory_bandwidth",
        ("memory_bandwidth",),
        r"memory rate: ([\d.]+) MB read/sec",
        wrong=("-12001.00", "0.00", "1.00"),
    ),
    Field("memory_latency", ("memory_latency",), r"randlist +(\d+) ", ("31",), wrong=("0", "-64", "1")),
    # --- BMC
    Field("dmidecode", ("firmware",), r"^\tVersion: (1\.4)", ("1.3", "1.40", "2.0"), wrong=("1.4 1.3",), word=True),
    Field("ipmi_mc", ("firmware",), r"^Firmware Revision +: (.*)$", ("1.00", "1.10"), wrong=("1.0",), word=True),
    _sensor(
        "inlet_temperature",
        "Inlet Temp",
        ("38 degrees C", "41 degrees C", "90 degrees C"),
        wrong=("-300 degrees C", "999 degrees C"),
        good=("20 degrees C", "37 degrees C"),
    ),
    _sensor("airflow", "Exhaust Temp", ("49 degrees C", "61 degrees C"), wrong=("-300 degrees C",)),
    _sensor("airflow", r"FAN\d", ("0 RPM",), wrong=("-5040 RPM",), good=("3000 RPM", "9000 RPM"), listed=True),
    _sensor(
        "power_supplies",
        r"PS\d Status",
        (
            "Presence detected, Failure detected",
            "Presence detected, Power Supply AC lost",
            "Presence detected, Predictive failure",
        ),
        wrong=("AC lost",),
        listed=True,
    ),
    Field(
        "ipmi_sdr",
        ("bmc_sensors",),
        r"^(?!BMC)[\w.]+ +[\w ]*\| \w\wh \| (ok)",
        ("cr", "nr", "lcr", "ucr", "lnr", "unr"),
        wrong=("??",),
        word=True,
    ),
    Field("ipmi_sel", ("bmc_log",), r"^Overflow +: (\w+)", wrong=("true",)),
    *(
        Field("redfish", (check,), at, sick, wrong, good, json=True, listed=True, lost=ANY, **_REDFISH)  # type: ignore[arg-type]
        for check, at, sick, wrong, good in (
            ("inlet_temperature", r'"ReadingCelsius": (23)', ("38", "41"), ("-300", "999"), ("20", "37")),
            ("airflow", r'"ReadingCelsius": (39)', ("49", "61"), ("-300",), ()),
            ("airflow", r'^   "Reading": (5040)', ("0",), ("-5040",), ("3000",)),
            ("power_supplies", r'"Name": "PSU\d"[^}]*?"Health": "(\w+)"', ("Critical",), (), ()),
            ("power_supplies", r'"Name": "PSU\d"[^}]*?"State": "(\w+)"', ("UnavailableOffline",), ("Absent",), ()),
            ("bmc_sensors", r'"Name": "CPU1 Temp"[^}]*?"Health": "(\w+)"', ("Critical",), (), ()),
        )
    ),
    # --- storage, software
    *(
        Field("mounts", ("mounts",), at, sick, wrong, good, variant="storage", json=True, word="state" in at)
        for at, sick, wrong, good in (
            (r'"free": (30000000000000)', ("1000000000000", "0"), ("-5",), ()),
            (r'"write_ms": (0\.412)', ("1412.5", "99999"), ("-1",), ("900.5",)),
            (r'"present": (8)', ("7", "0"), ("-8", "9"), ()),
            (r'"state": "(clean)"', ("broken", "inactive", "read-auto degraded"), ("Clean FAILED",), ()),
        )
    ),
    Field("dmidecode_memory", ("dimms",), r"^\tSize: (.*)$", ("32 GB",), wrong=("-64 GB", "64 kB"), variant="slots"),
    Field(
        "dmidecode_memory",
        ("dimms",),
        r"^\tConfigured Memory Speed: (.*)$",
        ("4000 MT/s", "3200 MT/s"),
        wrong=("-4400 MT/s", "0 MT/s"),
        variant="slots",
    ),
    Field(
        "rdma_modules", ("rdma_modules",), r"mlx5_core/srcversion <==\n(\w+)", ("0123456789ABCDEF0123456",), word=True
    ),
    Field("preflights", ("boot_preflight",), r'"verdict": "(\w+)"', (), wrong=("fail", "incomplete"), json=True),
    Field("boot_id", ("boot_preflight",), r"^([0-9a-f-]+)$", wrong=("99999999-2222-3333-4444-555555555555", "0")),
)

PARTS: tuple[Parts, ...] = (
    Parts("edac", ("memory_errors",), r"^==> /sys.*/dimm_ue_count <==\n.*\n\n?"),
    Parts("nvme_sysfs", ("nvme",), r"^==> /sys.*/state <==\n.*\n\n?"),
    Parts("smartctl", ("nvme_smart",), r"^==> nvme \d <==\n[\s\S]*?(?=^==>|\Z)"),
    Parts("nvme_read", ("nvme_speed",), r"^==> nvme \d <==\n[\s\S]*?(?=^==>|\Z)"),
    Parts("memory_bandwidth", ("memory_bandwidth",), r"^==> numa \d <==\n[\s\S]*?(?=^==>|\Z)"),
    Parts("memory_latency", ("memory_latency",), r"^==> numa \d <==\n[\s\S]*?(?=^==>|\Z)"),
    Parts("numa", ("numa",), r"^==> .*/meminfo <==\n(?:Node.*\n)+\n?"),
    Parts("dmidecode_memory", ("dimms",), r"^Handle 0x11\w\w.*\n(?:\S.*\n)(?:\t.*\n)+\n?", variant="slots"),
    Parts("ipmi_sdr", ("airflow", "bmc_sensors"), r"^FAN\d .*\n", twice=False),
    Parts("ipmi_sdr", ("power_supplies",), r"^PS\d Status .*\n", twice=False),
    Parts("cpufreq", ("cpu_governor",), r"^==> .*scaling_governor <==\n.*\n\n?"),
)

TOLD: tuple[Told, ...] = (
    Told(
        "ipmi_sdr",
        ("airflow", "bmc_sensors"),
        "a fan that stands beside 'ok'",
        r"(^FAN2 .*\| )5040 RPM",
        r"\g<1>0 RPM",
        SICK,
    ),
    Told(
        "ipmi_sdr",
        ("power_supplies", "bmc_sensors"),
        "redundancy lost beside good supplies",
        r"Fully Redundant",
        "Redundancy Lost",
        NOT_PASS,
    ),
    Told(
        "ipmi_sdr",
        ("bmc_sensors",),
        "a required sensor without a reading",
        r"^(CPU1 Temp .*\| )ok (.*\| ).*$",
        r"\g<1>ns \g<2>No Reading",
        NOT_PASS,
    ),
    Told(
        "ipmi_sdr",
        ("airflow",),
        "an outlet that is cooler than the inlet",
        r"(^Exhaust Temp .*\| )39",
        r"\g<1>12",
        NOT_PASS,
    ),
    Told("ipmi_sel", ("bmc_log",), "more entries counted than listed", r"^(Entries +: )1", r"\g<1>512", NOT_PASS),
    Told(
        "ipmi_sel",
        ("bmc_log",),
        "an entry that nobody knows",
        r"\Z",
        "   2 | 03/02/2026 | 08:00:00 UTC | OEM #0x21 | Test event | Asserted\n",
        NOT_FAIL,
    ),
    Told("smartctl", ("nvme_smart",), "passed beside a critical warning", r'("critical_warning": )0', r"\g<1>4", SICK),
    Told(
        "smartctl", ("nvme_smart",), "healthy values beside a failed verdict", r'("passed": )true', r"\g<1>false", SICK
    ),
    Told(
        "smartctl",
        ("nvme_smart",),
        "less spare than the drive's own threshold",
        r'("available_spare": )100',
        r"\g<1>9",
        SICK,
    ),
    Told("numa", ("numa",), "a CPU in two nodes", r"48-95,144-191", "47-95,144-191", NOT_PASS),
    Told(
        "numa",
        ("numa",),
        "more memory used than there is",
        r"(Node 0 MemUsed: +)31708938",
        r"\g<1>9931708938",
        NOT_PASS | {"pass"},
    ),
    Told(
        "edac",
        ("memory_errors",),
        "an error of the controller that no DIMM has",
        r"(mc3/ue_count <==\n)0",
        r"\g<1>5",
        SICK,
    ),
    Told(
        "disk_free",
        ("disk",),
        "more used than there is",
        r"(/dev/md1 +502468108288 +)1073741824",
        r"\g<1>991073741824",
        NOT_PASS,
    ),
    Told(
        "mounts",
        ("mounts",),
        "more free than there is",
        r'("free": )30000000000000',
        r"\g<1>90000000000000",
        NOT_PASS,
        "storage",
    ),
    Told("mounts", ("mounts",), "more disks present than there are", r'("present": )8', r"\g<1>9", NOT_PASS, "storage"),
    Told(
        "lscpu",
        ("cpu",),
        "a field that nobody knows",
        r'(\{\s+"field": "CPU family:")',
        r'{"field": "New:", "data": "7"},\g<1>',
        NOT_FAIL,
    ),
    Told(
        "lscpu",
        ("cpu",),
        "CPUs that are off",
        r'"On-line CPU\(s\) list:",\s+"data": "0-191"',
        '"On-line CPU(s) list:", "data": "0-47"',
        NOT_PASS,
    ),
    Told("chrony", ("clock",), "in step with nobody", r"^C000027B,192\.0\.2\.123,3", "00000000,,0", SICK),
    Told("chrony", ("clock",), "its own clock as the reference", r"^C000027B,192\.0\.2\.123", "7F7F0101,", NOT_PASS),
    Told(
        "cpu_stress",
        ("cpu_stress",),
        "a worker that failed",
        r"successful run completed",
        "unsuccessful run completed",
        NOT_PASS,
    ),
    Told(
        "cpu_stress",
        ("cpu_stress",),
        "a wrong result",
        r"^(stress-ng: info:  \[2101\] dispatching.*\n)",
        r"\g<1>stress-ng: fail:  [2140] cpu: calculation of pi failed\n",
        SICK,
    ),
    Told(
        "meminfo",
        ("memory",),
        "memory that was taken out for its errors",
        r"(HardwareCorrupted: +)0 kB",
        r"\g<1>4096 kB",
        NOT_PASS | {"pass"},
    ),
    Told(
        "dmidecode_memory",
        ("dimms",),
        "a slot that is empty",
        r"^\tSize: 64 GB",
        "\tSize: No Module Installed",
        NOT_PASS,
        "slots",
    ),
)

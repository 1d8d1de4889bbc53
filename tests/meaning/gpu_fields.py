"""What the fields of the GPUs' tools mean: nvidia-smi, NVLink, topology, DCGM, nvbandwidth, the loads.

The class is the HGX H100 of the healthy outputs. Numbers of healthy ranges are those of the class, and of NVIDIA's
documentation of nvidia-smi where no class could allow another.
"""

from __future__ import annotations

from .field_meaning import ANY, NOT_FAIL, NOT_PASS, SICK, Field, Parts, Told

_ECC = ("gpu_ecc",)


def _element(path: str) -> tuple[str, str]:
    """Return the regular expressions of an element's text and of the element with its line, as ``outer/inner``."""
    outer, _, inner = path.rpartition("/")
    before = rf"<{outer}>(?:(?!</{outer}>)[\s\S])*?<{inner}>" if outer else rf"<{inner}>"
    return rf"{before}([^<]*)(?=</{inner}>)", rf"^[ \t]*<{inner}>[^<]*</{inner}>\n"


def _smi(checks: tuple[str, ...] | str, path: str, sick: tuple[str, ...] = (), **more: object) -> Field:
    at, whole = _element(path)
    named = (checks,) if isinstance(checks, str) else checks
    return Field("nvidia_smi", named, at, sick, whole=whole, device=True, **more)  # type: ignore[arg-type]


_COUNT_ODD = ("00",)
_NO_COUNT = ("-1", "0x", "0 1", "none", "-5")

FIELDS: tuple[Field, ...] = (
    _smi("gpu_inventory", "product_name", ("NVIDIA H100 PCIe", "NVIDIA H200", "NVIDIA A100-SXM4-80GB")),
    _smi(
        "gpu_inventory",
        "fb_memory_usage/total",
        ("65247 MiB", "40960 MiB", "81558 MiB", "1 MiB", "0 MiB"),
        wrong=("-81559 MiB", "81559 KiB", "81559 W"),
    ),
    _smi(
        "gpu_power",
        "gpu_power_readings/current_power_limit",
        ("650.00 W", "699.00 W", "200.00 W", "0.00 W"),
        wrong=("-700.00 W", "700.00 mW", "700.00 C", "7000.00 W"),
        good=("700.00 W",),
    ),
    _smi(
        "gpu_power",
        "gpu_power_readings/default_power_limit",
        ("500.00 W", "350.00 W"),
        wrong=("-700.00 W", "700.00 mW"),
    ),
    _smi("gpu_settings", "current_ecc", ("Disabled",), wrong=("", "Enabled Disabled")),
    _smi("gpu_settings", "pending_ecc", ("Disabled",)),
    _smi("gpu_settings", "current_mig", ("Enabled",)),
    _smi("gpu_settings", "pending_mig", ("Enabled",)),
    _smi("gpu_settings", "persistence_mode", ("Disabled",)),
    _smi("gpu_settings", "compute_mode", ("Prohibited", "Exclusive_Process"), good=("Default",), owed=False),
    _smi(
        "gpu_pcie",
        "pcie_gen/max_link_gen",
        ("4", "3", "1"),
        wrong=("0", "-5", "5x", "Gen5 Gen4"),
    ),
    _smi(
        "gpu_pcie",
        "link_widths/current_link_width",
        ("8x", "4x", "1x"),
        wrong=("0x", "-16x", "x"),
        odd=("16",),
    ),
    _smi("gpu_pcie", "replay_counter", ("10001", "20000", "4294967295"), wrong=_NO_COUNT, good=("1", "9", "10000")),
    _smi(_ECC, "volatile/sram_uncorrectable_parity", ("1", "2", "65535"), wrong=_NO_COUNT, odd=_COUNT_ODD),
    _smi(_ECC, "volatile/sram_uncorrectable_secded", ("1", "2", "65535"), wrong=_NO_COUNT, odd=_COUNT_ODD),
    _smi(_ECC, "volatile/dram_uncorrectable", ("1", "3", "65535"), wrong=_NO_COUNT, odd=_COUNT_ODD),
    _smi(_ECC, "volatile/sram_correctable", ("10001", "90000"), wrong=_NO_COUNT, good=("1", "9999", "10000")),
    _smi(_ECC, "volatile/dram_correctable", ("20000001",), wrong=_NO_COUNT, good=("1", "20000000")),
    _smi(_ECC, "aggregate/sram_uncorrectable_parity", ("5", "4000"), wrong=_NO_COUNT, good=("1", "4")),
    _smi(_ECC, "aggregate/sram_uncorrectable_secded", ("5", "4000"), wrong=_NO_COUNT, good=("1", "4")),
    _smi(_ECC, "aggregate/sram_threshold_exceeded", ("Yes",), wrong=("Maybe",)),
    _smi("gpu_row_remap", "remapped_row_unc", ("513", "100000"), wrong=_NO_COUNT, good=("1", "512")),
    _smi("gpu_row_remap", "remapped_row_pending", ("Yes",)),
    _smi("gpu_row_remap", "remapped_row_failure", ("Yes",)),
    _smi("gpu_row_remap", "remapped_row_corr", (), wrong=_NO_COUNT, good=("1",)),
    _smi("gpu_fabric", "fabric/state", ("In Progress", "Not Started"), wrong=("Complete d", "Incomplete")),
    _smi("gpu_fabric", "fabric/status", ("Insufficient Resources", "Invalid State", "Timeout"), wrong=("No Success",)),
    _smi(
        "gpu_recovery",
        "gpu_recovery_action",
        ("GPU Reset", "Node Reboot", "Drain P2P", "Drain and Reset", "Reset", "Reboot"),
        owed=False,
    ),
    _smi("gpu_recovery", "gpu_reset_status/reset_required", ("Yes",), good=("No",), owed=False),
    _smi("gpu_recovery", "gpu_reset_status/drain_and_reset_recommended", ("Yes",), good=("No",), owed=False),
    _smi("gpu_throttle", "clocks_event_reason_hw_slowdown", ("Active",)),
    _smi("gpu_throttle", "clocks_event_reason_hw_thermal_slowdown", ("Active",)),
    _smi("gpu_throttle", "clocks_event_reason_hw_power_brake_slowdown", ("Active",)),
    _smi("gpu_throttle", "clocks_event_reason_sw_thermal_slowdown", ("Active",)),
    _smi(
        "gpu_power",
        "temperature/gpu_temp",
        ("95 C", "110 C"),
        wrong=("-400 C", "999 C"),
        good=("20 C", "45 C"),
        owed=False,
    ),
    _smi("gpu_power", "temperature/memory_temp", ("110 C",), wrong=("999 C",), good=("30 C", "50 C"), owed=False),
    _smi(
        "gpu_processes",
        "fb_memory_usage/used",
        ("16 MiB", "4000 MiB", "81089 MiB"),
        wrong=("-1 MiB", "90000 MiB"),
        good=("0 MiB", "15 MiB"),
    ),
    _smi("gpu_versions", "vbios_version", ("96.00.30.00.01",), owed=False, word=True),
    _smi("nvlink_domain", "clusterUuid", ("9c6f5af4-53bf-49b5-a436-b66766c413c3",), variant="nvlink domain"),
    _smi("nvlink_domain", "cliqueId", ("4027", "1"), wrong=("-4026", "4026 4027"), variant="nvlink domain"),
    Field(
        "nvlink",
        ("gpu_nvlink",),
        r"Link \d+: (\S.*)$",
        ("<inactive>", "13.281 GB/s", "0.000 GB/s", "25.781 GB/s"),
        wrong=("26.562 Gb/s", "-26.562 GB/s", "26.562"),
        device=True,
        listed=True,
    ),
    Field(
        "topology", ("gpu_affinity",), r"^GPU\d\t.*?\t(NV\d+)", wrong=("NV17", "NV4", "PIX", "SYS", "NODE"), owed=False
    ),
    Field(
        "gpu_sysfs",
        ("gpu_present",),
        r"GPU Excluded:\t (\w+)$",
        ("Yes",),
        owed=False,
        device=True,
    ),
    Field(
        "dcgm_diag",
        ("dcgm_diag",),
        r'"entity_id" : \d,\s+"status" : "([^"]*)"',
        ("Fail", "FAIL"),
        wrong=("Warn", "Skip", "Not Run", "Passed with errors"),
        json=True,
    ),
    Field(
        "dcgmi_nvlink",
        ("gpu_nvlink_errors",),
        r'"(?:CRC|Replay|Recovery)[^"]*Error[^"]*": \{"value": "([^"]*)"',
        ("900", "12345678"),
        wrong=("-1", "none"),
        json=True,
    ),
    Field(
        "nvbandwidth",
        ("gpu_bandwidth",),
        r'^\s+"(\d+\.\d+)",?$',
        ("5.54", "24.1", "0.0", "0.00"),
        wrong=("-55.4", "55400.0", "1e9"),
        json=True,
    ),
    Field(
        "gpu_stress",
        ("gpu_stress",),
        r'"copy_gb_per_s": ([\d.]+)',
        ("2399.9", "240.2", "0.0"),
        # A class states the least rate of a GPU; the most that one can reach nobody says.
        wrong=("-2702.5",),
        good=("2400.0",),
        json=True,
    ),
    Field(
        "gpu_stress", ("gpu_stress",), r'"total_bytes": \d+, "wrong_words": (\d+)', ("1", "70000"), ("-1",), json=True
    ),
    Field("gpu_stress", ("gpu_stress",), r'"tiles_wrong": (\d+)', ("1", "5760"), wrong=("-1",), json=True),
    Field(
        "gpu_stress",
        ("gpu_stress",),
        r'"bf16": \{[^{}]*(?:\{[^}]*\}[^{}]*)?"tflops": ([\d.]+), "tflops_least"',
        ("619.9", "72.4", "0.0"),
        wrong=("-724.1",),
        json=True,
    ),
    *(
        Field("gpu_telemetry", ("gpu_telemetry",), rf'"{name}": \{{"max": ([\d.]+)', sick, wrong, good, json=True)
        for name, sick, wrong, good in (
            ("temperature_celsius", ("88", "105"), ("-64", "2000"), ()),
            ("memory_temperature_celsius", ("96", "110"), ("-64", "2000"), ()),
        )
    ),
    Field(
        "gpu_telemetry",
        ("gpu_telemetry",),
        r'"pcie_width": \{"max": \d+, "median": \d+, "min": (\d+)',
        ("8", "4"),
        wrong=("0", "-16"),
        json=True,
    ),
    Field("gpu_telemetry", ("gpu_telemetry",), r'"sw_power_cap": (\d+\.\d)', wrong=("-5.0",), owed=False, json=True),
    Field("gpu_telemetry", ("gpu_telemetry",), r'"ecc_uncorrected": \[0, 0, (\d+)\]', ("1", "9"), ("-1",), json=True),
    Field("nvml", ("nvml",), r'"ecc_uncorrected": (\d+)', ("1", "65535"), ("-1",), json=True),
    Field("nvml", ("nvml",), r'"remap_failure": (\d+)', ("1",), ("-1", "2"), json=True),
    Field("nvml", ("nvml",), r'"remap_pending": (\d+)', ("1",), ("-1", "2"), json=True),
    Field("nvml", ("nvml",), r'"recovery": (\d+)', ("1", "2", "3"), ("-1",), json=True, owed=False),
    Field("fabric_manager", ("fabric_manager",), r"^ActiveState=(\w+)", ("failed", "inactive"), ("activ",), word=True),
    Field("fabric_manager", ("fabric_manager",), r"^SubState=(\w+)", wrong=("dead", "exited", "failed"), word=True),
    Field(
        "fabric_manager", ("fabric_manager",), r"version is : (.*)$", ("550.90.07", "570.86.1", "570.86.150"), word=True
    ),
    Field("imex", ("imex",), r"^ActiveState=(\w+)", ("failed", "inactive"), variant="nvlink domain", word=True),
    Field("imex", ("imex",), r"version is: (.*)$", ("550.90.07",), variant="nvlink domain", word=True),
    Field(
        "imex",
        ("imex",),
        r"own <==\n(\w+)",
        ("INITIALIZING", "UNAVAILABLE"),
        ("NOT READY",),
        variant="nvlink domain",
        word=True,
    ),
)

_SMI = ("gpu_inventory", "gpu_ecc", "gpu_pcie", "gpu_power", "gpu_settings", "gpu_row_remap", "gpu_throttle")

PARTS: tuple[Parts, ...] = (
    Parts("nvidia_smi", _SMI, r"^\t<gpu id=[\s\S]*?</gpu>\n\n?"),
    Parts("nvlink", ("gpu_nvlink",), r"^GPU \d+: .*\n(?:\t .*\n)+"),
    Parts("nvlink", ("gpu_nvlink",), r"^\t Link \d+: .*\n"),
    Parts("topology", ("gpu_affinity",), r"^GPU\d\t.*\n"),
    Parts("gpu_sysfs", ("gpu_present",), r"^==> .*information <==\n(?:.+\n)+\n?"),
    Parts("dcgm_diag", ("dcgm_diag",), r'^\t+\{\n\t+"entity_group" : "GPU",\n(?:.*\n){3}\t+\},\n'),
    Parts("gpu_stress", ("gpu_stress",), r'^\{"event": "end".*\n|^\{.*"event": "end".*\n'),
    Parts("imex", ("imex",), r"^Node #\d+ .*\n", variant="nvlink domain"),
)

TOLD: tuple[Told, ...] = (
    Told("nvidia_smi", _SMI, "seven listed, eight counted", r"\t<gpu id=[\s\S]*?</gpu>\n", "", NOT_PASS),
    Told("nvidia_smi", _SMI, "eight listed, seven counted", "(<attached_gpus>)8", r"\g<1>7", NOT_PASS),
    Told("nvidia_smi", _SMI, "eight listed, nine counted", "(<attached_gpus>)8", r"\g<1>9", NOT_PASS),
    Told("nvidia_smi", _SMI, "no count", r"\t<attached_gpus>8</attached_gpus>\n", "", NOT_FAIL),
    Told(
        "nvidia_smi",
        ("gpu_inventory",),
        "two GPUs of one serial number",
        r"(<serial>)1651237848575([\s\S]*?<serial>)\d+",
        r"\g<1>1651237848575\g<2>1651237848575",
        NOT_PASS,
    ),
    Told(
        "nvidia_smi",
        ("gpu_inventory",),
        "two GPUs of one UUID",
        r"(<uuid>)(GPU-[0-9a-f-]+)([\s\S]*?<uuid>)GPU-[0-9a-f-]+",
        r"\g<1>\g<2>\g<3>\g<2>",
        NOT_PASS,
    ),
    Told(
        "nvidia_smi",
        ("gpu_inventory", "gpu_processes"),
        "more memory used than there is",
        r"(<used>)1 MiB",
        r"\g<1>90000 MiB",
        NOT_PASS,
    ),
    Told(
        "nvidia_smi",
        ("gpu_pcie",),
        "BAR1 smaller than the memory of the GPU: peers cannot map it",
        r"(<bar1_memory_usage>\s*<total>)131072 MiB",
        r"\g<1>256 MiB",
        NOT_PASS,
    ),
    Told("nvidia_smi", _SMI, "a field that nobody knows", r"(\t\t<serial>)", r"\t\t<new>7</new>\n\g<1>", NOT_FAIL),
    Told("nvidia_smi", _SMI, "a line of another program before", r"\A", "Warning: persistence mode\n", NOT_FAIL),
    Told(
        "nvidia_smi", _SMI, "corrupted InfoROM", r"\Z", "WARNING: infoROM is corrupted at gpu 0000:04:00.0\n", NOT_PASS
    ),
    Told(
        "nvidia_smi",
        ("gpu_fabric",),
        "a GPU in another clique than the others",
        r"(<cliqueId>)0",
        r"\g<1>3",
        SICK,
    ),
    Told("nvidia_smi", ("gpu_fabric",), "no clique told", r"(<cliqueId>)0", r"\g<1>N/A", NOT_FAIL),
    *(
        Told(
            "nvidia_smi", ("gpu_power",), f"{tag}: the driver cannot read it", rf"(<{tag}>)[^<]+", rf"\g<1>{said}", SICK
        )
        for tag, said in (("graphics_clock", "Unknown Error"), ("mem_clock", "ERR!"), ("gpu_util", "Unknown Error"))
    ),
    *(
        Told("nvidia_smi", ("gpu_power",), f"{tag} not told", rf"(<{tag}>)[^<]+", r"\g<1>N/A", NOT_FAIL)
        for tag in ("graphics_clock", "mem_clock", "gpu_util")
    ),
    Told("nvidia_smi", ("gpu_pcie",), "idle link asleep", r"(<current_link_gen>)5", r"\g<1>1", NOT_FAIL),
    Told(
        "nvidia_smi",
        ("gpu_pcie",),
        "another link of the GPU that nobody judges",
        r"(<device_current_link_gen>)5",
        r"\g<1>1",
        NOT_FAIL,
    ),
    Told("nvidia_smi", _SMI, "the tool ended early", r"</nvidia_smi_log>\s*\Z", "", NOT_PASS),
    Told(
        "nvlink",
        ("gpu_nvlink",),
        "GPU 0 twice, the second time with dead links",
        r"\Z",
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-3ca99916-c7f6-dfed-8ad4-57fcc8699058)\n\t Link 0: <inactive>\n",
        NOT_PASS,
    ),
    Told(
        "nvlink",
        ("gpu_nvlink",),
        "a link that the board does not have",
        r"(Link 17: 26\.562 GB/s\n)",
        r"\g<1>\t Link 18: <inactive>\n",
        ANY,
    ),
    Told(
        "nvlink", ("gpu_nvlink",), "a link that cannot be asked, beside all others", r"\Z", "NVML: failed\n", NOT_PASS
    ),
    Told(
        "nvlink",
        ("gpu_nvlink",),
        "a GPU that does not answer",
        r"\t Link 3: .*\n",
        "NVML: Unable to retrieve NVLink information as all links are inActive\n",
        NOT_PASS,
    ),
    Told(
        "dcgm_diag",
        ("dcgm_diag",),
        "all tests passed beside a GPU that failed",
        r'("entity_id" : 3,\s+"status" : )"Pass"',
        r'\g<1>"Fail"',
        SICK,
    ),
    Told(
        "dcgm_diag",
        ("dcgm_diag",),
        "GPUs passed beside a test that failed",
        r'("test_summary" :\s+\{\s+"status" : )"Pass"',
        r'\g<1>"Fail"',
        NOT_PASS,
    ),
    Told(
        "dcgm_diag",
        ("dcgm_diag",),
        "passed with a warning",
        r'("entity_id" : 3,\s+"status" : )"Pass"',
        r'\g<1>"Pass", "warnings" : [{"error_category" : 1, "error_id" : 61, "error_severity" : 3, '
        r'"warning" : "GPU 3 will need a reset"}]',
        NOT_PASS,
    ),
    Told(
        "gpu_telemetry",
        ("gpu_telemetry",),
        "least above most",
        r'("temperature_celsius": \{"max": )64',
        r"\g<1>4",
        NOT_PASS,
    ),
    Told(
        "gpu_telemetry",
        ("gpu_telemetry",),
        "more seconds throttled than there were",
        r'("sw_power_cap": 538\.0)',
        r'\g<1>, "hw_slowdown": 99999.0',
        SICK,
    ),
    Told("gpu_telemetry", ("gpu_telemetry",), "no sample", r'("samples": )571', r"\g<1>0", NOT_PASS),
    Told(
        "gpu_telemetry",
        ("gpu_telemetry",),
        "an unknown quantity",
        r'("quantities": \{)',
        r'\g<1>"fan_percent": {"max": 1, "median": 1, "min": 1, "p95": 1}, ',
        NOT_FAIL,
    ),
    Told(
        "gpu_stress",
        ("gpu_stress",),
        "wrong words named, none counted",
        r'("first_wrong": )\[\]',
        r"\g<1>[[17, 0, 4]]",
        NOT_PASS,
    ),
    Told(
        "gpu_stress",
        ("gpu_stress",),
        "two results of one product",
        r'("checksums": \{"8a3c5d7e9f1b2c4d": )98420',
        r'\g<1>98419, "0000000000000001": 1',
        NOT_PASS,
    ),
)

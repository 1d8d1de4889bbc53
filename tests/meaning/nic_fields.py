"""What the fields of NICs' and rails' tools mean: sysfs, mlxlink, mlxconfig, mlnx_qos, perftest's rates, lspci."""

from __future__ import annotations

from .field_meaning import NOT_FAIL, NOT_PASS, Field, Parts, Told


def _file(probe: str, checks: tuple[str, ...] | str, path: str, sick: tuple[str, ...] = (), **more: object) -> Field:
    """Return the field of every file whose path ends so."""
    named = (checks,) if isinstance(checks, str) else checks
    return Field(probe, named, rf"^==> [^\n]*{path} <==\n([^\n]*)", sick, **more)  # type: ignore[arg-type]


_COUNTERS = {
    "symbol_error": 10,
    "link_error_recovery": 10,
    "link_downed": 4,
    "port_rcv_errors": 100,
    "port_rcv_remote_physical_errors": 100,
    "port_rcv_constraint_errors": 100,
    "port_xmit_discards": 100,
    "port_xmit_constraint_errors": 100,
    "local_link_integrity_errors": 10,
    "VL15_dropped": 100,
}
_NO_COUNT = ("-1", "-5", "0x", "none", "1 2")

FIELDS: tuple[Field, ...] = (
    *(
        _file(probe, "nic_link", "ports/1/state", sick, wrong=("4: DOWN", "ACTIVE: 1"), odd=odd, word=True)
        for probe in ("infiniband", "infiniband_ports")
        for sick, odd in ((("1: DOWN", "2: INIT", "3: ARMED", "5: ACTIVE_DEFER"), ()),)
    ),
    *(
        _file(probe, "nic_link", "ports/1/phys_state", ("3: Disabled", "2: Polling", "6: LinkErrorRecovery"), word=True)
        for probe in ("infiniband", "infiniband_ports")
    ),
    *(
        _file(
            probe,
            "nic_link",
            "ports/1/rate",
            ("200 Gb/sec (4X HDR)", "100 Gb/sec (4X EDR)", "100 Gb/sec (1X NDR)", "2.5 Gb/sec (1X SDR)"),
            wrong=("0 Gb/sec", "-400 Gb/sec (4X NDR)", "400 GB/sec", "400 Mb/sec (4X NDR)"),
        )
        for probe in ("infiniband", "infiniband_ports")
    ),
    _file("infiniband", "nic_link", "ports/1/link_layer", ("InfiniBand",), word=True),
    _file("infiniband", "nic_inventory", "hca_type", ("MT4125", "MT4123"), wrong=("MT412", "4129"), word=True),
    _file("infiniband", "nic_pcie", "device/current_link_width", ("8", "4", "1"), wrong=("0", "-16", "63", "255")),
    _file(
        "infiniband",
        "nic_pcie",
        "device/current_link_speed",
        ("16.0 GT/s PCIe", "8.0 GT/s PCIe", "2.5 GT/s PCIe"),
        wrong=("0.0 GT/s PCIe", "-32.0 GT/s PCIe", "32.0 MT/s PCIe"),
        odd=("32 GT/s", "32.0 GT/s"),
    ),
    _file("infiniband", "nic_firmware", "fw_ver", ("28.39.1001", "28.39.10020", "28.3.1002", "0.0.0"), word=True),
    *(
        _file(
            "infiniband",
            "nic_errors",
            f"ports/1/counters/{name}",
            (str(limit + 1), str(limit * 1000), "18446744073709551615"),
            wrong=_NO_COUNT,
            good=("1", str(limit)),
        )
        for name, limit in _COUNTERS.items()
    ),
    _file(
        "net_devices",
        "nic_interface",
        "operstate",
        ("down", "lowerlayerdown", "dormant", "testing", "notpresent"),
        word=True,
    ),
    _file(
        "net_devices",
        "nic_interface",
        "speed",
        ("200000", "100000", "1000", "10"),
        wrong=("-1", "0", "4294967295", "400000 Kb/s"),
    ),
    _file("net_devices", "nic_interface", "mtu", ("1500", "4200", "8999"), wrong=("-9000", "0", "9")),
    _file("nic_counters", "nic_counter_growth", "after [^\n]*counters/link_downed", ("1", "44"), wrong=("-1", "none")),
    _file("nic_counters", "nic_counter_growth", "after [^\n]*counters/symbol_error", ("11", "500"), wrong=("-1",)),
    _file("nic_counters", "nic_counter_growth", "after [^\n]*rx_crc_errors", ("11", "500"), wrong=("-1", "none")),
    _file("error_counters", "counter_growth", "counters/link_downed", ("9", "44"), wrong=("-1", "none")),
    _file("error_counters", "counter_growth", "ue_count", ("1", "44"), wrong=("-1", "none")),
    # --- mlxlink
    Field(
        "mlxlink",
        ("nic_physical",),
        r'"State" : "([^"]*)"',
        ("Polling", "Disable", "Down", "Close port", "Port PLR"),
        wrong=("Not Active", "Inactive"),
    ),
    Field("mlxlink", ("nic_physical",), r'"Speed" : "([^"]*)"', ("200G", "100G", "25G"), ("-400G", "400", "fast")),
    Field(
        "mlxlink",
        ("nic_physical",),
        r'"Raw Physical BER" : "([^"]*)"',
        ("4E-4", "2.5E-4", "1E-1", "1"),
        wrong=("-5E-10", "7", "5E10", "0.5E"),
        good=("1E-8", "0", "15E-255"),
        odd=("0.0000000005", "5e-10"),
    ),
    Field(
        "mlxlink",
        ("nic_physical",),
        r'"Effective Physical BER" : "([^"]*)"',
        ("3E-9", "1E-11", "1E-2"),
        wrong=("-3E-9", "2"),
        good=("15E-255", "0", "1E-13"),
    ),
    Field(
        "mlxlink",
        ("nic_physical",),
        r'"Temperature \[C\]" : "(\d+)',
        ("79", "71", "95"),
        wrong=("-99", "999"),
        good=("20", "69"),
        owed=False,
    ),
    Field("mlxlink", ("nic_physical",), r'"Link Down Counter" : "([^"]*)"', ("44", "1000"), ("-1",), owed=False),
    Field("mlxlink", ("nic_physical",), r'"Module FW Fault" : "([^"]*)"', ("1",), owed=False, good=("0",)),
    Field("mlxlink", ("nic_physical",), r'"DataPath FW Fault" : "([^"]*)"', ("1",), owed=False, good=("0",)),
    Field("mlxlink", ("nic_physical",), r'"Loopback Mode" : "([^"]*)"', ("PHY Local Loopback",), owed=False),
    Field("mlxlink", ("nic_physical",), r'"FEC" : "([^"]*)"', ("No FEC",), owed=False),
    Field("mlxlink", ("nic_physical",), r'"Effective Physical Errors" : "([^"]*)"', wrong=("5000", "-1"), owed=False),
    *(
        Field("mlxlink", ("nic_physical",), rf'"{name}" : \{{\s+"values" : \[\s+"([^"]*)"', sick, owed=False)
        for name, sick in (
            (r"Tx Fault \[per lane\]", ("1", "Yes")),
            (r"Rx CDR LOL \[per lane\]", ("1",)),
            (r"Tx CDR LOL \[per lane\]", ("1",)),
            (r"Rx LOS \[per lane\]", ("1",)),
            (r"Tx LOS \[per lane\]", ("1",)),
            ("Raw Physical BER Per Lane", ("1E-3",)),
        )
    ),
    *(
        # Commas part the lanes: with a decimal comma other values stand there.
        Field("mlxlink", ("nic_physical",), rf'"{name}" : "([-\d.]+)', sick, owed=False, listed=True)
        for name, sick in (
            # Far beyond the limits that the tool prints beside them.
            (r"Voltage \[mV\]", ("2500.5", "4100.0")),
            (r"Bias Current \[mA\]", ("0.0", "900.0")),
            (r"Rx Power Current \[dBm\]", ("-40.0", "-12.5")),
            (r"Tx Power Current \[dBm\]", ("-40.0", "-12.5")),
        )
    ),
    # --- mlxconfig, mlnx_qos and what else sets up a rail
    Field(
        "nic_config",
        ("nic_firmware_settings",),
        r"MAX_ACC_OUT_READ +\S+ +(\d+)",
        ("44", "0", "12"),
        wrong=("-128", "1280"),
        listed=True,
    ),
    Field(
        "nic_config",
        ("nic_firmware_settings",),
        r"LINK_TYPE_P1 +\S+ +(\S+)",
        ("IB(1)", "VPI(3)"),
        listed=True,
        word=True,
    ),
    Field(
        "nic_config",
        ("nic_firmware_settings",),
        r"ADVANCED_PCI_SETTINGS +\S+ +(\S+)",
        ("False(0)",),
        listed=True,
        word=True,
    ),
    Field("roce_port", ("roce_settings",), r"^Priority trust state: (\w+)", ("pcp",), wrong=("dscp,pcp",), word=True),
    Field("roce_port", ("roce_settings",), r"^DCBX mode: (.*)$", wrong=("Firmware", "Firmware Controlled"), word=True),
    Field("roce_port", ("roce_settings",), r"^\tenabled     (.*)$", ("0   0   0   0   0   0   0   0   ",)),
    _file("roce_port", "roce_settings", "net/rdma\\d/mtu", ("1500", "4200"), wrong=("-9000", "0")),
    *(
        _file(probe, "roce_gid", f"ports/1/gid_attrs/types/{index}", ("IB/RoCE v1",), word=True)
        for probe in ("roce_port", "roce_gids")
        for index in (3,)
    ),
    # --- Rates, lspci, AER
    Field(
        "nic_load",
        ("nic_load",),
        r'"gpu": \{"count": 7, "max": [\d.]+, "median": ([\d.]+)',
        wrong=("150.5", "-377.0", "377000.0", "0.0"),
        json=True,
    ),
    Field(
        "nic_load",
        ("nic_load",),
        r'"numa 0": \{"count": 7, "max": [\d.]+, "median": ([\d.]+)',
        wrong=("80.5", "-365.0", "365000.0", "0.0"),
        json=True,
    ),
    Field(
        "lspci",
        ("nic_pcie_settings",),
        r"(?s)Ethernet controller.{0,2000}?MaxReadReq (\d+)",
        ("512", "128"),
        wrong=("-4096", "0", "40960"),
    ),
    Field(
        "pcie_aer",
        ("pcie_aer",),
        r"aer_dev_fatal <==\n(?:.+\n)*?TOTAL_ERR_FATAL (\d+)",
        ("2", "70000"),
        wrong=("-1", "none"),
    ),
    Field(
        "pcie_aer",
        ("pcie_aer",),
        r"aer_dev_nonfatal <==\n(?:.+\n)*?TOTAL_ERR_NONFATAL (\d+)",
        ("2", "70000"),
        wrong=("-1", "none"),
    ),
    Field(
        "pcie_aer",
        ("pcie_aer",),
        r"aer_dev_correctable <==\n(?:.+\n)*?TOTAL_ERR_COR (\d+)",
        ("101", "70000"),
        wrong=("-1", "none"),
    ),
)

PARTS: tuple[Parts, ...] = (
    Parts("mlxlink", ("nic_physical",), r"^==> rail\d <==\n[\s\S]*?(?=^==>|\Z)"),
    Parts("nic_config", ("nic_firmware_settings",), r"^==> rail\d <==\n[\s\S]*?(?=^==>|\Z)"),
    Parts("infiniband_ports", ("nic_link",), r"^==> /sys.*/state <==\n.*\n\n?"),
    Parts("infiniband", ("nic_link",), r"^==> /sys.*/ports/1/rate <==\n.*\n\n?"),
    Parts("infiniband", ("nic_errors",), r"^==> /sys.*/counters/symbol_error <==\n.*\n\n?"),
    Parts("net_devices", ("nic_interface",), r"^==> /sys.*/operstate <==\n.*\n\n?"),
    Parts("rail_names", ("nic_inventory", "nic_interface", "nic_link"), r"^/sys.*\n", twice=False),
    Parts("roce_port", ("roce_settings",), r"^==> mlnx_qos -i rdma\d <==\n[\s\S]*?(?=^==>|\Z)"),
    Parts("pcie_aer", ("pcie_aer",), r"^==> .*aer_dev_fatal <==\n(?:.+\n)+\n?"),
    Parts("lspci", ("acs", "nic_pcie_settings"), r"^0000:\w\w:00\.0 Ethernet.*\n(?:\t.*\n)+\n?", twice=False),
    Parts("error_counters", ("counter_growth",), r"^==> /sys.*/link_downed <==\n.*\n\n?"),
    Parts("nic_counters", ("nic_counter_growth",), r"^==> after .*/link_downed <==\n.*\n\n?"),
)

TOLD: tuple[Told, ...] = (
    Told(
        "mlxlink",
        ("nic_physical",),
        "a lane far worse than the sum says",
        r'("Raw Physical BER Per Lane" : \{\s+"values" : \[\s+)"[^"]*"',
        r'\g<1>"1E-3"',
        NOT_PASS,
    ),
    Told("mlxlink", ("nic_physical",), "active without a speed", r'"Speed" : "400G"', '"Speed" : "N/A"', NOT_PASS),
    Told(
        "mlxlink",
        ("nic_physical",),
        "what the tool itself finds wrong",
        r'"Recommendation" : "No issue was observed"',
        '"Recommendation" : "Bad signal integrity"',
        NOT_PASS,
    ),
    Told(
        "mlxlink",
        ("nic_physical",),
        "what the tool itself finds wrong, by number",
        r'"Status Opcode" : "0"',
        '"Status Opcode" : "15"',
        NOT_PASS,
    ),
    Told(
        "mlxlink",
        ("nic_physical",),
        "a field that nobody knows",
        r'("State" : "Active",)',
        r'\g<1> "New Field" : "7",',
        NOT_FAIL,
    ),
    Told(
        "infiniband",
        ("nic_link",),
        "active without a physical link",
        r"(mlx5_2/ports/1/phys_state <==\n).*",
        r"\g<1>2: Polling",
        NOT_PASS,
    ),
    Told(
        "infiniband", ("nic_link",), "active at no speed", r"(mlx5_2/ports/1/rate <==\n).*", r"\g<1>0 Gb/sec", NOT_PASS
    ),
    Told("net_devices", ("nic_interface",), "up at no speed", r"(rdma2/speed <==\n).*", r"\g<1>-1", NOT_PASS),
    Told(
        "pcie_aer",
        ("pcie_aer",),
        "an error in the parts, none in the sum",
        r"(0000:05:00\.0/aer_dev_fatal <==\n(?:.+\n)*?)DLP 0",
        r"\1DLP 5",
        NOT_PASS,
    ),
    Told(
        "pcie_aer",
        ("pcie_aer",),
        "errors in the sum, none in the parts",
        r"(0000:05:00\.0/aer_dev_fatal <==\n(?:.+\n)*?TOTAL_ERR_FATAL) 0",
        r"\1 5",
        NOT_PASS,
    ),
    Told(
        "pcie_aer",
        ("pcie_aer",),
        "an error that nobody knows",
        r"(0000:05:00\.0/aer_dev_fatal <==\n)",
        r"\1PCRC 5\n",
        NOT_PASS,
    ),
    Told(
        "lspci",
        ("acs", "nic_pcie_settings"),
        "a device that does not answer",
        r"^(0000:4d:00\.0 Ethernet.*)\n(?:\t.*\n)+",
        r"\1 (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n",
        NOT_PASS,
    ),
    Told(
        "nic_config",
        ("nic_firmware_settings",),
        "set, but only from the next boot on",
        r"(MAX_ACC_OUT_READ +0 +)128( +128)",
        r"\g<1>44\g<2>",
        NOT_PASS,
    ),
    Told(
        "nic_config",
        ("nic_firmware_settings",),
        "one setting twice, with two values",
        r"^(\* +MAX_ACC_OUT_READ.*\n)",
        r"\g<1>*       MAX_ACC_OUT_READ     0     44      44\n",
        NOT_PASS,
    ),
    Told("nic_load", ("nic_load",), "least above most", r'("max": )378\.9', r"\g<1>3.9", NOT_PASS),
    Told("nic_load", ("nic_load",), "no transfer counted", r'("gpu": \{"count": )7', r"\g<1>0", NOT_PASS),
    Told(
        "rail_names",
        ("nic_inventory",),
        "two devices on one card",
        r"^(.*/infiniband/)mlx5_2$",
        r"\g<0>\n\g<1>mlx5_9",
        NOT_PASS,
    ),
)

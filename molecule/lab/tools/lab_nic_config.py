"""Firmware settings of the lab's NICs: what they hold now and from the next boot on, kept on the host beside its state.

``nic_config`` of the state lays other settings over a NIC's: ``{"rail3": {"MAX_ACC_OUT_READ": "0"}}`` for both,
``["0", "128"]`` for one that was set and waits for its reboot, ``"ignored"`` for one that the device never takes.
"""

from __future__ import annotations

import sys
from typing import Any

import lab_tool

# Name, kind (names by number, None for a number, "list"), default, value of a healthy lab host.
BOOLEAN = {0: "False", 1: "True"}
SETTINGS: tuple[tuple[str, Any, int, int], ...] = (
    ("MEMIC_SIZE_LIMIT", {0: "DISABLED", 1: "_256KB"}, 1, 1),
    ("HOST_CHAINING_MODE", {0: "DISABLED", 1: "BASIC"}, 0, 0),
    ("FLEX_PARSER_PROFILE_ENABLE", None, 0, 0),
    ("ROCE_NEXT_PROTOCOL", None, 254, 254),
    ("ESWITCH_HAIRPIN_DESCRIPTORS", "list", 0, 0),
    ("NUM_OF_VFS", None, 0, 0),
    ("SRIOV_EN", BOOLEAN, 0, 0),
    ("PCI_WR_ORDERING", {0: "per_mkey", 1: "force_relax"}, 0, 0),
    ("MAX_ACC_OUT_READ", None, 0, 128),
    ("RDMA_SELECTIVE_REPEAT_EN", BOOLEAN, 0, 1),
    ("ROCE_CC_PRIO_MASK_P1", None, 255, 255),
    ("CNP_DSCP_P1", None, 48, 48),
    ("CNP_802P_PRIO_P1", None, 6, 6),
    ("LINK_TYPE_P1", {1: "IB", 2: "ETH"}, 1, 2),
    ("KEEP_ETH_LINK_UP_P1", BOOLEAN, 1, 1),
    ("ADVANCED_PCI_SETTINGS", BOOLEAN, 0, 1),
    ("SAFE_MODE_ENABLE", BOOLEAN, 1, 1),
    ("NUM_OF_PLANES_P1", None, 0, 0),
)
# Shown, and refused by `set`. Which these are is the device's to say: here it stands for any.
READ_ONLY = ("NUM_OF_PLANES_P1",)
# Shown only once the device has them unlocked for the next boot.
ADVANCED = ("MAX_ACC_OUT_READ", "PCI_WR_ORDERING")
KINDS = {name: kind for name, kind, _, _ in SETTINGS}
# What `set` keeps, by rail and key.
KEPT = "nic_config.json"


def nic_of(state: dict[str, Any], tool: str, device: str) -> dict[str, Any]:
    """Return the NIC at a PCI address, with or without its domain."""
    nic = next((nic for nic in state["nics"] if device in (nic["address"], nic["address"][5:])), None)
    if nic is None or nic["rail"] in state["nics_missing"]:
        # On stdout, as mstconfig 4.21 and 4.31 and mstflint 4.21 say it.
        if tool in ("mstconfig", "mlxconfig"):
            print("-E- Failed to open the device")
            sys.exit(3)
        print(f"-E- Cannot open Device: {device}. No such file or directory. MFE_CR_ERROR")
        sys.exit(1)
    return nic


def values_of(state: dict[str, Any], rail: str) -> dict[str, tuple[int, int, int]]:
    """Return default, current and next value by key; settings that are locked are left out."""
    over, (since, booted) = state["nic_config"].get(rail, {}), lab_tool.kept(KEPT, rail)
    found = {}
    for name, _, default, healthy in SETTINGS:
        given = over.get(name, str(healthy))
        pair = given if isinstance(given, list) else [str(default) if given == "ignored" else given] * 2
        current, following = (int(value) for value in pair)
        following = since.get(name, following)
        found[name] = (default, following if booted else current, following)
    if not found["ADVANCED_PCI_SETTINGS"][2]:
        found = {name: value for name, value in found.items() if name not in ADVANCED}
    return found


def shown(name: str, number: int) -> str:
    """Return a value as the tool prints it."""
    kind = KINDS[name]
    if kind == "list":
        return "Array[0..7]"
    return f"{kind[number]}({number})" if kind else str(number)


def number_of(name: str, text: str) -> int | None:
    """Return the number of a value given by number or name; None for one that the setting does not have."""
    kind = KINDS[name]
    if text.isdecimal():
        return int(text) if not kind or int(text) in kind else None
    return next((number for number, known in (kind or {}).items() if known == text), None)


def output(state: dict[str, Any], tool: str, argv: list[str]) -> str:
    """Return what mstconfig or mlxconfig prints for ``argv``."""
    if argv == ["--version"]:
        return f"{tool}, mft 4.30.1-8, built on Nov 07 2024, 11:20:31. Git SHA Hash: N/A\n"
    words = [word for word in argv if word not in ("-e", "-y")]
    if len(words) < 3 or words[0] != "-d" or (words[2] == "set") != ("-y" in argv):
        lab_tool.refuse(f"{tool} of the lab does not simulate: {' '.join(argv)}")
    nic = nic_of(state, tool, words[1])
    if words[2] in ("q", "query") and len(words) == 3 and "-e" in argv:
        return query(nic, values_of(state, nic["rail"]))
    if words[2] in ("s", "set"):
        return change(state, nic, words[3:])
    lab_tool.refuse(f"{tool} of the lab does not simulate: {' '.join(argv)}")


def head(nic: dict[str, Any]) -> str:
    """Return the lines about the device."""
    return (
        "\nDevice #1:\n----------\n\n"
        "Device type:        ConnectX7           \n"
        "Name:               MCX75310AAS-NEA_Ax  \n"
        "Description:        NVIDIA ConnectX-7 HHHL Adapter card; 400GbE / NDR IB (default mode); Single-port OSFP\n"
        f"Device:             {nic['address']}\n\n"
    )


def query(nic: dict[str, Any], values: dict[str, tuple[int, int, int]]) -> str:
    """Return all settings."""
    rows = [head(nic) + f"{'Configurations:':52}{'Default':21}{'Current':21}Next Boot\n"]
    for name, numbers in values.items():
        star = "*" if numbers[2] not in numbers[:2] or numbers[0] != numbers[2] else " "
        mark = "RO" if name in READ_ONLY else ""
        values_shown = "".join(f"{shown(name, number):21}" for number in numbers)[:-1]
        rows.append(f"{star}{mark:2}{'':5}{name:44}{values_shown}\n")
    legend = "The '*' shows parameters with next value different from default/current value.\n"
    return "".join(rows) + legend + "\nThe 'RO' shows parameters which are for read only and cannot be changed\n"


def change(state: dict[str, Any], nic: dict[str, Any], words: list[str]) -> str:
    """Set values for the next boot."""
    values, new = values_of(state, nic["rail"]), {}
    rows = [head(nic) + f"{'Configurations:':52}{'Next Boot':16}New\n"]
    for word in words:
        name, _, text = word.partition("=")
        if name not in values:
            lab_tool.refuse(f"-E- The Device doesn't support {name} parameter", 3)
        if name in READ_ONLY:
            lab_tool.refuse(f"-E- {name} is a read only parameter", 3)
        number = number_of(name, text)
        if number is None:
            lab_tool.refuse(f"-E- Failed to parse the value {text} of {name}", 3)
        rows.append(f"{'':8}{name:44}{shown(name, values[name][2]):21}{shown(name, number)}\n")
        if state["nic_config"].get(nic["rail"], {}).get(name) != "ignored":
            new[name] = number
    lab_tool.keep(KEPT, nic["rail"], new)
    text = "\n Apply new Configuration? (y/n) [n] : y\nApplying... Done!\n"
    return "".join(rows) + text + "-I- Please reboot machine to load new configurations.\n"


def reset(state: dict[str, Any], tool: str, argv: list[str]) -> str:
    """Return what mstfwreset or mlxfwreset prints; what was set is in force then."""
    if len(argv) != 4 or argv[0] != "-d" or argv[2:] != ["-y", "reset"]:
        lab_tool.refuse(f"{tool} of the lab does not simulate: {' '.join(argv)}")
    nic = nic_of(state, tool, argv[1])
    lab_tool.keep(KEPT, nic["rail"], {}, boot="")
    return "-I- Sending Reset Command To Fw             -Done\n-I- FW was loaded successfully.\n"

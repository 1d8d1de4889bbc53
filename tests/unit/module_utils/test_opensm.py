"""What the installed OpenSM has to know, and what a running one has to say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.nic.opensm import (
    Answers,
    Dump,
    Manager,
    OpensmError,
    Port,
    infiniband_ports,
    misread,
    not_ready,
    parse_dump,
    parse_manager_lids,
    parse_pkeys,
    parse_sminfo,
    port_of,
    prove,
    render,
    unknown,
)

from tests.contracts.table import refuse_unknown
from tests.fake_host import FakeHost

# The layout of OpenSM 3.3.23; tests/infiniband holds the real one against the same functions.
DUMP = """#
# DEVICE ATTRIBUTES OPTIONS
guid 0x0000000000000000

# Supported engines: minhop, updn, dnup, file, ftree, lash,
#    dor, torus-2QoS, nue, dfsssp, sssp
routing_engine (null)

sm_priority 0
packet_life_time 0x12
qos FALSE
"""
ENGINES = {"minhop", "updn", "dnup", "file", "ftree", "lash", "dor", "torus-2QoS", "nue", "dfsssp", "sssp"}


class Host:
    """OpenSM with DUMP's keys; what it does not know it leaves out, as the real one does."""

    def __init__(self, dump=DUMP, rc=0):
        self.dump, self.rc, self.files = dump, rc, {}

    def run(self, argv, timeout_seconds):
        refuse_unknown(argv)
        wanted = dict(line.split(" ", 1) for line in Path(argv[2]).read_text().splitlines() if line[:1].isalpha())
        lines = [
            f"{line.split(' ')[0]} {wanted[line.split(' ')[0]]}" if line.split(" ")[0] in wanted else line
            for line in self.dump.splitlines()
        ]
        if self.rc == 0:
            Path(argv[4]).write_text("\n".join(lines) + "\n")
        return Output("OpenSM\n", "no memory", self.rc)

    def read(self, path):
        return Output(self.files[path])

    def paths(self, *patterns):
        return sorted(path for path in self.files if path.endswith("link_layer"))


def test_dump_tells_keys_and_engines():
    dump = parse_dump(DUMP)
    assert dump.engines == ENGINES
    assert dump.values == {
        "guid": "0x0000000000000000",
        "routing_engine": "(null)",
        "sm_priority": "0",
        "packet_life_time": "0x12",
        "qos": "FALSE",
    }


@pytest.mark.parametrize("text", ["", "garbage", DUMP.replace("Supported engines:", ""), "# Supported engines: a\n"])
def test_dump_without_keys_or_engines_is_no_dump(text):
    with pytest.raises(OpensmError, match="expected both"):
        parse_dump(text)


@pytest.mark.parametrize(
    ("settings", "lacking"),
    [
        ({"routing_engine": "updn"}, []),
        ({"routing_engine": "torus-2QoS,updn,no_fallback"}, []),
        ({"routing_engine": "ar_updn"}, ["no routing engine 'ar_updn'"]),
        ({"routing_engine": "updn,ar_ftree"}, ["no routing engine 'ar_ftree'"]),
        # Part of another engine's name is none.
        ({"routing_engine": "torus"}, ["no routing engine 'torus'"]),
        ({"ar_sl_mask": "0xFFFF", "qos": "TRUE"}, ["no key 'ar_sl_mask'"]),
    ],
)
def test_key_or_engine_that_the_version_lacks_is_named(settings, lacking):
    found = unknown(settings, parse_dump(DUMP))
    assert len(found) == len(lacking) and all(map(str.startswith, found, lacking))


@pytest.mark.parametrize(
    ("meant", "read", "right"),
    [
        ("14", "14", True),
        ("0x0e", "14", True),
        ("18", "0x12", True),
        ("TRUE", "TRUE", True),
        ("TRUE", "FALSE", False),
        ("many", "5", False),
        ("14", None, False),
    ],
)
def test_value_counts_as_read_only_where_it_is_the_meant_one(meant, read, right):
    loaded = Dump({} if read is None else {"key": read}, frozenset(ENGINES))
    assert (misread({"key": meant}, loaded) == []) is right


def test_prove_takes_a_configuration_that_opensm_takes():
    prove(Host(), "opensm", {"routing_engine": "ftree", "sm_priority": "14"})


@pytest.mark.parametrize(
    ("host", "settings", "message"),
    [
        (Host(), {"routing_engine": "ar_updn"}, "no routing engine 'ar_updn'"),
        (Host(), {"ar_mode": "1"}, "no key 'ar_mode'"),
        (Host(rc=1), {}, "gave 1, expected 0 and a dump: no memory"),
        (Host(dump=""), {}, "0 keys and 0 routing engines"),
    ],
)
def test_prove_refuses_what_opensm_would_go_on_without(host, settings, message):
    with pytest.raises(OpensmError, match=message):
        prove(host, "opensm", settings)


def test_rendered_configuration_is_sorted_and_says_nothing_else():
    assert render({"b": "2", "a": "1"}).splitlines()[1:] == ["a 1", "b 2"]


A, B = Port("mlx5_0", "1", "0x1"), Port("mlx5_1", "1", "0x2")


@pytest.mark.parametrize(("ports", "device", "expected"), [([A], "", A), ([A, B], "mlx5_1", B), ([A], "mlx5_0", A)])
def test_port_is_the_named_one_or_the_only_one(ports, device, expected):
    assert port_of(ports, device) is expected


@pytest.mark.parametrize(("ports", "device"), [([], ""), ([A, B], ""), ([A], "mlx5_1")])
def test_port_is_never_guessed(ports, device):
    with pytest.raises(OpensmError, match="InfiniBand ports of this host"):
        port_of(ports, device)


def test_infiniband_ports_leave_out_ethernet_and_know_their_guid():
    host = Host()
    for device, layer, gid in (
        ("mlx5_0", "InfiniBand", "fe80:0000:0000:0000:946d:ae03:0011:2233"),
        ("mlx5_1", "Ethernet", "0000:0000:0000:0000:0000:ffff:0a00:0001"),
    ):
        base = f"/sys/class/infiniband/{device}/ports/1"
        host.files |= {f"{base}/link_layer": f"{layer}\n", f"{base}/gids/0": f"{gid}\n"}
    assert infiniband_ports(host) == [Port("mlx5_0", "1", "0x946dae0300112233")]
    host.files["/sys/class/infiniband/mlx5_0/ports/1/gids/0"] = "fe80:0000:0000:0000:0000:0000:0000:0000\n"
    with pytest.raises(OpensmError, match="expected one with the port's GUID"):
        infiniband_ports(host)


def test_port_that_manages_nvswitches_is_none_of_a_fabric():
    pci = "/sys/bus/pci/devices"
    files = {}
    for number, (device, vpd) in enumerate((("mlx5_0", "SN MT1"), ("mlx5_1", "V3 SW_MNG"))):
        base, port = f"{pci}/0000:0{number}:00.0", f"/sys/class/infiniband/{device}/ports/1"
        files |= {f"{base}/vendor": "0x15b3\n", f"{base}/class": "0x020700\n", f"{base}/vpd": vpd}
        files |= {f"{base}/infiniband/{device}": "", f"{port}/link_layer": "InfiniBand\n"}
        files[f"{port}/gids/0"] = f"fe80:0000:0000:0000:946d:ae03:0011:223{number}\n"
    ports = infiniband_ports(FakeHost({path: Output(text) for path, text in files.items()}))
    assert ports == [Port("mlx5_0", "1", "0x946dae0300112230")]
    with pytest.raises(OpensmError, match="expected one port of mlx5_1"):
        port_of(ports, "mlx5_1")


SMINFO = "sminfo: sm lid 1 sm guid 0x100001, activity count 116 priority 14 state 3 SMINFO_MASTER\n"
PKEYS = "   0: 0x8011 0xffff 0x0000 0x8012 0x0000 0x0000 0x0000 0x0000 \n8 pkeys capacity for this port\n"


def test_sminfo_tells_the_manager():
    assert parse_sminfo(SMINFO) == Manager(1, "0x100001", 14, "MASTER")
    assert parse_sminfo("sminfo: iberror: failed: query\n") is None
    assert parse_sminfo(SMINFO[:60]) is None


def test_pkeys_are_whole_or_nothing():
    assert parse_pkeys(PKEYS) == [0x8011, 0xFFFF, 0, 0x8012]
    assert parse_pkeys(PKEYS.splitlines()[0]) is None
    assert parse_pkeys(PKEYS.replace("8 pkeys", "16 pkeys")) is None
    assert parse_pkeys("") is None


RECORD = "SMInfoRecord dump:\n\t\tRID\n\t\tLID...................{}\n\t\tSMInfo dump:\n\t\tSMState...............3\n"


def test_managers_are_all_of_the_list_or_none():
    both = RECORD.format(3) + RECORD.format(1)
    assert parse_manager_lids(both) == [3, 1]
    for end in range(len(RECORD.format(3)) + 1, len(both) - 2):
        assert parse_manager_lids(both[:end]) in (None, [3])
    assert parse_manager_lids(both[:-30]) is None and parse_manager_lids("") is None
    assert parse_manager_lids(both.replace("LID", "DIL", 1)) is None


FIRST, SECOND = Manager(1, "0x1", 14, "MASTER"), Manager(3, "0x3", 13, "STANDBY")


def state(manager, word):
    return dataclasses.replace(manager, state=word)


def answers(own=FIRST, leader=FIRST, managers=(FIRST, SECOND), pkeys=(0xFFFF, 0x8011), link_state="Active"):
    """Those of a fabric that FIRST leads, unless told otherwise."""
    table = None if pkeys is None else list(pkeys)
    return Answers(own, link_state, table, leader, None if managers is None else list(managers))


@pytest.mark.parametrize(
    ("given", "priority", "says"),
    [
        (answers(), 14, ""),
        (answers(managers=[FIRST]), 14, ""),
        (answers(SECOND), 13, ""),
        (answers(state(FIRST, "DISCOVER")), 14, "is DISCOVER"),
        (answers(None), 14, "is silent"),
        (answers(), 15, "priority 14, expected 15"),
        (answers(pkeys=None), 14, "could not be read"),
        # Limited membership is none: limited members do not hear each other.
        (answers(pkeys=[0xFFFF, 0x0011]), 14, "no full member of 0x0011"),
        (answers(pkeys=[]), 14, "no full member of 0x7fff, 0x0011"),
        (answers(link_state="Initialize"), 14, "link is Initialize, expected Active"),
        (answers(link_state=None), 14, "link is None"),
        # Nobody leads: the other one gave way, and this one says that it leads and never swept.
        (answers(leader=SECOND), 14, "expected MASTER"),
        (answers(SECOND, state(FIRST, "STANDBY")), 13, "expected MASTER"),
        (answers(leader=None), 14, "none that answers"),
        # Two lead.
        (answers(leader=state(SECOND, "MASTER")), 14, "the port was given that of 0x3"),
        (answers(managers=[FIRST, state(SECOND, "MASTER")]), 14, "2 subnet managers lead"),
        (answers(SECOND, managers=[FIRST, SECOND, Manager(5, "0x5", 12, "MASTER")]), 13, "2 subnet managers lead"),
        (answers(managers=[state(FIRST, "STANDBY"), SECOND]), 14, "0 subnet managers lead"),
        # It stands by although it comes first.
        (answers(state(FIRST, "STANDBY"), state(SECOND, "MASTER")), 14, "stands by with priority 14"),
        (answers(managers=None), 14, "did not all answer"),
        (answers(managers=[FIRST, None]), 14, "did not all answer"),
        (answers(SECOND, managers=[FIRST]), 13, "did not all answer"),
    ],
)
def test_manager_is_ready_only_where_one_leads_and_everything_declared_is_there(given, priority, says):
    found = not_ready(given, priority, [0x7FFF, 0x11])
    assert says in found and bool(says) is bool(found), found

"""Which machine answered, whether it is the one of then, and whose name it bears."""

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination import registry
from ansible_collections.muster.cluster.plugins.module_utils.judging.fingerprint import fingerprint_of
from ansible_collections.muster.cluster.plugins.module_utils.judging.identity import (
    Machine,
    Misnamed,
    claims_of,
    cloned,
    hardware_identifiers,
    identity_of,
    misnamed,
    same_machine,
)
from ansible_collections.muster.cluster.plugins.module_utils.judging.placeholders import real
from ansible_collections.muster.cluster.plugins.module_utils.probes.dmidecode import Firmware
from ansible_collections.muster.cluster.plugins.module_utils.probes.redfish import Documents
from ansible_collections.muster.cluster.plugins.module_utils.probes.slurmd import Slurmd

from tests.typed import typed

UUID = "4c4c4544-0053-5210-8038-c8c04f583034"


def machine(number, **changes):
    """Return what machine ``number`` says of itself; ``changes`` are other values of its identity or fingerprint."""
    identity = {
        "board_uuid": f"4c4c4544-0053-5210-8038-c8c04f58{number:04}",
        "board_serial": f"BRD{number:06}",
        "system_serial": "CHASSIS7",
        "bmc_mac": f"7c:c2:55:09:{number:02}:e0",
        "hostname": f"gpu-{number:02}",
        "machine_id": f"{number:032x}",
        "ssh_host_keys": f"ssh-ed25519=SHA256:e{number},ssh-rsa=SHA256:r{number}",
        "slurmd_node": f"gpu-{number:02}",
    }
    fingerprint = {
        "gpu_serials": ",".join(f"0000:{slot:02}:00.0=1651{number:02}{slot:04}" for slot in range(8)),
        "nic_guids": ",".join(f"rail{slot}=b83f:d203:{number:04}:{slot:04}" for slot in range(8)),
        "dimms": ",".join(f"A{slot}=M321/{number:04}{slot:04}" for slot in range(16)),
        "drives": ",".join(f"0000:{slot:02}:00.0=S5X{number:02}{slot:04}" for slot in range(8)),
        "cables": "rail0=OSFP-DR4/MT2231VS",
    }
    shown = {**identity, **fingerprint, **changes}
    return Machine({name: shown[name] for name in identity}, {name: shown[name] for name in fingerprint})


def test_healthy_host_says_who_it_is(fake_host, expect):
    values = registry.examine("preflight", fake_host, typed(expect)).values
    identity = identity_of(values, typed(expect))
    assert identity == {
        "board_uuid": "00000000-0000-4000-8000-000000000000",
        "board_serial": "LAB-gpu-01",
        "system_serial": "LAB-gpu-01",
        "bmc_mac": "7c:c2:55:09:5b:e0",
        "hostname": "gpu-01",
        "machine_id": "5f2b8c1e9a7d4e63b0c4d8f1a2e6b397",
        "ssh_host_keys": "ssh-ed25519=SHA256:widz3VCUYi2fsm+1uVEi8eot0UaINxQLNItj+4/Ljio,"
        "ssh-rsa=SHA256:xghIfzmvOaz8VwUv7hHadfTC0pVLFQTsR13DHeQt6OI",
        "slurmd_node": "gpu-01",
        "slurmd_started": "2026-11-20T06:03:11",
        "boot_time": "1795154530",
    }
    claims = claims_of(identity, fingerprint_of(values, typed(expect)))
    assert hardware_identifiers(claims) == ALL
    assert misnamed(identity, "gpu-01", {"gpu-01", "gpu-02"}) is None


@pytest.mark.parametrize("stage", ["preflight", "burn_in"])
def test_both_examinations_say_who_the_host_is(fake_host, expect, stage):
    identity = identity_of(registry.examine(stage, fake_host, typed(expect)).values, typed(expect))
    assert [name for name, value in identity.items() if value is None] == []


def test_identity_of_nothing_is_unread_and_of_what_is_not_there_is_none(expect):
    assert set(identity_of({}).values()) == {None}
    assert identity_of({}, typed({**expect, "bmc": None}))["bmc_mac"] == "none"
    assert identity_of({"slurmd": Slurmd()})["slurmd_node"] == "none"
    assert identity_of({"slurmd": Slurmd(("a", "b"), "t")})["slurmd_node"] == "a,b"
    documents = Documents((), (), None, None, {}, "7c:c2:55:1f:08:a4")
    assert identity_of({"redfish": documents})["bmc_mac"] == "7c:c2:55:1f:08:a4"


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "   ", "N/A", "none", "Unknown", "Not Specified", "Not Available", "NULL", "Invalid", "NO DIMM"),
        *("To be filled by O.E.M.", "To Be Filled By O.E.M", "Default string", "Default_string", "O.E.M."),
        *("System Serial Number", "Base Board Serial Number", "Chassis Serial Number", "<BAD INDEX>", "<OUT OF SPEC>"),
        *("0123456789", "123456789", "1234567890", "0123456789ABCDEF", "00000000", "FFFFFFFF", "XXXXXXXX", "........"),
        *("03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009", "1"),
        *("00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "Not Settable"),
        *("12345678-1234-5678-90ab-cddeefaabbcc", "00010203-0405-0607-0809-0A0B0C0D0E0F"),
        # As osquery, GLPI and reports of machines have them.
        *("03020100-0504-0706-0809-0a0b0c0d0e0f", "10000000-0000-8000-0040-000000000000"),
        *("78563412-3412-7856-90AB-CDDEEFAABBCC", "01234567-8910-1112-1314-151617181920"),
        *("01234567890123456789AB", "0123456789AB", "0123456789ABCDEF0123", "12345678901234567", "123456789000"),
        *("BSN12345678901234567", "MB-1234567890", "SYS-1234567890", "SYS-9876543210", "SN-12345", "sn-0000000000"),
        *("87654321", "9876543210", "0987654321", "FEDCBA98", "0x00000000", "0xFFFFFFFF", "0x", "NNNNNNN"),
        *("Type2 - Board Serial Number", "Type1 - TBD by OEM", "Filled By OEM", "Fill By OEM", "To Be Set By OEM"),
        *("No Asset Tag", "Not Defined", "(null string)", "Unknow", "EVAL", "Serial Number xxxxxx"),
        *("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "00:11:22:33:44:55", "0000:0000:0000:0000"),
    ],
)
def test_what_a_maker_left_there_is_no_identifier(text):
    assert real(text) is None
    assert identity_of({"dmidecode": Firmware(None, None, None, text, text, None, text)})["board_uuid"] is None
    assert claims_of({"board_uuid": text, "board_serial": text, "bmc_mac": text}, {}) == frozenset()


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        (UUID, "4c4c454400535210 8038c8c04f583034".replace(" ", "")),
        (UUID.upper(), "4c4c454400535210 8038c8c04f583034".replace(" ", "")),
        # A maker that puts the BMC's MAC address behind zeros.
        ("00000000-0000-0000-0000-7CC25550A8FF", "000000000000000000007cc25550a8ff"),
        ("HSR8X04", "hsr8x04"),
        (" 7C:C2:55:09:5B:E0 ", "7cc255095be0"),
        ("1650222000123", "1650222000123"),
        ("51000000", "51000000"),
        # Counted for a while; a number behind the same letters; a date; a number that begins like one in sixteens.
        ("1234567891", "1234567891"),
        ("12345679", "12345679"),
        ("98765433", "98765433"),
        ("MB-1234567899", "mb1234567899"),
        ("MB12", "mb12"),
        ("SN-20241123", "sn20241123"),
        ("0X81F00273", "0x81f00273"),
    ],
)
def test_identifiers_are_compared_without_case_and_signs(text, bare):
    assert real(text) == bare


def test_claims_are_what_no_other_machine_has():
    claims = claims_of(*machine(1))
    assert {kind for kind, _ in claims} == {"board_uuid", "board_serial", "bmc_mac", "gpu", "nic", "dimm", "drive"}
    assert len(claims) == 3 + 8 + 8 + 16 + 8
    # Twins share their chassis; two ends share a cable; an image has its keys in each copy.
    assert not claims & claims_of(*machine(2, system_serial="CHASSIS7", cables=machine(1).fingerprint["cables"]))


def test_one_part_in_two_machines_is_claimed_twice():
    moved = machine(2, gpu_serials=str(machine(2).fingerprint["gpu_serials"]).replace("1651020003", "1651010003"))
    assert claims_of(*machine(1)) & claims_of(*moved) == {("gpu", "1651010003")}


ALL = {"board", "BMC", "GPUs", "NICs", "memory modules", "drives"}


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({}, ALL),
        ({"board_uuid": "03000200-0400-0500-0006-000700080009"}, ALL),
        ({"board_uuid": None, "board_serial": "Default string"}, ALL - {"board"}),
        (
            {"bmc_mac": "none", "gpu_serials": "none", "nic_guids": "none", "dimms": None, "drives": "none"},
            # UUID and serial number are of one board, and are no two.
            {"board"},
        ),
    ],
)
def test_independent_identifiers_of_hardware(changes, kinds):
    assert hardware_identifiers(claims_of(*machine(1, **changes))) == kinds


ONE = {name: str(value) for name, value in machine(1).fingerprint.items()}
OTHER = machine(2)
BOARD = {name: OTHER.identity[name] for name in ("board_uuid", "board_serial", "bmc_mac")}
KEYS = {name: OTHER.identity[name] for name in ("ssh_host_keys", "machine_id")}
UNKNOWN = dict.fromkeys(("board_uuid", "board_serial", "bmc_mac"))


@pytest.mark.parametrize(
    ("now", "same", "text"),
    [
        (machine(1), True, ""),
        (OTHER, False, "other board; other BMC; other GPUs; other NICs; other memory modules; other drives"),
        # A new motherboard in the same chassis, with all that was plugged into the old one.
        (machine(1, **BOARD), True, "other board; other BMC"),
        # A rotated host key, a new installation: tied by the hardware.
        (machine(1, **KEYS), True, "other SSH host keys; other machine id"),
        (machine(1, ssh_host_keys="ssh-ed25519=SHA256:new,ssh-rsa=SHA256:r1"), True, ""),
        # The boot drive of machine 1 in machine 2: keys and name came along, the machine did not.
        (machine(2, **{name: machine(1).identity[name] for name in (*KEYS, "hostname")}), False, "other board"),
        (machine(1, gpu_serials=OTHER.fingerprint["gpu_serials"]), True, "other GPUs"),
        # Of eight parts one was exchanged, then four were.
        (machine(1, drives=ONE["drives"].replace("S5X010003", "S5X990003")), True, ""),
        (machine(1, drives=",".join(ONE["drives"].split(",")[:4])), True, "other drives"),
        # Half of everything: whoever took two machines apart has to say which is which.
        (machine(1, **BOARD, dimms=OTHER.fingerprint["dimms"]), None, "other board; other BMC; other memory modules"),
        (machine(1, board_uuid=None, bmc_mac=None), True, ""),
        (Machine({}, {}), None, "no identifier of hardware is known of both"),
        (Machine(machine(1).identity, {}), True, ""),
        # A record from before identities: GPUs alone tie it.
        (Machine({}, {"gpu_serials": machine(1).fingerprint["gpu_serials"]}), True, ""),
        (Machine({}, {"gpu_serials": OTHER.fingerprint["gpu_serials"]}), False, "other GPUs"),
    ],
)
def test_machine_is_the_one_of_then(now, same, text):
    for one, two in ((machine(1), now), (now, machine(1))):
        found = same_machine(one, two)
        assert found.same is same
        assert found.text.startswith(text) and bool(found.text) == bool(text)


def test_software_alone_ties_nothing():
    placeholders = dict.fromkeys(UNKNOWN, "Default string")
    bare = Machine({**machine(1).identity, **placeholders}, {})
    assert same_machine(bare, bare).same is None


FLEET = {"gpu-01", "gpu-02", "gpu-03", "gpu-04.cluster.example"}


@pytest.mark.parametrize(
    ("slurmd", "hostname", "expected"),
    [
        ("gpu-01", "gpu-01", None),
        ("gpu-01", "gpu-01.cluster.example", None),
        ("gpu-01", "GPU-01", None),
        # slurm.conf may give nodes other names than their hosts have (NodeHostname).
        ("gpu-01", "ip-10-0-0-1", None),
        ("gpu-01", None, None),
        ("gpu-02", "gpu-02", ("slurmd", "gpu-02", True)),
        ("gpu-02", "gpu-01", ("slurmd", "gpu-02", True)),
        ("n17", "gpu-01", ("slurmd", "n17", True)),
        ("gpu-01,gpu-02", "gpu-01", ("slurmd", "gpu-01,gpu-02", True)),
        # By one name it is this node, by the other that one.
        ("gpu-01", "gpu-02.cluster.example", ("hostname", "gpu-02.cluster.example", True)),
        ("gpu-01", "gpu-04.cluster.example", ("hostname", "gpu-04.cluster.example", True)),
        (None, "gpu-02", ("hostname", "gpu-02", True)),
        ("none", "gpu-02", ("hostname", "gpu-02", True)),
        (None, "gpu-01", ("slurmd", "", False)),
        (None, None, ("slurmd", "", False)),
        ("none", "gpu-01", None),
        ("none", "ip-10-0-0-1", ("hostname", "ip-10-0-0-1", False)),
        ("none", None, ("hostname", "", False)),
    ],
)
def test_name_of_a_machine(slurmd, hostname, expected):
    found = misnamed({"slurmd_node": slurmd, "hostname": hostname}, "gpu-01", FLEET)
    if expected is None:
        assert found is None
    else:
        assert isinstance(found, Misnamed) and (found.by, found.name, found.certain) == expected
        assert found.text


def test_record_that_says_nothing_of_its_machine_is_not_shown_to_be_the_node():
    found = misnamed({}, "gpu-01", FLEET)
    assert found is not None and not found.certain


def test_copied_image_is_told_with_its_nodes():
    one, two = machine(1).identity, machine(2).identity
    same_id = {**two, "machine_id": one["machine_id"]}
    same_key = {**two, "ssh_host_keys": f"{one['ssh_host_keys']},ssh-dss=SHA256:x"}
    assert cloned({"gpu-01": one, "gpu-02": two}) == []
    assert cloned({"gpu-01": one, "gpu-02": same_id}) == [
        f"machine id {one['machine_id']} is that of gpu-01, gpu-02: copied from one installation"
    ]
    assert [text.split(" is ")[0] for text in cloned({"gpu-01": one, "gpu-02": same_key})] == [
        "SSH host key ssh-ed25519=SHA256:e1",
        "SSH host key ssh-rsa=SHA256:r1",
    ]
    # One machine under two names is no copy; one whose board does not tell may be.
    assert cloned({"gpu-01": one, "gpu-02": one}) == []
    assert len(cloned({"gpu-01": one, "gpu-02": {**same_id, "board_uuid": None}})) == 1
    everywhere = {f"gpu-{n:02}": {**machine(n).identity, "machine_id": "f00d"} for n in range(1, 20)}
    assert cloned(everywhere) == [
        "machine id f00d is that of gpu-01, gpu-02, gpu-03, gpu-04, gpu-05 and 14 more: copied from one installation"
    ]

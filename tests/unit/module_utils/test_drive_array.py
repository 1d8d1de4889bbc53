"""RAID0 over drives: made of blank ones, kept where it is as declared, refused where anything would be lost."""

from __future__ import annotations

import json
from dataclasses import replace
from fnmatch import fnmatch

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.formats.nvme import Drive, DrivesWanted
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.storage_setup.drive_array import (
    ArrayError,
    Disk,
    Member,
    Plan,
    chosen,
    must_format,
    parse_member,
    parse_signatures,
    plan,
)
from ansible_collections.muster.cluster.plugins.modules.storage_array import reconcile

from tests.contracts.table import refuse_unknown

OURS = Member("1:2:3:4", "muster-scratch", "raid0", 2)
BLANK = [Disk(f"/dev/nvme{n}n1", f"nvme{n}n1 at 0000:0{n}:00.0 (serial A{n})") for n in range(2)]
MEMBERS = [replace(disk, contents=("linux_raid_member",), member=OURS) for disk in BLANK]
RUNNING = [replace(disk, holders=("md127",)) for disk in MEMBERS]


def test_blank_drives_become_an_array():
    assert plan("scratch", BLANK, erase=False) == Plan(create=True)


@pytest.mark.parametrize("erase", [False, True])
def test_array_as_declared_is_kept_whatever_may_be_erased(erase):
    assert plan("scratch", RUNNING, erase) == Plan(device="/dev/md127")
    assert plan("scratch", [replace(disk, mounted=("/scratch",)) for disk in RUNNING], erase).changes is False
    assert plan("scratch", MEMBERS, erase) == Plan(assemble="1:2:3:4")


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (replace(BLANK[1], contents=("ext4",)), "nvme1n1 at 0000:01:00.0 (serial A1) holds ext4"),
        (replace(BLANK[1], contents=("gpt", "partition nvme1n1p1")), "holds gpt, partition nvme1n1p1"),
        (replace(BLANK[1], holders=("dm-0",)), "holds what dm-0 uses"),
        (
            replace(BLANK[1], contents=("linux_raid_member",), member=Member("9", "data", "raid1", 3)),
            "holds linux_raid_member of array data with 3 drives",
        ),
        # One of ours beside a new drive: RAID0 has lost what was there, but that is for a person to say.
        (MEMBERS[1], "holds linux_raid_member of array muster-scratch with 2 drives"),
    ],
)
def test_anything_else_on_a_drive_is_refused_and_named(second, said):
    with pytest.raises(ArrayError) as caught:
        plan("scratch", [BLANK[0], second], erase=False)
    assert said in str(caught.value)
    assert "(1 of 2 drives blank)" in str(caught.value)
    assert "checkpoint_storage_erase" in str(caught.value)


@pytest.mark.parametrize(
    "member",
    [
        replace(OURS, name="muster-other"),
        replace(OURS, level="raid1"),
        replace(OURS, devices=3),
    ],
)
def test_another_array_over_the_same_drives_is_refused(member):
    with pytest.raises(ArrayError, match="holds linux_raid_member"):
        plan("scratch", [replace(disk, member=member) for disk in MEMBERS], erase=False)


def test_two_arrays_of_our_name_are_refused():
    with pytest.raises(ArrayError, match="holds linux_raid_member"):
        plan("scratch", [MEMBERS[0], replace(MEMBERS[1], member=replace(OURS, uuid="5"))], erase=False)


def test_erase_stops_who_uses_the_drives_and_makes_a_new_array():
    old = [replace(disk, member=replace(OURS, name="data")) for disk in RUNNING]
    assert plan("scratch", old, erase=True) == Plan(erase=tuple(old), stop=("md127",), create=True)
    one = [BLANK[0], replace(BLANK[1], contents=("ext4",))]
    assert plan("scratch", one, erase=True) == Plan(erase=(one[1],), create=True)


@pytest.mark.parametrize("erase", [False, True])
def test_mounted_drive_is_refused_even_with_erase(erase):
    with pytest.raises(ArrayError, match=r"mounted: nvme1n1 .* at /data; expected drives that nobody uses"):
        plan("scratch", [BLANK[0], replace(BLANK[1], contents=("ext4",), mounted=("/data",))], erase)


def test_drive_below_device_mapper_is_refused_even_with_erase():
    with pytest.raises(ArrayError, match="used by dm-0"):
        plan("scratch", [BLANK[0], replace(BLANK[1], contents=("LVM2_member",), holders=("dm-0",))], erase=True)


def test_array_half_of_which_runs_is_refused():
    with pytest.raises(ArrayError, match=r"used differently \(nvme0n1 .* by md127, nvme1n1 .* by nobody\)"):
        plan("scratch", [RUNNING[0], MEMBERS[1]], erase=True)


def test_file_system_is_made_once_and_another_one_is_kept_unless_it_may_be_lost():
    assert must_format("scratch", (), erase=False) is True
    assert must_format("scratch", ("xfs",), erase=True) is False
    assert must_format("scratch", ("ext4",), erase=True) is True
    with pytest.raises(ArrayError, match="array scratch: holds ext4, expected xfs or nothing"):
        must_format("scratch", ("ext4",), erase=False)


@pytest.mark.parametrize(
    "output",
    [Output("{", rc=0), Output('{"signatures": 1}'), Output(rc=1, stderr="no such device"), Output(rc=None, error="x")],
)
def test_unreadable_signatures_are_no_blank_drive(output):
    with pytest.raises(ArrayError, match="/dev/nvme0n1"):
        parse_signatures(output, "/dev/nvme0n1")


def test_signatures_are_named_once():
    given = {"signatures": [{"type": "gpt"}, {"type": "gpt"}, {"type": "PMBR"}]}
    assert parse_signatures(Output(json.dumps(given)), "d") == ("gpt", "PMBR")
    assert parse_signatures(Output(""), "d") == ()


def test_member_without_its_fields_is_an_error():
    text = "MD_LEVEL=raid0\nMD_DEVICES=2\nMD_NAME=any:muster-scratch\nMD_UUID=1:2:3:4\n"
    assert parse_member(Output(text), "d") == OURS
    for line in ("MD_LEVEL=raid0\n", "MD_DEVICES=2\n", "MD_UUID=1:2:3:4\n"):
        with pytest.raises(ArrayError, match="expected MD_UUID"):
            parse_member(Output(text.replace(line, "")), "d")


DRIVES = [
    Drive("nvme0", "0000:01:00.0", "DATA", namespace="nvme0n1"),
    Drive("nvme1", "0000:02:00.0", "DATA", namespace="nvme1n1"),
    Drive("nvme2", "0000:03:00.0", "BOOT", namespace="nvme2n1"),
]
WANTED = DrivesWanted(2, None, "DATA", None)


def test_drives_are_those_of_the_declaration():
    assert chosen(DRIVES, WANTED, {}) == DRIVES[:2]
    one = DrivesWanted(1, ["0000:02:00.0"], None, None)
    assert chosen(DRIVES, one, {}) == [DRIVES[1]]
    assert chosen(DRIVES, replace(WANTED, numa_node=1), {"nvme0": 0, "nvme1": 1}) == [DRIVES[1]]


@pytest.mark.parametrize(
    ("drives", "change", "said"),
    [
        (DRIVES[1:], {}, r"1 of 2 NVMe drives found; there: .*0000:03:00.0 \(BOOT\); expected: DATA"),
        (DRIVES, {"numa_node": 3}, "no NVMe drive on NUMA node 3"),
        ([DRIVES[0], replace(DRIVES[1], namespace=None)], {}, "nvme1 at 0000:02:00.0 has no namespace"),
        ([], {}, "0 of 2 NVMe drives found; there: none"),
    ],
)
def test_drive_that_is_missing_is_an_error(drives, change, said):
    with pytest.raises(ArrayError, match=said):
        chosen(drives, replace(WANTED, **change), {})


class Machine:
    """Two NVMe drives and the tools that work on them, with what they did."""

    def __init__(self):
        self.files = {"/proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"}
        for n in range(2):
            values = {"address": f"0000:0{n}:00.0", "model": "DATA", "serial": f"A{n}", "state": "live"}
            self.files |= {f"/sys/class/nvme/nvme{n}/{name}": f"{value}\n" for name, value in values.items()}
            self.files |= {f"/sys/class/nvme/nvme{n}/nvme{n}n1/size": "8\n"}
            self.files |= {f"/sys/class/block/nvme{n}n1/dev": f"259:{n}\n"}
        self.contents = {}
        self.did = []

    def read(self, path):
        return Output(self.files[path]) if path in self.files else Output(rc=None, error=f"{path}: not there")

    def paths(self, *patterns):
        return sorted({path for path in self.files for pattern in patterns if fnmatch(path, pattern)})

    def run(self, argv, timeout_seconds):
        refuse_unknown(argv)
        device = argv[-1]
        if argv[0] == "wipefs" and "--no-act" in argv:
            kind = self.contents.get(device)
            return Output(json.dumps({"signatures": [{"type": kind}]}) if kind else "")
        if argv[0] == "mdadm" and "--examine" in argv:
            return Output("MD_LEVEL=raid0\nMD_DEVICES=2\nMD_NAME=muster-scratch\nMD_UUID=1:2:3:4\n")
        if argv[0] == "blkid":
            return Output("5f0c-uuid\n" if self.contents.get(device) == "xfs" else "\n")
        if argv[0] == "udevadm":
            return Output()
        self.did.append(" ".join(argv))
        if argv[0] == "wipefs":
            for each in argv[1:]:
                self.contents.pop(each, None)
        elif "--create" in argv:
            for n in range(2):
                self.contents[f"/dev/nvme{n}n1"] = "linux_raid_member"
                self.files[f"/sys/class/block/nvme{n}n1/holders/md127"] = ""
                self.files["/sys/class/block/md127/dev"] = "9:127\n"
        elif argv[0] == "mkfs.xfs":
            self.contents[device] = "xfs"
        return Output()


ARRAYS = [{"name": "scratch", **vars(WANTED)}]


def test_array_is_made_once_and_then_nothing_changes():
    machine = Machine()
    assert reconcile(machine, ARRAYS, erase=False, check=True)["changed"] is True
    assert machine.did == []
    first = reconcile(machine, ARRAYS, erase=False, check=False)
    assert (first["changed"], first["uuids"]) == (True, {"scratch": "5f0c-uuid"})
    assert [each.split()[0] for each in machine.did] == ["mdadm", "mkfs.xfs"]
    assert "--level=raid0 --raid-devices=2" in machine.did[0]
    machine.did.clear()
    again = reconcile(machine, ARRAYS, erase=True, check=False)
    assert (again["changed"], again["uuids"], machine.did) == (False, {"scratch": "5f0c-uuid"}, [])


def test_drive_with_data_stops_before_anything_is_changed():
    machine = Machine()
    machine.contents["/dev/nvme1n1"] = "ext4"
    with pytest.raises(ArrayError, match=r"nvme1n1 at 0000:01:00.0 \(serial A1\) holds ext4"):
        reconcile(machine, ARRAYS, erase=False, check=False)
    assert machine.did == []
    assert reconcile(machine, ARRAYS, erase=True, check=False)["changed"] is True
    assert machine.did[0] == "wipefs --all --force /dev/nvme1n1"


def test_run_that_was_stopped_before_the_file_system_goes_on():
    machine = Machine()
    reconcile(machine, ARRAYS, erase=False, check=False)
    del machine.contents["/dev/md127"]
    machine.did.clear()
    assert reconcile(machine, ARRAYS, erase=False, check=False)["changed"] is True
    assert machine.did == ["mkfs.xfs -q -f /dev/md127"]


def test_what_an_earlier_array_left_in_the_same_place_is_not_taken_over():
    machine = Machine()
    machine.contents["/dev/md127"] = "xfs"
    reconcile(machine, ARRAYS, erase=False, check=False)
    assert "mkfs.xfs -q -f /dev/md127" in machine.did

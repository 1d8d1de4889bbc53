"""What is mounted, held against what is declared; the units that mount it."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.formats.mounts import (
    Mount,
    addresses_of,
    difference,
    mount_unit,
    mounted_at,
    mounts_of,
    unit_name,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost, Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.storage_setup.mount_apply import (
    KEEPER,
    UNITS,
    Applier,
    Wish,
)
from ansible_collections.muster.cluster.plugins.module_utils.words import expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import read

# As the kernel of Debian 12 shows it.
NFS_LINE = (
    "90 25 0:55 / /checkpoints rw,noatime shared:50 - nfs4 10.0.0.9:/srv/checkpoints "
    "rw,vers=4.2,rsize=262144,wsize=262144,namlen=255,hard,proto=tcp,nconnect=16,timeo=600,retrans=2,sec=sys,"
    "clientaddr=10.0.0.1,local_lock=none,addr=10.0.0.9\n"
)
ROOT_LINE = "25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
OPTIONS = ["vers=4.2", "rsize=1048576", "hard", "timeo=600", "noatime", "proto=tcp", "nconnect=16"]
NFS = {
    "tier": "checkpoints",
    "kind": "nfs",
    "path": "/checkpoints",
    "filesystem": "nfs4",
    "source": "10.0.0.9:/srv/checkpoints",
    "options": OPTIONS,
    "numa_node": None,
    "stripe_count": None,
    "write_ms": 1000,
    "free_percent": 5,
}
SCRATCH = {**NFS, "tier": "scratch", "kind": "local", "path": "/scratch", "filesystem": "xfs", "source": None}
SCRATCH["options"] = ["noatime"]


def declared(mount):
    return read(expectations.Mount, mount)


def nfs(change=("", ""), line=NFS_LINE) -> Mount:
    assert change[0] in line
    (mount,) = mounts_of(Output(line.replace(*change)))
    return mount


def test_recorded_mounts_are_read_whole(recorded):
    # Recorded without its last line's end.
    text = recorded("storage/mountinfo-k8s-node.txt").rstrip("\n") + "\n"
    mounts = mounts_of(Output(text))
    assert len(mounts) == len(text.splitlines())
    assert all(each.path.startswith("/") and each.filesystem and ":" in each.device for each in mounts)


def test_blank_in_a_path_and_the_last_of_two_mounts():
    one = ROOT_LINE.replace(" / / ", " / /a\\040b ")
    mounts = mounts_of(Output(one + one.replace("/dev/sda1", "/dev/sdb1")))
    found = mounted_at("/a b", mounts)
    assert found is not None and found.source == "/dev/sdb1"
    assert mounted_at("/a", mounts) is None


@pytest.mark.parametrize("text", ["", "nonsense\n", ROOT_LINE.rstrip("\n"), ROOT_LINE.replace(" - ", " ")])
def test_mountinfo_that_is_cut_off_is_unreadable(text):
    with pytest.raises(Unreadable):
        mounts_of(Output(text))


def test_mount_as_declared_and_sizes_that_the_server_made_smaller():
    assert difference(declared(NFS), nfs()) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("- nfs4 ", "- nfs "), "file system is nfs, expected nfs4"),
        (("10.0.0.9:/srv/", "10.0.0.8:/srv/"), "source is 10.0.0.8:/srv/checkpoints, expected 10.0.0.9:/srv/checkpoi"),
        (("proto=tcp", "proto=rdma"), "option is proto=rdma, expected proto=tcp"),
        (("nconnect=16", "nconnect=4"), "option is nconnect=4, expected nconnect=16"),
        (("nconnect=16,", ""), "option nconnect is not there, expected nconnect=16"),
        (("vers=4.2", "vers=4.1"), "option is vers=4.1, expected vers=4.2"),
        (("hard", "soft"), "option is soft, expected hard"),
        ((",noatime", ",relatime"), "option is without noatime, expected noatime"),
    ],
)
def test_mount_that_differs_is_named(change, said):
    assert difference(declared(NFS), nfs(change)).startswith(said)


# As VAST's client shows what was declared as 172.25.1.1-172.25.1.4~172.25.2.1.
PORTS = "remoteports=172.25.1.1-172.25.1.4~172.25.2.1"


@pytest.mark.parametrize(
    ("declared_ports", "shown", "said"),
    [
        (PORTS, PORTS, ""),
        ("remoteports=172.25.2.1~172.25.1.1-172.25.1.2~172.25.1.3~172.25.1.4", PORTS, ""),
        ("remoteports=172.25.1.1-172.25.1.2", PORTS, ""),
        (PORTS, "remoteports=172.25.1.1-172.25.1.3", "remoteports lack 2 of 5 addresses, 172.25.1.4 first"),
        (PORTS, "remoteports=dns", "remoteports lack 5 of 5 addresses, 172.25.1.1 first"),
        (PORTS, "local_lock=none", "remoteports lack 5 of 5 addresses, 172.25.1.1 first"),
        ("remoteports=fd00::1-fd00::a", "remoteports=fd00::1-fd00::9", "remoteports lack 1 of 10 addresses, fd00::a"),
    ],
)
def test_mount_without_a_declared_port_is_named(declared_ports, shown, said):
    found = nfs(("addr=10.0.0.9\n", f"addr=10.0.0.9,{shown}\n"))
    why = difference(declared({**NFS, "options": [*OPTIONS, declared_ports]}), found)
    assert why.startswith(said) and bool(why) == bool(said)


@pytest.mark.parametrize("text", ["", "dns", "10.0.0.9-10.0.0.1", "10.0.0.0-10.0.255.255", "10.0.0.1-fd00::1", "a-b"])
def test_what_is_no_list_of_addresses_is_none(text):
    with pytest.raises(ValueError):
        addresses_of(text)


WEKA = {**NFS, "tier": "w", "kind": "weka", "path": "/w", "filesystem": "wekafs", "source": "10.0.0.1,10.0.0.2/ckpt"}
WEKA |= {"options": ["net=mlnx0", "net=mlnx1", "num_cores=2", "readcache"]}
# As WEKA's documentation shows mounts.
WEKA_LINE = "91 25 0:60 / /w rw,relatime - wekafs 10.0.0.1/ckpt rw,readcache,inode_bits=auto,container_name=client\n"
BEEGFS = {**NFS, "tier": "b", "kind": "beegfs", "path": "/b", "filesystem": "beegfs", "source": "beegfs_nodev"}
CONF = "/etc/beegfs/muster-b.conf"
BEEGFS |= {"options": [f"cfgFile={CONF}", "sysMgmtdHost=10.0.0.5"]}
BEEGFS_LINE = f"92 25 0:61 / /b rw,relatime - beegfs beegfs_nodev rw,cfgFile={CONF},sysMgmtdHost=10.0.0.5\n"


@pytest.mark.parametrize(
    ("wanted", "line", "change", "said"),
    [
        (WEKA, WEKA_LINE, ("", ""), ""),
        (WEKA, WEKA_LINE, ("10.0.0.1/ckpt", "ckpt"), ""),
        (
            WEKA,
            WEKA_LINE,
            ("10.0.0.1/ckpt", "10.0.0.1/home"),
            "source is 10.0.0.1/home, expected 10.0.0.1,10.0.0.2/ckpt",
        ),
        (WEKA, WEKA_LINE, ("readcache", "writecache"), "option is without readcache, expected readcache"),
        (BEEGFS, BEEGFS_LINE, ("", ""), ""),
        (
            BEEGFS,
            BEEGFS_LINE,
            ("10.0.0.5", "10.0.0.6"),
            "management service is 10.0.0.6, expected 10.0.0.5",
        ),
        (
            BEEGFS,
            BEEGFS_LINE,
            (",sysMgmtdHost=10.0.0.5", ""),
            "management service is not shown, expected 10.0.0.5",
        ),
        (
            BEEGFS,
            BEEGFS_LINE,
            (CONF, "/etc/beegfs/beegfs-client.conf"),
            "option is cfgFile=/etc/beegfs/beegfs-client.conf",
        ),
        (BEEGFS, BEEGFS_LINE, ("- beegfs", "- tmpfs"), "file system is tmpfs, expected beegfs"),
    ],
)
def test_mounts_of_other_clients_are_known_by_what_they_show(wanted, line, change, said):
    why = difference(declared(wanted), nfs(change, line))
    assert why.startswith(said) and bool(why) == bool(said)


def test_version_four_is_any_minor_one_and_one_connection_is_not_shown():
    wanted = {**NFS, "options": ["vers=4", "nconnect=1"]}
    assert difference(declared(wanted), nfs(("nconnect=16,", ""))) == ""
    assert difference(declared(wanted), nfs(("vers=4.2", "vers=3"))) == "option is vers=3, expected vers=4"


def test_local_file_system_is_known_by_its_device():
    mount = nfs(line="90 25 9:127 / /scratch rw,noatime - xfs /dev/md127 rw\n")
    assert difference(declared(SCRATCH), mount, "9:127") == ""
    assert difference(declared(SCRATCH), mount, "9:126") == "device is 9:127 (/dev/md127), expected 9:126"


@pytest.mark.parametrize("path", ["/scratch", "/scratch/numa0", "/check-points", "/.hidden", "/a_b.c"])
def test_unit_name_is_systemds(path):
    try:
        said = subprocess.run(
            ["systemd-escape", "--path", "--suffix=mount", path], capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        known = {
            "/scratch": "scratch.mount",
            "/scratch/numa0": "scratch-numa0.mount",
            "/check-points": r"check\x2dpoints.mount",
            "/.hidden": r"\x2ehidden.mount",
            "/a_b.c": "a_b.c.mount",
        }
        assert unit_name(path) == known[path]
    else:
        assert unit_name(path) == said.stdout.strip()


def test_unit_neither_fails_the_boot_nor_is_required():
    text = mount_unit(declared(NFS), "10.0.0.9:/srv/checkpoints")
    assert "Options=nofail,vers=4.2," in text and "Type=nfs\n" in text
    assert "Requires" not in text and "RequiredBy" not in text


@pytest.mark.parametrize(("wanted", "daemon"), [(WEKA, "weka-agent.service"), (BEEGFS, "beegfs-helperd.service")])
def test_unit_comes_after_the_clients_daemon_and_the_network(wanted, daemon):
    text = mount_unit(declared(wanted), wanted["source"])
    assert f"Wants={daemon}\nAfter={daemon}\n" in text and "Requires" not in text
    assert f"Options=nofail,_netdev,{wanted['options'][0]}," in text and f"Type={wanted['filesystem']}\n" in text


SYSTEMCTL = """#!/usr/bin/python3
import pathlib, sys
root = pathlib.Path(__file__).parents[1]
words = sys.argv[1:]
with (root / "said").open("a") as said:
    said.write(" ".join(words) + "\\n")
mountinfo = root / "proc/self/mountinfo"
if words[0] == "start":
    if (root / "server-is-away").exists():
        sys.exit("Job for checkpoints.mount failed.")
    mountinfo.write_text(mountinfo.read_text() + (root / words[1]).read_text())
if words[0] == "stop":
    lines = mountinfo.read_text().splitlines(True)
    mountinfo.write_text("".join(line for line in lines if words[1].split(".")[0] not in line))
if words[0] == "enable":
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / words[1]).touch()
"""


@pytest.fixture
def root(tmp_path):
    """A host on which systemctl mounts what it is asked to."""
    directories = ("bin", "proc/self", "etc/systemd/system", "scratch", "dev/disk/by-uuid")
    for name in (*directories, "sys/module/sunrpc/parameters"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "bin/systemctl").write_text(SYSTEMCTL)
    (tmp_path / "bin/systemctl").chmod(0o755)
    (tmp_path / "proc/self/mountinfo").write_text(ROOT_LINE)
    (tmp_path / "sys/module/sunrpc/parameters/slots").write_text("2\n")
    (tmp_path / "checkpoints.mount").write_text(NFS_LINE)
    (tmp_path / "scratch.mount").write_text("91 25 9:127 / /scratch rw,noatime - xfs /dev/md127 rw\n")
    (tmp_path / "dev/disk/by-uuid/5f0c").symlink_to("../../md127")
    (tmp_path / "sys/class/block/md127").mkdir(parents=True)
    (tmp_path / "sys/class/block/md127/dev").write_text("9:127\n")
    (tmp_path / "scratch").chmod(0o755)
    return tmp_path


def apply(root, mounts=(NFS, SCRATCH), check=False, **change):
    wish = {
        "mounts": [declared(mount) for mount in mounts],
        "uuids": {"scratch": "5f0c"},
        "services": ["slurmd.service"],
        "kernel_modules": {"sunrpc": {"slots": 128}},
        "lustre_parameters": {},
        "mode": "1777",
        "allow_remount": False,
        "test_directory": "",
        "client_files": {},
        **change,
    }
    return Applier(LocalHost(f"{root}/bin:/usr/bin:/bin", str(root)), Wish(**wish), check).run()


def tree(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != "said"}


def test_tiers_are_mounted_once_and_then_nothing_changes(root):
    outcome = apply(root)
    assert outcome.problems == []
    units = root / UNITS.lstrip("/")
    assert "What=/dev/disk/by-uuid/5f0c" in (units / "scratch.mount").read_text()
    slurmd = (units / "slurmd.service.d/50-muster-storage.conf").read_text()
    assert "Wants=checkpoints.mount scratch.mount" in slurmd and "Requires" not in slurmd
    assert "systemctl start checkpoints.mount scratch.mount" in (units / KEEPER).read_text()
    assert (root / "scratch").stat().st_mode & 0o7777 == 0o1777
    assert (root / "sys/module/sunrpc/parameters/slots").read_text() == "128"
    assert "options sunrpc slots=128" in (root / "etc/modprobe.d/muster-storage.conf").read_text()
    again = apply(root)
    assert (again.changes, again.pending, again.problems) == ([], [], [])


def test_check_mode_says_it_and_leaves_no_trace(root):
    before = tree(root)
    outcome = apply(root, check=True)
    assert "/checkpoints mounted" in outcome.changes and outcome.problems == []
    assert tree(root) == before
    assert not (root / "said").exists()


def test_check_mode_of_an_array_that_is_yet_to_be_made(root):
    outcome = apply(root, check=True, uuids={})
    assert "/scratch mounted" in outcome.changes and outcome.problems == []


def test_server_that_is_away_is_a_problem_and_the_other_tier_is_mounted(root):
    (root / "server-is-away").touch()
    outcome = apply(root, mounts=(NFS,))
    assert outcome.problems == ["systemctl start checkpoints.mount: Job for checkpoints.mount failed."]
    (root / "server-is-away").unlink()
    assert apply(root).problems == []


def test_mount_that_differs_waits_unless_it_may_be_unmounted(root):
    apply(root)
    mountinfo = root / "proc/self/mountinfo"
    mountinfo.write_text(mountinfo.read_text().replace("nconnect=16", "nconnect=4"))
    outcome = apply(root)
    assert outcome.changes == []
    assert outcome.pending == [
        "tier checkpoints: option is nconnect=4, expected nconnect=16: from the next boot, or with "
        "checkpoint_storage_allow_remount"
    ]
    outcome = apply(root, allow_remount=True)
    assert "nconnect=16" in mountinfo.read_text() and outcome.problems == []
    assert apply(root).pending == []


def test_mount_that_does_not_become_as_declared_is_a_problem(root):
    (root / "checkpoints.mount").write_text(NFS_LINE.replace("proto=tcp", "proto=rdma"))
    assert apply(root).problems == ["tier checkpoints: option is proto=rdma, expected proto=tcp"]


def test_tier_that_is_declared_no_more_is_taken_away(root):
    apply(root)
    outcome = apply(root, mounts=(SCRATCH,))
    units = root / UNITS.lstrip("/")
    assert not (units / "checkpoints.mount").exists()
    assert "/checkpoints" in (root / "proc/self/mountinfo").read_text()
    assert outcome.pending == ["checkpoints.mount is declared no more and stays mounted until the next boot"]
    apply(root, mounts=(), allow_remount=True)
    assert not list(units.glob("*.mount")) and not (units / KEEPER).exists()
    assert "/scratch" not in (root / "proc/self/mountinfo").read_text()
    assert apply(root, mounts=()).changes == []


def test_units_of_somebody_else_are_left_alone(root):
    other = root / UNITS.lstrip("/") / "home.mount"
    other.write_text("[Mount]\nWhere=/home\n")
    apply(root, mounts=())
    assert other.exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (ROOT_LINE, "tier weka: nothing is mounted at /weka, expected wekafs; it is mounted by somebody else"),
        ("91 25 0:60 / /weka rw - nfs4 b:/w rw\n", "tier weka: file system is nfs4, expected wekafs; it is mounted by"),
        ("91 25 0:60 / /weka rw - wekafs backend/fs rw\n", ""),
    ],
)
def test_existing_tier_is_compared_and_never_touched(root, line, said):
    weka = {**NFS, "tier": "weka", "kind": "existing", "path": "/weka", "filesystem": "wekafs", "source": None}
    (root / "proc/self/mountinfo").write_text(ROOT_LINE + line)
    outcome = apply(root, mounts=({**weka, "options": []},))
    assert "; ".join(outcome.problems).startswith(said) and bool(outcome.problems) == bool(said)
    assert not (root / UNITS.lstrip("/") / "weka.mount").exists()
    assert "After=weka.mount" in (root / UNITS.lstrip("/") / "slurmd.service.d/50-muster-storage.conf").read_text()


def test_linux_own_client_is_named_before_it_refuses_remoteports(root):
    vast = {**NFS, "options": [*OPTIONS, PORTS]}
    (root / "checkpoints.mount").write_text(NFS_LINE.replace("addr=10.0.0.9\n", f"addr=10.0.0.9,{PORTS}\n"))
    outcome = apply(root, mounts=(vast,))
    assert outcome.problems == [
        "tier checkpoints: Linux' own NFS client is loaded, which knows no remoteports: reboot after VAST's client is "
        "installed"
    ]
    assert "start checkpoints.mount" not in (root / "said").read_text()
    (root / "sys/module/sunrpc/parameters/nfs_bundle_version").write_text("4.0.34-vastdata\n")
    assert apply(root, mounts=(vast,)).problems == []
    assert apply(root, mounts=(vast,)).changes == []


def test_beegfs_is_configured_mounted_and_taken_away_with_its_secret(root):
    text = "# Written by Muster (checkpoint_storage); edits are lost.\nconnAuthFile = /etc/beegfs/muster-b.auth\n"
    (root / "b.mount").write_text(BEEGFS_LINE)
    secret, vendors = root / "etc/beegfs/muster-b.auth", root / "etc/beegfs/beegfs-client.conf"
    secret.parent.mkdir()
    secret.write_text("secret")
    vendors.write_text("sysMgmtdHost =\n")
    before = tree(root)
    outcome = apply(root, mounts=(BEEGFS,), client_files={CONF: text}, check=True)
    assert CONF in outcome.changes and tree(root) == before
    assert apply(root, mounts=(BEEGFS,), client_files={CONF: text}).problems == []
    assert (root / CONF.lstrip("/")).read_text() == text and secret.exists()
    assert apply(root, mounts=(BEEGFS,), client_files={CONF: text}).changes == []
    # A mount keeps what it read; programs that use it are not stopped for it.
    changed = apply(root, mounts=(BEEGFS,), client_files={CONF: text + "connUseRDMA = false\n"})
    assert changed.changes == [CONF]
    assert changed.pending[0].startswith(f"tier b: {CONF} has changed: from the next boot, or with")
    outcome = apply(root, mounts=(), allow_remount=True)
    assert [each.name for each in secret.parent.iterdir()] == [vendors.name]
    assert "secret" not in str(outcome.differences) and "/b " not in (root / "proc/self/mountinfo").read_text()


LFS = """#!/bin/sh
root=$(dirname "$0")/..
case $1 in
getstripe) cat "$root/stripes" ;;
setstripe) echo "$3" >"$root/stripes" ;;
esac
"""


def test_lustre_gets_its_stripe_count_and_settings(root):
    fsx = {**NFS, "tier": "fsx", "kind": "lustre", "path": "/fsx", "filesystem": "lustre", "stripe_count": 4}
    fsx |= {"source": "10.0.0.1@tcp:/fsx", "options": ["flock", "noatime"]}
    (root / "fsx.mount").write_text("92 25 0:61 / /fsx rw,noatime - lustre 10.0.0.1@tcp:/fsx rw,flock\n")
    (root / "stripes").write_text("1\n")
    (root / "bin/lfs").write_text(LFS)
    (root / "bin/lfs").chmod(0o755)
    outcome = apply(root, mounts=(fsx,), lustre_parameters={"osc.*.max_rpcs_in_flight": 32})
    assert outcome.problems == [] and (root / "stripes").read_text() == "4\n"
    unit = (root / UNITS.lstrip("/") / "muster-lustre.service").read_text()
    assert "lctl set_param osc.*.max_rpcs_in_flight=32" in unit and "WantedBy=fsx.mount" in unit
    assert apply(root, mounts=(fsx,), lustre_parameters={"osc.*.max_rpcs_in_flight": 32}).changes == []

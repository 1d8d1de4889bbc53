"""Keys are made once, brought to hosts, and refused where their reader would refuse them."""

import base64
import getpass
import time

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.modules.slurm_keys import KeyTrouble, bring, make, outdated

ME = getpass.getuser()


class Host:
    """A host whose unit has run for some seconds."""

    def __init__(self, running=0.0, state="active", restarts=0):
        self.began = time.clock_gettime(time.CLOCK_MONOTONIC) - running
        self.state = state
        self.restarts = restarts
        self.restarted = []

    def run(self, argv, timeout_seconds):
        if "restart" in argv:
            self.restarted.append(argv[-1])
            self.began = time.clock_gettime(time.CLOCK_MONOTONIC)
            return Output(rc=self.restarts, stderr="munged: Error: Keyfile is insecure")
        return Output(f"ActiveState={self.state}\nActiveEnterTimestampMonotonic={int(self.began * 1e6)}\n")


def key(tmp_path, data=b"k" * 32, **more):
    content = base64.b64encode(data).decode() if data else ""
    sizes = {"bytes_least": 32, "bytes_most": 1024, "bytes_made": 128}
    return {"path": str(tmp_path / "munge.key"), "owner": ME, "content": content, "units": ["munge"], **sizes, **more}


def test_key_is_made_once(tmp_path):
    first = make([key(tmp_path, b"")], check=False)
    path = tmp_path / "munge.key"
    assert first["changed"] and path.stat().st_mode & 0o777 == 0o400 and len(path.read_bytes()) == 128
    again = make([key(tmp_path, b"")], check=False)
    assert not again["changed"] and again["contents"] == first["contents"]
    assert base64.b64decode(again["contents"][str(path)]) == path.read_bytes()


def test_given_key_is_not_made(tmp_path):
    assert make([key(tmp_path)], check=False) == {"changed": False, "written": [], "restarted": [], "contents": {}}


def test_check_mode_makes_and_writes_nothing(tmp_path):
    foreseen = make([key(tmp_path, b"")], check=True)
    assert foreseen["changed"] and foreseen["contents"] == {str(tmp_path / "munge.key"): ""}
    assert bring(Host(), [key(tmp_path, b"")], check=True)["changed"]
    assert bring(Host(), [key(tmp_path)], check=True)["changed"]
    assert list(tmp_path.iterdir()) == []


def test_key_is_written_and_its_unit_restarted_then_neither(tmp_path):
    host = Host(running=100)
    assert bring(host, [key(tmp_path)], check=False)["restarted"] == ["munge"]
    assert (tmp_path / "munge.key").read_bytes() == b"k" * 32
    assert bring(host, [key(tmp_path)], check=False) == {"changed": False, "written": [], "restarted": []}
    assert host.restarted == ["munge"]


def test_restart_that_a_killed_run_left_undone_is_made_up_for(tmp_path):
    bring(Host(state="inactive"), [key(tmp_path)], check=False)
    host = Host(running=100)
    assert bring(host, [key(tmp_path)], check=True)["restarted"] == ["munge"] and host.restarted == []
    assert bring(host, [key(tmp_path)], check=False)["restarted"] == ["munge"]


@pytest.mark.parametrize("state", ["inactive", "failed", "activating"])
def test_unit_that_does_not_run_reads_the_key_when_it_starts(tmp_path, state):
    (tmp_path / "munge.key").write_bytes(b"")
    assert not outdated(Host(running=100, state=state), "munge", str(tmp_path / "munge.key"))


@pytest.mark.parametrize("mode", [0o600, 0o440, 0o444])
def test_key_that_others_may_read_is_written_anew(tmp_path, mode):
    bring(Host(), [key(tmp_path)], check=False)
    (tmp_path / "munge.key").chmod(mode)
    assert bring(Host(), [key(tmp_path)], check=False)["written"] == [str(tmp_path / "munge.key")]
    assert (tmp_path / "munge.key").stat().st_mode & 0o777 == 0o400


@pytest.mark.parametrize("size", [32, 1024])
def test_sizes_that_munge_takes(tmp_path, size):
    assert bring(Host(), [key(tmp_path, b"k" * size)], check=False)["changed"]


@pytest.mark.parametrize("size", [1, 31, 1025])
def test_size_that_munge_refuses_is_an_error_and_nothing_is_written(tmp_path, size):
    good = {**key(tmp_path), "path": str(tmp_path / "first.key")}
    with pytest.raises(KeyTrouble, match=f"munge.key has {size} bytes, expected 32 to 1024; nothing was written"):
        bring(Host(), [good, key(tmp_path, b"k" * size)], check=False)
    assert list(tmp_path.iterdir()) == []


def test_text_that_is_no_base64_is_an_error_that_does_not_tell_it(tmp_path):
    with pytest.raises(KeyTrouble, match="is not Base64") as told:
        bring(Host(), [key(tmp_path, content="hunter2!")], check=False)
    assert "hunter2" not in str(told.value)


def test_unit_that_does_not_start_with_its_key_is_an_error(tmp_path):
    with pytest.raises(KeyTrouble, match="munge does not start with its key: systemctl restart munge: munged: Error"):
        bring(Host(running=100, restarts=1), [key(tmp_path)], check=False)

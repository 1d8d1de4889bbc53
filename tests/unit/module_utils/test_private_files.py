"""What Muster keeps on a node is root's alone: no user of a job may read it or hold a lock of ours."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_record import Record
from ansible_collections.muster.cluster.plugins.module_utils.gpu_load.gpu_telemetry_program import Files
from ansible_collections.muster.cluster.plugins.module_utils.host.evidence_store import EvidenceStore
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.in_service import health
from ansible_collections.muster.cluster.plugins.module_utils.probes.heartbeat import Heartbeat
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
EVIDENCE = Evidence("run-1", "gpu-01", "burn_in", 1.0, 2.0, "boot", {}, "digest")
# An ordinary user's whole view of a directory: what could be listed, read, written, made or locked.
USER = """
import fcntl, os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for top, directories, files in os.walk(sys.argv[1]):
    for name in files:
        path = os.path.join(top, name)
        for flags in (os.O_RDONLY, os.O_WRONLY):
            try:
                file = os.open(path, flags)
            except PermissionError:
                continue
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            print(path)
    for name in (*directories, "."):
        try:
            os.close(os.open(os.path.join(top, name, "mine"), os.O_CREAT))
        except (PermissionError, FileNotFoundError):
            continue
        print(os.path.join(top, name, "mine"))
"""


@pytest.fixture
def state():
    """A state directory in a place to which everybody has a way."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    yield place / "muster"
    shutil.rmtree(place)


def reached_by_a_user(state):
    done = subprocess.run([sys.executable, "-c", USER, str(state)], capture_output=True, text=True, check=True)
    return done.stdout.split()


def everything(state):
    """Leave all that a node keeps of examinations, burn-in, health and telemetry."""
    record = Record(str(state))
    with record.locked() as mine:
        assert mine
        record.store.write(EVIDENCE)
        record.store.write_raw(EVIDENCE, "last", {"kernel_log": Output("secret")})
        record.write_state({"status": "running"})
    health.leave(str(state), Heartbeat(1.0, "boot", "pass"))
    files = Files(str(state / "telemetry"), 2)
    files._next(0.0)
    files.close()


def test_no_user_reads_evidence_or_holds_the_lock(state):
    everything(state)
    assert reached_by_a_user(state) == []
    # Home of the user muster lies there too: everybody may pass.
    assert state.stat().st_mode & 0o777 == 0o755


def test_root_still_reads_it(state):
    everything(state)
    store = EvidenceStore(str(state))
    assert store.read("burn_in", "run-1")["id"] == "run-1"
    assert not Record(str(state)).alive()
    assert json.loads((state / "health.json").read_text())["verdict"] == "pass"


def test_what_an_older_program_left_open_is_closed(state):
    everything(state)
    for path in state.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert reached_by_a_user(state)
    everything(state)
    assert reached_by_a_user(state) == []


def test_every_examination_closes_the_lock_of_an_older_program(state, node_program):
    everything(state)
    (state / "burn_in").chmod(0o755)
    (state / "burn_in/lock").chmod(0o644)
    command = [sys.executable, str(node_program), "burn-in", "settle", "--state-directory", str(state)]
    subprocess.run(command, check=True, capture_output=True)
    assert reached_by_a_user(state) == []
    assert [(state / name).stat().st_mode & 0o777 for name in ("burn_in", "burn_in/lock")] == [0o700, 0o600]

"""A worker of a run whose control process was killed ends, before what it does becomes visible anywhere."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.control.worker import end_with_the_run

ROOT = Path(__file__).resolve().parents[3]
# Actions whose work is to wait, and then to leave a trace.
WORK = """
import os
import time
from pathlib import Path

def work(given):
    Path(given["at"], "began").write_text(str(os.getpid()))
    time.sleep(given["seconds"])
    Path(given["at"], "finished").touch()
    return {}
"""
OURS = """
from ansible_collections.muster.cluster.plugins.plugin_utils.control.muster_action import LocalAction

class ActionModule(LocalAction):
    arguments = {"at": {"type": "str", "required": True}, "seconds": {"type": "float", "required": True}}

    def done(self, given):
        return work(given)
"""
# One of Ansible's or of another collection's, in a run that reads a fleet.
OTHERS = """
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        return work(self._task.args)
"""
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - name: Work
      slow_work: {at: AT, seconds: 3}
"""


def wait_until(true: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not true():
        time.sleep(0.02)
    return true()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(params=[(OURS, "plain"), (OTHERS, "fleet")], ids=["ours", "others"])
def control(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """A control process in the middle of an action; its worker's pid is in ``began``."""
    action, inventory = request.param
    (tmp_path / "plain").write_text("localhost\n", encoding="utf-8")
    shutil.copytree(ROOT / "inventory/lab", tmp_path / "fleet")
    (tmp_path / "action").mkdir()
    (tmp_path / "action/slow_work.py").write_text(WORK + action, encoding="utf-8")
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/slow_work.py").write_text("#!/usr/bin/python\n", encoding="utf-8")
    (tmp_path / "play.yml").write_text(PLAY.replace("AT", str(tmp_path)), encoding="utf-8")
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        "ANSIBLE_ACTION_PLUGINS": str(tmp_path / "action"),
        "ANSIBLE_LIBRARY": str(tmp_path / "modules"),
        "ANSIBLE_INVENTORY_ENABLED": "muster.cluster.fleet,yaml,ini",
    }
    command = [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, "-c", "local", "play.yml"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    assert wait_until(lambda: (tmp_path / "began").exists() and (tmp_path / "began").read_text() != "", 30)
    yield process
    process.kill()
    process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="prctl(2) is of Linux")
def test_worker_ends_with_the_killed_control_process(control: subprocess.Popen[bytes], tmp_path: Path) -> None:
    worker = int((tmp_path / "began").read_text())
    assert worker != control.pid and is_running(worker)
    control.kill()
    control.wait()
    assert wait_until(lambda: not is_running(worker), 2)
    time.sleep(3)
    assert not (tmp_path / "finished").exists()


def test_worker_finishes_where_nobody_kills(control: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert control.wait(timeout=30) == 0
    assert (tmp_path / "finished").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="prctl(2) is of Linux")
def test_worker_whose_control_process_is_gone_before_it_begins_does_nothing(tmp_path: Path) -> None:
    """The parent is killed between the fork and the call: here it ends at once, and the child begins later."""
    script = f"""
import multiprocessing, os, sys, time
from pathlib import Path
from ansible_collections.muster.cluster.plugins.plugin_utils.control.worker import end_with_the_run
def work():
    parent = os.getppid()
    Path({str(tmp_path / "began")!r}).write_text(str(os.getpid()))
    while os.getppid() == parent:
        time.sleep(0.01)
    end_with_the_run()
    Path({str(tmp_path / "finished")!r}).touch()
multiprocessing.get_context("fork").Process(target=work).start()
while not Path({str(tmp_path / "began")!r}).exists():
    time.sleep(0.01)
os.kill(os.getpid(), {int(signal.SIGKILL)})
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "collections")}
    subprocess.run([sys.executable, "-c", script], env=environment, check=False, timeout=30)
    worker = int((tmp_path / "began").read_text())
    assert wait_until(lambda: not is_running(worker), 5)
    assert not (tmp_path / "finished").exists()


def test_process_that_is_no_worker_is_left_alone() -> None:
    end_with_the_run()

"""What the role must do for PyTorch on a host that others have had their hands on; the cases follow each other."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stack_hosts import PROJECT, Play, on, run

sys.path.insert(0, str(PROJECT / "collections"))
from ansible_collections.muster.cluster.plugins.plugin_utils.control import zipapp

HOST = "stack-02"
MIRROR = "http://10.78.0.10:8080/repository"
SERVED = PROJECT / "build/lab/hosts/stack-ctl/repository"
LINK = "/opt/muster/pytorch"
SITE = f"{LINK}/lib/python3*/site-packages"
PROGRAM = PROJECT / "plugins/module_utils/host/pytorch_program.py"


def pytorch(version: str, *arguments: str, **given: Any) -> Play:
    """Run the role for a stand-in of PyTorch."""
    lock = (SERVED / f"torch-{version}.txt").read_text(encoding="utf-8")
    source = {} if "index" in given else {"find_links": f"{MIRROR}/wheels/"}
    return run("pytorch.yml", {"gpu_stack_pytorch": {"requirements": lock, **source, **given}}, *arguments)


def used(host: str = HOST) -> str:
    """Return the environment in use."""
    return on(host, f"readlink {LINK}")


def says(host: str = HOST) -> str:
    """Return which torch the environment in use imports, as a user who may do nothing else."""
    words = f"{LINK}/bin/python3 -I -c 'import numpy, torch; print(torch.__version__)'"
    return on(host, f"cd / && runuser -u muster -- {words}")


def environments() -> set[str]:
    """Return what lies beside the link."""
    return set(on(HOST, "cd /opt/muster; ls -d pytorch-*").split())


def trace() -> str:
    """Return everything that a run could have changed."""
    # Ansible has files of its own in /tmp for as long as it runs.
    ours = "find /opt/muster -name pytorch-lab -prune -o -printf '%p %s %T@ %l\n' | sort"
    return on(HOST, f"{ours}; ls -A /tmp /var/tmp /root | grep -v ansible")


@pytest.fixture(scope="module", autouse=True)
def configured_elsewhere() -> Iterator[None]:
    """A host whose pip is configured for another mirror, where nobody answers."""
    text = "[global]\nindex-url = http://10.78.0.99/simple\nfind-links = http://10.78.0.99/\n"
    on(HOST, f"printf '{text}' >/etc/pip.conf")
    yield
    on(HOST, "rm /etc/pip.conf")


@pytest.mark.parametrize("host", ["stack-01", "stack-02", "stack-el"])
def test_environment_is_there_after_provisioning(host: str) -> None:
    assert says(host) == "1.0" and re.fullmatch("pytorch-[0-9a-f]{12}", used(host))
    assert "pytorch-lab" in on(host, "ls /opt/muster")


def test_second_run_changes_nothing_and_asks_no_mirror() -> None:
    count = "journalctl --unit repository --output cat | grep -c '^10.78.0.12 '"
    before = on("stack-ctl", count)
    again = pytorch("1.0")
    assert (again.rc, again.changed) == (0, 0), again.text
    assert on("stack-ctl", count) == before


def test_check_mode_shows_the_change_and_leaves_no_trace() -> None:
    before = trace()
    shown = pytorch("2.0", "--check")
    assert shown.rc == 0 and shown.changed == 1, shown.text
    assert "-torch==1.0" in shown.text and "+torch==2.0" in shown.text
    assert trace() == before


def test_requirement_without_a_hash_is_named_by_its_line() -> None:
    lock = (SERVED / "torch-2.0.txt").read_text(encoding="utf-8") + "six==1.17\n"
    refused = pytorch("2.0", "--check", requirements=lock)
    said = f"line {len(lock.splitlines())}: found 'six==1.17', expected NAME==VERSION"
    assert refused.failed and said in refused.words, refused.text


def test_wheel_with_another_hash_is_refused_and_the_environment_stays() -> None:
    before = environments()
    refused = pytorch("2.0", find_links=f"{MIRROR}/tampered/")
    assert refused.failed and refused.changed == 0, refused.text
    assert "DO NOT MATCH THE HASHES" in refused.words and "torch==2.0" in refused.words
    assert says() == "1.0" and environments() == before


def test_new_lock_makes_a_new_environment_and_the_last_one_stays() -> None:
    first = used()
    new = pytorch("2.0", index=f"{MIRROR}/simple/")
    assert new.rc == 0 and new.changed == 1, new.text
    assert says() == "2.0"
    second = used()
    newest = pytorch("3.0")
    assert newest.rc == 0 and says() == "3.0", newest.text
    # The first goes, the one in use before stays, and so does what is none of the role's.
    assert first not in environments() and {second, used(), "pytorch-lab"} <= environments()


@pytest.mark.parametrize(
    "harm",
    [
        f"truncate -s 3 {SITE}/torch/version.py",
        f"PIP_CONFIG_FILE=/dev/null {LINK}/bin/pip install -q --no-deps --no-index -f {MIRROR}/wheels/ "
        "--trusted-host 10.78.0.10:8080 torch==1.0",
    ],
    ids=["truncated", "pip"],
)
def test_harmed_environment_is_made_anew(harm: str) -> None:
    on(HOST, harm)
    healed = pytorch("3.0")
    assert healed.rc == 0 and healed.changed == 1, healed.text
    assert says() == "3.0"


def test_killed_run_is_made_up_for_by_the_next() -> None:
    # It takes connections and never answers.
    serve = 'import socket, time; s = socket.create_server(("", 8081)); time.sleep(600)'
    on("stack-ctl", f"systemd-run --quiet --unit=silent python3 -c '{serve}'")
    before, left = says(), "ls -d /opt/muster/pytorch-*/tmp"
    runs: list[Play] = []
    given = {"index": "http://10.78.0.10:8081/simple/"}
    background = threading.Thread(target=lambda: runs.append(pytorch("1.0", **given)))
    background.start()
    found = "pgrep --full --oldest '[p]ip install'"
    deadline = time.monotonic() + 90
    while not (pip := on(HOST, found, check=False)):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    # The module, as the kernel would where memory ends.
    on(HOST, f"kill -9 $(ps -o ppid= -p {pip})")
    background.join()
    on("stack-ctl", "systemctl stop silent")
    assert runs[0].failed and says() == before, runs[0].text
    assert on(HOST, found, check=False) == "" and len(on(HOST, left).split()) == 1
    again = pytorch("1.0")
    assert again.rc == 0 and again.changed == 1, again.text
    assert says() == "1.0" and on(HOST, left, check=False) == ""


@pytest.fixture(scope="module")
def real_lock() -> str:
    """Serve the wheels of the lab's PyTorch, and return their lock: the CPU build where pip finds one."""
    python, said = on(HOST, "python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'"), []
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--only-binary=:all:"]
    for name in ("lab_cpu.txt", "lab.txt"):
        lock = PROJECT / "locks" / name
        command = [*pip, f"--python-version={python}", "--require-hashes", f"--requirement={lock}"]
        done = subprocess.run([*command, f"--dest={SERVED}/real"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return lock.read_text(encoding="utf-8")
        said.append(done.stderr)
    raise AssertionError("\n".join(said))


def test_real_pytorch_loads_a_device_from_the_environment(real_lock: str, tmp_path: Path) -> None:
    made = pytorch("1.0", requirements=real_lock, find_links=f"{MIRROR}/real/")
    assert made.rc == 0 and made.changed == 1, made.text
    program = tmp_path / "muster"
    program.write_bytes(zipapp.build())
    config = str(PROJECT / "build/lab/ssh_config")
    for file in (program, PROGRAM):
        subprocess.run(["scp", "-q", "-F", config, str(file), f"{HOST}:/tmp/"], check=True, env=os.environ)
    on(HOST, f"chmod 0644 /tmp/muster /tmp/{PROGRAM.name}")
    python = f"cd /tmp && runuser -u muster -- {LINK}/bin/python3"
    told = json.loads(on(HOST, f"{python} -I /tmp/{PROGRAM.name}"))
    assert told["torch"] and f"torch=={told['torch']}" in real_lock and f"numpy=={told['numpy']}" in real_lock
    assert told["prefix"] == f"/opt/muster/{used()}"
    loaded = on(HOST, f"{python} /tmp/muster gpu-stress --device=cpu --gpus=0000:19:00.0 --seconds=2")
    events = [json.loads(line) for line in loaded.splitlines()]
    (end,) = (event for event in events if event.get("event") == "end")
    assert end["gpu"] == "0000:19:00.0" and not end.get("errors"), end

"""Ansible's commands in processes that have imported Ansible already.

`run` takes the place of `subprocess.run` with a command of Ansible. A second goes by with imports before such a command
reads its arguments; here a process imports once, and each command is a fork of it: nothing of one run is left to the
next. What Ansible reads while it is imported, its variables and the configuration file, stands for such a process:
there is one for each of them.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

COMMANDS = {"ansible": "adhoc", "ansible-inventory": "inventory", "ansible-playbook": "playbook"}
# What most runs come to import from the collection; Ansible compiles it each time.
MUSTER = "ansible_collections.muster.cluster.plugins.plugin_utils"
IMPORTED = ("report.fleet_report", "fleet.fleet", "control.zipapp")

_started: dict[tuple[Any, ...], subprocess.Popen[str]] = {}


def run(
    command: Sequence[str | Path], cwd: Path, env: Mapping[str, str], timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a command of Ansible; raises TimeoutExpired as subprocess does."""
    argv = [str(word) for word in command]
    configured = tuple(sorted(item for item in env.items() if item[0].startswith("ANSIBLE_")))
    key = (configured, cwd if (cwd / "ansible.cfg").exists() else None)
    if key not in _started:
        _started[key] = subprocess.Popen(
            [sys.executable, __file__], cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        atexit.register(_end, _started[key])
    process = _started[key]
    assert process.stdin and process.stdout
    with tempfile.TemporaryDirectory() as place:
        shown = [Path(place, name) for name in ("out", "err")]
        asked = {"argv": argv, "cwd": str(cwd), "env": dict(env), "timeout": timeout, "shown": list(map(str, shown))}
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        status = json.loads(process.stdout.readline())
        out, err = (path.read_text(encoding="utf-8") for path in shown)
    if status is None:
        raise subprocess.TimeoutExpired(argv, timeout, out, err)
    return subprocess.CompletedProcess(argv, status, out, err)


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.close()
    process.wait()


def _serve() -> None:
    """Import Ansible, then run each command that standard input names, one JSON object a line."""
    asked_by, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    from ansible.plugins.loader import init_plugin_loader  # noqa: PLC0415 -- the tests do not need it

    for module in COMMANDS.values():
        importlib.import_module(f"ansible.cli.{module}")
    init_plugin_loader()
    # Each command does it again.
    warnings.filterwarnings("ignore", message="AnsibleCollectionFinder has already been configured")
    for module in IMPORTED:
        importlib.import_module(f"{MUSTER}.{module}")
    for line in asked_by:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(asked)
        answers.write(json.dumps(_status(child, asked["timeout"])) + "\n")
        answers.flush()


def _run(asked: Mapping[str, Any]) -> NoReturn:
    os.setsid()
    for descriptor, path in enumerate(asked["shown"], start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600), descriptor)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = asked["argv"]
    status = 1
    try:
        importlib.import_module(f"ansible.cli.{COMMANDS[Path(sys.argv[0]).name]}").main()
    except SystemExit as exc:
        status = int(exc.code or 0)
    finally:
        # What is registered for the end belongs to the process that was forked.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _status(child: int, timeout: float) -> int | None:
    """Return how a process ended; None where it had to be killed."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    _serve()

"""What all simulated tools share: the host's state, and the ways in which a tool can go wrong."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

# /opt/lab on a lab host.
PLACE = Path(__file__).resolve().parents[1]


Outcome = Callable[[dict[str, Any], Sequence[str]], str | tuple[str, int]]


def main(tool: str, output: Outcome, every_seconds: float = 0) -> NoReturn:
    """Print what ``output`` makes of state and arguments, unless the state says that ``tool`` is broken.

    A tool that prints a whole report and still ends with a status of its own gives back both. With ``every_seconds`` it
    goes on until it is killed, each time with the state of the moment.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    status = _print(tool, output)
    while every_seconds:
        time.sleep(every_seconds)
        status = _print(tool, output)
    sys.exit(status)


def read_state() -> dict[str, Any]:
    """Return what the host's hardware shows now."""
    state: dict[str, Any] = json.loads((PLACE / "state.json").read_text(encoding="utf-8"))
    return state


def gpus_of(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the GPUs that answer, in the order of their PCI addresses, as DCGM and CUDA (PCI_BUS_ID) count them."""
    absent = {*state["gpus_missing"], *state["gpus_lost"], *state["gpus_lost_listed"]}
    return sorted((gpu for gpu in state["gpus"] if gpu["slot"] not in absent), key=lambda gpu: gpu["address"])


def _print(tool: str, output: Outcome) -> int:
    state = read_state()
    fault = state["tool_faults"].get(tool)
    if fault == "hang":
        # As a tool that is stuck in the kernel: only SIGKILL ends it.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            signal.pause()
    shown = output(state, sys.argv[1:])
    text, status = (shown, 0) if isinstance(shown, str) else shown
    data = text.encode()
    if fault == "crash":
        sys.stdout.buffer.write(data[: len(data) // 3])
        sys.stdout.buffer.flush()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "truncate":
        data = data[: len(data) // 2]
    if fault == "empty":
        data = b""
    if fault == "garble":
        data = bytes(0xFE if index % 5 == 3 else byte for index, byte in enumerate(data))
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    return status


def own(state: dict[str, Any], what: str) -> str:
    """Return hexadecimal digits that are the host's own and never change, of which each of its parts has others."""
    return hashlib.sha256(f"{state['host']} {what}".encode()).hexdigest()


def _boot() -> str:
    path = PLACE / "root/proc/sys/kernel/random/boot_id"
    return path.read_text(encoding="utf-8").strip() if path.exists() else "first"


def _kept(name: str) -> dict[str, Any]:
    path = PLACE / "root/var/lib/lab" / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def kept(name: str, device: str) -> tuple[dict[str, int], bool]:
    """Return what a tool set on a device since the host was made, and whether it was reset or booted since then."""
    found = _kept(name).get(device)
    return ({}, False) if found is None else (found["values"], found["boot"] != _boot())


def keep(name: str, device: str, values: dict[str, int], boot: str | None = None) -> None:
    """Keep what a tool sets on a device, beside what it set before; with ``boot`` "" the device was reset."""
    path = PLACE / "root/var/lib/lab" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    known = _kept(name)
    before = known.get(device, {}).get("values", {})
    known[device] = {"boot": _boot() if boot is None else boot, "values": {**before, **values}}
    path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def real(path: str, argv: Sequence[str]) -> NoReturn:
    """Become the real tool, for what is not simulated."""
    os.execv(path, [path, *argv])


def refuse(text: str, status: int = 2) -> NoReturn:
    """End as a tool that does not understand its arguments."""
    print(text, file=sys.stderr)
    sys.exit(status)

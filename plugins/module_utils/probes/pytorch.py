"""Which PyTorch the class' Python has (pytorch_program.py): what loads GPUs, moves data and writes checkpoints here.

Held against PyTorch 2.13 on Python 3.11 to 3.13, and against version.py of 2.3 to 2.13.
"""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import dataclass

from ..host.host import Host, Output, Unreadable
from ..words.expectations import Expectations

NAME = "pytorch"
# What role gpu_stack makes, and the shipped classes name.
PROVIDED = "/opt/muster/pytorch/bin/python3"
# It may lie on a network file system.
TIMEOUT_SECONDS = 20.0
_TEXTS = ("python", "prefix", "torch", "cuda", "numpy", "nccl")
_ALWAYS = ("python", "prefix")
# PEP 440, as far as it goes: 2.8.0+cu128, 2.6.0a0+ecf3bae40a.nv25.01.
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)+[A-Za-z0-9.+_-]{0,60}")


@dataclass(frozen=True)
class PyTorch:
    """What the class' Python has; None: it has none. ``cuda`` is that of the build, ``nccl`` that of the wheel.

    ``prefix`` is the directory of its environment, behind every link. ``absent`` says why there is no such Python, ""
    where there is one.
    """

    python: str = ""
    prefix: str = ""
    torch: str | None = None
    cuda: str | None = None
    numpy: str | None = None
    nccl: str | None = None
    absent: str = ""


def collect(host: Host, expect: Expectations) -> Output:
    """Let the class' Python say what it has; one that is not there is an answer, too."""
    # From wherever this package was imported, a directory or the archive that nodes run.
    spec = importlib.util.find_spec("..host.pytorch_program", __package__)
    source = spec.loader.get_source(spec.name) if spec and spec.loader else None  # type: ignore[attr-defined]
    # Nobody's variables and home, but the packages of the environment.
    output = host.run((expect.pytorch.python, "-I", "-c", source or ""), TIMEOUT_SECONDS)
    if output.rc is None and not output.timed_out:
        return Output(json.dumps({"absent": output.error}) + "\n")
    return output


def parse(output: Output) -> PyTorch:
    """Return what was found; raises Unreadable."""
    if output.rc != 0:
        said = (output.stderr.strip().splitlines() or ["no message"])[-1]
        raise Unreadable(f"exit status {output.rc}: {said[:200]}")
    try:
        data = json.loads(output.stdout)
    except (ValueError, RecursionError) as exc:
        raise Unreadable(f"not JSON: {output.stdout[:60]!r}") from exc
    if isinstance(data, dict) and set(data) == {"absent"} and isinstance(data["absent"], str) and data["absent"]:
        return PyTorch(absent=data["absent"][:200])
    if not isinstance(data, dict) or set(data) != set(_TEXTS):
        raise Unreadable(f"found {output.stdout[:60]!r}, expected {', '.join(_TEXTS)}")
    for name in _TEXTS:
        if data[name] is None and name not in _ALWAYS:
            continue
        sound = isinstance(data[name], str) and (
            data[name].startswith("/") if name == "prefix" else _VERSION.fullmatch(data[name])
        )
        if not sound:
            expected = "an absolute path" if name == "prefix" else "a version such as 2.8.0+cu128"
            raise Unreadable(f"{name} is {data[name]!r:.60}, expected {expected}")
    return PyTorch(**{name: data[name] for name in _TEXTS})

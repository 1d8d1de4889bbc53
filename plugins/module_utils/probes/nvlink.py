"""``nvidia-smi nvlink --status``: each GPU's NVLinks and their speed.

Format: drivers 450 to 590. A heading for each GPU, then ``Link 0: 26.562 GB/s`` or ``Link 0: <inactive>``; in their
place a sentence when the GPU is in MIG mode or all of its links are down. A person's saved ``dcgmi nvlink -s`` is read
as well (dcgmi/Nvlink.cpp of NVIDIA/DCGM): ``gpuId 0:``, then a letter for each link, and no speed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..host.host import Host, Output, Unreadable, require_success
from ..words.expectations import Expectations

NAME = "nvlink"
ARGV = ("nvidia-smi", "nvlink", "--status")
TIMEOUT_SECONDS = 60.0

_GPU = re.compile(r"GPU ([0-9]{1,4}): (.+) \(UUID: ([^)\s]+)\)")
_LINK = re.compile(r"Link ([0-9]{1,4}): (\S.*)")
_DCGM_GPU = re.compile(r"gpuId ([0-9]{1,4}):")
_DCGM_LINKS = re.compile(r"[UDX_](?: [UDX_])*")
_DCGM_SWITCHES, _DCGM_KEY = "NvSwitches:", "Key: Up=U, Down=D, Disabled=X, Not Supported=_"
_SPEED = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?) GB/s")


@dataclass(frozen=True)
class Links:
    """The NVLinks of one GPU: speed in GB/s by link number, 0 for one that is down, None for one that is not readable.

    ``said`` is what the tool says instead of links.
    """

    index: int
    uuid: str
    speeds: Mapping[int, float | None]
    said: str = ""


def collect(host: Host, expect: Expectations) -> Output:
    """Run the tool once."""
    return host.run(ARGV, TIMEOUT_SECONDS)


def parse(output: Output) -> tuple[Links, ...]:
    """Return the GPUs in the tool's order, which is that of their PCI addresses; raises Unreadable."""
    require_success(output)
    if "NvLink Link Status" in output.stdout:
        return _of_dcgm(output.stdout)
    gpus: list[tuple[int, str, dict[int, float | None], list[str]]] = []
    for line in filter(None, (line.strip() for line in output.stdout.splitlines())):
        heading = _GPU.fullmatch(line)
        if heading:
            gpus.append((int(heading.group(1)), heading.group(3), {}, []))
            continue
        if not gpus:
            raise Unreadable(f"begins with {line[:60]!r}, expected a heading such as 'GPU 0: NVIDIA H100 (UUID: ...)'")
        link = _LINK.fullmatch(line)
        if not link:
            gpus[-1][3].append(line)
            continue
        number, speeds = int(link.group(1)), gpus[-1][2]
        if number in speeds:
            raise Unreadable(f"lists link {number} of GPU {gpus[-1][0]} twice: a heading is missing")
        speeds[number] = _speed(link.group(2))
    if not gpus:
        raise Unreadable("nothing printed, expected a heading for each GPU")
    # nvidia-smi 535 to 580 leaves out one that is lost.
    indexes = [index for index, *_ in gpus]
    if indexes != sorted(set(indexes)):
        raise Unreadable(f"lists GPUs {', '.join(map(str, indexes))}, expected 0, 1, ... each once")
    return tuple(Links(index, uuid, speeds, "; ".join(said)[:200]) for index, uuid, speeds, said in gpus)


def _of_dcgm(text: str) -> tuple[Links, ...]:
    lines = [line.strip() for line in text.splitlines()]
    if _DCGM_KEY not in lines or _DCGM_SWITCHES not in lines:
        raise Unreadable(f"no line {_DCGM_KEY!r}: cut off")
    gpus: dict[int, Links] = {}
    index = None
    for line in lines[: lines.index(_DCGM_SWITCHES)]:
        heading = _DCGM_GPU.fullmatch(line)
        if heading:
            index = int(heading.group(1))
            if index in gpus:
                raise Unreadable(f"lists GPU {index} twice")
            gpus[index] = Links(index, "", {})
        elif _DCGM_LINKS.fullmatch(line) and index is not None:
            # One that is disabled carries as little as one that is down; what the GPU does not have is no link.
            states = {number: state for number, state in enumerate(line.split()) if state != "_"}
            gpus[index] = Links(index, "", {number: None if s == "U" else 0.0 for number, s in states.items()})
    if not gpus:
        raise Unreadable("no GPU, expected a line such as 'gpuId 0:'")
    return tuple(gpus.values())


def _speed(text: str) -> float | None:
    if text.lower() in ("<inactive>", "inactive"):
        return 0.0
    match = _SPEED.fullmatch(text)
    return float(match.group(1)) if match else None

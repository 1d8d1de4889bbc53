"""Will there be a PyTorch at the class' ``pytorch.python``, and one that the declared driver can run?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..host.host import Host
from ..host.pinned_environment import Pin, PinnedEnvironmentError, read_lock
from ..judging.cuda_driver import driver_lacking
from ..probes.pytorch import PROVIDED
from ..words.expectations import Expectations

KEYS = ("requirements", "index", "find_links", "python")
# CUDA in the version of PyTorch's own wheels (2.8.0+cu128), and in names of those of NVIDIA (nvidia-nccl-cu12).
_BUILD = re.compile(r".*\+cu(\d+)(\d)")
_WHEEL = re.compile(r"nvidia-.*-cu(\d+)")


def lacks(here: Host, expect: Expectations, declared: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with ``gpu_stack_pytorch``; without it, that nobody makes what the class names.

    Another Python than the role's is the site's own: preflight judges that one.
    """
    python = expect.pytorch.python
    if not declared:
        if python != PROVIDED or here.paths(python):
            return []
        way = "declare gpu_stack_pytorch, or name the Python that has PyTorch as pytorch.python of the class"
        return [f"pytorch.python: {python} is not there: {way}"]
    if faults := _wrong_keys(declared):
        return [f"gpu_stack_pytorch: {each}" for each in faults]
    try:
        pins = read_lock(str(declared["requirements"]))
    except PinnedEnvironmentError as exc:
        return [f"gpu_stack_pytorch: {exc}"]
    names = {pin.name for pin in pins}
    missing = [name for name in ("torch", "numpy") if name not in names]
    wrong = [f"gpu_stack_pytorch: its lock has no {' and no '.join(missing)}"] if missing else []
    cuda, driver = cuda_of(pins), expect.gpu.driver if expect.gpu else None
    why = driver_lacking(cuda, driver) if cuda and driver else ""
    return wrong + ([f"gpu_stack_pytorch: {why}: lock another PyTorch, or declare another gpu.driver"] if why else [])


def _wrong_keys(declared: Mapping[str, Any]) -> list[str]:
    wrong = [f"found key {key!r}, expected {', '.join(KEYS)}" for key in declared if key not in KEYS]
    if not declared.get("requirements"):
        wrong.append("found no requirements, expected the text of a lock")
    sources = [key for key in ("index", "find_links") if declared.get(key)]
    if len(sources) != 1:
        wrong.append(f"found {' and '.join(sources) or 'neither index nor find_links'}, expected one of the two")
    return wrong


def cuda_of(pins: Sequence[Pin]) -> str:
    """Return the CUDA that a lock is for, as ``12.8`` or, where only NVIDIA's wheels tell, ``12.0``; "" for none.

    Of several, each for other hosts or another Python, the least: what is installed is judged when it is there.
    """
    builds = [found for pin in pins if pin.name == "torch" and (found := _BUILD.fullmatch(pin.version))]
    if builds:
        return "{}.{}".format(*min((int(found[1]), int(found[2])) for found in builds))
    wheels = [int(found[1]) for pin in pins if (found := _WHEEL.fullmatch(pin.name))]
    return f"{min(wheels)}.0" if wheels else ""

"""Does each GPU have the PCIe link of its class, and does the link carry its packets at the first try?

An idle GPU may lower its generation to save power: the generation of the moment is judged only while the GPU works.
Lanes are not given up to save power. The window into the GPU's memory (BAR1), through which NICs reach it, holds all of
it on Hopper and later; the memory of a superchip has another way too. A small window (256 MiB) is what a BIOS leaves
without "above 4G decoding" or large BARs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..judging.gpu_parts import each_gpu, is_hopper_or_later, missing, on_superchip, unread
from ..probes.nvidia_smi import Gpu
from ..words import expectations
from ..words.expectations import Expectations, gpu_subjects, stated
from ..words.finding import FAIL, PASS, Finding

NAME = "gpu_pcie"
RULES = 3
PROBES: tuple[str, ...] = ("nvidia_smi",)
# The largest BAR without the extension for larger ones (PCI-SIG, resizable BAR).
_SMALL_WINDOW_MIB = 256


def subjects(expect: Expectations) -> Sequence[str]:
    """Return the GPU parts of the class."""
    return list(gpu_subjects(expect).values())


def decide(values: Mapping[str, Any], expect: Expectations) -> Sequence[Finding]:
    """Compare width, generation and replays with the class."""
    return each_gpu(NAME, values, expect, lambda subject, gpu: _judged(subject, gpu, stated(expect.gpu)))


def _judged(subject: str, gpu: Gpu, wanted: expectations.Gpu) -> Finding:
    link, generation, width = gpu.pcie, wanted.pcie_generation, wanted.pcie_width
    expected = _expected(wanted)
    if width is not None and link.width is not None and link.width < width:
        why = f"PCIe link has {link.width} lanes, class floor {width}"
        return Finding(NAME, subject, FAIL, _shown(gpu), expected, "", why, "reseat")
    if generation is not None and link.generation_max is not None and link.generation_max < generation:
        card = link.generation_max_device
        by = "the GPU" if card is not None and card < generation else "slot or BIOS"
        why = f"PCIe link can do Gen{link.generation_max} at most, class floor Gen{generation}: limited by {by}"
        return Finding(NAME, subject, FAIL, _shown(gpu), expected, "", why, "investigate")
    idle = _idle(gpu)
    slow = generation is not None and link.generation is not None and link.generation < generation
    if idle is False and slow:
        why = f"PCIe link is at Gen{link.generation} while the GPU works, class floor Gen{generation}"
        return Finding(NAME, subject, FAIL, _shown(gpu), expected, "", why, "reseat")
    window = gpu.bar1_mib
    least = max(_SMALL_WINDOW_MIB + 1, gpu.memory_mib or 0 if is_hopper_or_later(gpu) and not on_superchip(gpu) else 0)
    if generation is not None and window is not None and window < least:
        why = f"the window into the GPU's memory (BAR1) is {window} MiB: set large BARs in the BIOS (Above 4G Decoding)"
        return Finding(NAME, subject, FAIL, window, least, "MiB", why, "investigate")
    limit = wanted.pcie_replays
    if limit is not None and link.replays is not None and link.replays > limit:
        why = f"{link.replays} PCIe replays since the last reset, class limit {limit}: a bad link sends packets again"
        return Finding(NAME, subject, FAIL, link.replays, limit, "replays", why, "reseat")
    why = missing(
        PCIe_width=0 if width is None else link.width,
        highest_PCIe_generation=0 if generation is None else link.generation_max,
        PCIe_generation=0 if generation is None else link.generation,
        size_of_BAR1=0 if generation is None else window,
        PCIe_replays=0 if limit is None else link.replays,
        whether_the_GPU_is_idle=idle if generation is not None and (slow or link.generation is None) else False,
    )
    if why:
        return unread(NAME, subject, why, expected)
    notes = []
    if slow:
        notes.append(f"idle: its Gen{link.generation} of now was not judged")
    if link.replays:
        notes.append(f"{link.replays} PCIe replays since the last reset, to be watched under load")
    return Finding(NAME, subject, PASS, _shown(gpu), expected, "", "; ".join(notes))


def _expected(wanted: expectations.Gpu) -> str | None:
    generation = f"Gen{wanted.pcie_generation}" if wanted.pcie_generation else ""
    return " ".join(filter(None, (generation, f"x{wanted.pcie_width}" if wanted.pcie_width else ""))) or None


def _idle(gpu: Gpu) -> bool | None:
    """Return whether nothing runs on the GPU; None when the driver tells neither reason nor load."""
    if gpu.utilisation_percent:
        return False
    idle = gpu.throttle.get("idle")
    if idle is None:
        return None if gpu.utilisation_percent is None else True
    # A GPU that has just been left is at no load, and its link may already be slow.
    return idle or gpu.utilisation_percent == 0


def _shown(gpu: Gpu) -> str:
    link = gpu.pcie
    return f"Gen{link.generation or '?'} (Gen{link.generation_max or '?'} at most) x{link.width or '?'}"

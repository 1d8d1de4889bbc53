"""Does what nvidia-smi says show that it was asked while the GPUs worked? Then checks of an idle host tell nothing."""

from __future__ import annotations

from ..probes.nvidia_smi import Gpu, Gpus

# An H100 idles at a tenth of its limit and works at most of it (nvidia-smi -q of both, driver 590.48.01).
_WORKING_SHARE_OF_LIMIT = 0.5


def under_load(report: Gpus) -> bool:
    """Return whether any GPU works: by its utilisation, or by the power it draws.

    A process that does nothing is no load: what it holds is for the check of an idle host to name.
    """
    return any(_works(gpu) for gpu in report.gpus)


def _works(gpu: Gpu) -> bool:
    if gpu.utilisation_percent:
        return True
    draws, limit = gpu.power_watts, gpu.power_enforced_watts
    return draws is not None and limit is not None and draws > limit * _WORKING_SHARE_OF_LIMIT

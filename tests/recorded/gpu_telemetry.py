"""Query lines of real GPUs as telemetry: one sample each, put into the fields and the layout of the recorder."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.gpu_load import gpu_telemetry_program as gpu_telemetry
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output

from .row import Row

# The output names them anew since driver 535, the tool takes the old names as well.
_NEW_NAMES = {
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks_throttle_reasons.active": "clocks_event_reasons.active",
}


def _queries(text: str) -> Iterator[dict[str, str]]:
    """Yield each answer to ``--query-gpu --format=csv`` in the text, its units taken off."""
    lines = text.splitlines()
    for header, values in pairwise(lines):
        if header.startswith("timestamp, ") and "power.draw" in header:
            names, cells = csv.reader([header, values], skipinitialspace=True)
            yield {
                name.split(" [")[0]: cell.rsplit(" ", 1)[0] if " [" in name else cell
                for name, cell in zip(names, cells, strict=True)
            }


def _summary(data: bytes, *, under_load: bool) -> Output:
    """Return the recorder's summary of the last answer alone, as if it had been the only second of the run."""
    told = list(_queries(data.decode()))[-1]
    sample = gpu_telemetry.sample_of(", ".join(told[_NEW_NAMES.get(name, name)] for name in gpu_telemetry.FIELDS))
    if sample is None:
        return Output("")
    digest = gpu_telemetry.Digest()
    digest.add(sample, sample.at)
    summary = {
        "format": gpu_telemetry.FORMAT,
        "seconds": 1,
        "gpus": {sample.gpu: digest.summary(sample.at)},
        # The replay counter is in another section of the captures; it stood still.
        "replays": {sample.gpu: [0, 0]},
        "notes": [],
        "under_load": under_load,
    }
    return Output(json.dumps(summary))


def _idle(data: bytes) -> Output:
    return _summary(data, under_load=False)


def _loaded(data: bytes) -> Output:
    return _summary(data, under_load=True)


def _one_gpu(address: str, **telemetry: Any) -> Mapping[str, Any]:
    return {"gpu": {"count": 1, "parts": [{"slot": "SXM1", "address": address}]}, "telemetry": telemetry}


def _row(file: str, verdict: str, expect: Mapping[str, Any], why: str, run: Any) -> Row:
    return Row(f"nvidia-smi/{file}", "gpu_telemetry", ("gpu_telemetry",), verdict, expect, why, run)


H100, H200 = "capture-h100-1gpu-590.48.01.txt", "capture-h200-1gpu-590.48.01.txt"
ROWS = [
    _row("query-gpu-h100-idle.csv", "pass", _one_gpu("0000:00:09.0"), "idle and sound", _idle),
    _row("query-gpu-h100-idle.csv", "fail", _one_gpu("0000:00:09.0"), "an idle GPU is no loaded one", _loaded),
    _row("query-gpu-h100-idle.csv", "incomplete", {}, "none of the eight GPUs of the class", _idle),
    _row(H100, "pass", _one_gpu("0000:00:09.0"), "under load: 632 of 700 W, PCIe Gen5 x16, no slowdown", _loaded),
    _row(H200, "pass", _one_gpu("0000:83:00.0"), "under load: 627 of 700 W, PCIe Gen5 x16, no slowdown", _loaded),
    _row(H100, "fail", _one_gpu("0000:00:09.0", power_percent=95), "632 W are less than 95 % of 700 W", _loaded),
]
NOT_COVERED: dict[str, str] = {}

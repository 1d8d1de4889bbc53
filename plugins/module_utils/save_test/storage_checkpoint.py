"""One rank of a checkpoint made by PyTorch itself: a sharded state saved, and loaded again by another number of ranks.

Started as ``muster storage-checkpoint`` beside a storage test. Says on standard output when torch is loaded, takes one
order (JSON) on standard input, and answers it. Runs on the CPU with gloo: it is the storage that is looked at.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ..words.errors import MusterError

COLUMNS = 1024
ELEMENT_BYTES = 4
# Values up to here are whole numbers in float32; a prime, so that rows which change places show.
PERIOD = 16_777_213


class WrongState(MusterError):
    """The state that was loaded is not the one that was saved."""


def main(_arguments: Sequence[str] = (), _version: str = "") -> int:
    """Run as one rank."""
    try:
        # torch asks for it when ranks exchange objects, and does not install it.
        import numpy  # noqa: F401, PLC0415
        import torch  # noqa: PLC0415 -- the rest of Muster runs where there is no torch
        import torch.distributed.checkpoint  # noqa: PLC0415
        import torch.distributed.tensor  # noqa: PLC0415
    except ImportError as exc:
        _say({"error": f"ImportError: {exc}"})
        return 1
    _say({"torch": str(torch.__version__)})
    line = sys.stdin.readline()
    if not line:
        return 0
    order = json.loads(line)
    watchdog = threading.Timer(order["seconds"], _give_up, (order["seconds"],))
    watchdog.daemon = True
    watchdog.start()
    try:
        answer = save_and_load(torch, order)
    except Exception as exc:  # noqa: BLE001 -- whatever a library raises becomes this rank's answer
        _say({"error": f"{type(exc).__name__}: {exc}".replace("\n", " ")[:400]})
        # A process group that failed may never come down in order.
        os._exit(1)
    watchdog.cancel()
    _say(answer)
    return 0


def save_and_load(torch: Any, order: dict[str, Any]) -> dict[str, Any]:
    """Return what one save and one load took. Raises WrongState if what came back is not what went."""
    from torch import distributed  # noqa: PLC0415
    from torch.distributed import checkpoint  # noqa: PLC0415
    from torch.distributed.device_mesh import DeviceMesh  # noqa: PLC0415
    from torch.distributed.tensor import DTensor, Shard  # noqa: PLC0415

    size, rank = order["size"], order["rank"]
    if size < 2:
        raise ValueError("one rank cannot be resharded: no other was there")
    limit = timedelta(seconds=order["seconds"])
    store = distributed.TCPStore(order["address"], order["port"], size, rank == 0, limit)
    # The store takes keys from whoever connects.
    meeting = distributed.PrefixStore(order["word"], store)
    distributed.init_process_group("gloo", store=meeting, rank=rank, world_size=size, timeout=limit)
    rows = rows_of(order["bytes"], size)
    whole = DeviceMesh("cpu", list(range(size)))
    mine = values(torch, rows // size * rank, rows // size)
    state = {"state": DTensor.from_local(mine, whole, [Shard(0)], run_check=False)}
    distributed.barrier()
    begin = time.perf_counter()
    saving = checkpoint.async_save(state, checkpoint_id=order["directory"])
    # From here on training would go on.
    blocking = time.perf_counter() - begin
    saving.result()
    distributed.barrier()
    saved = time.perf_counter() - begin
    # All ranks take part in making it, also the one that is left out of it.
    fewer = size - 1
    smaller = DeviceMesh("cpu", list(range(fewer)))
    begin = time.perf_counter()
    if rank < fewer:
        each = rows // fewer
        back = torch.full((each, COLUMNS), -1.0)
        loaded = {"state": DTensor.from_local(back, smaller, [Shard(0)], run_check=False)}
        checkpoint.load(loaded, checkpoint_id=order["directory"], process_group=smaller.get_group())
        wrong = int((loaded["state"].to_local() != values(torch, each * rank, each)).sum().item())
        if wrong:
            raise WrongState(f"{wrong} wrong elements of {each * COLUMNS} after loading with {fewer} ranks")
    distributed.barrier()
    took = time.perf_counter() - begin
    distributed.destroy_process_group()
    return {
        "bytes": rows * COLUMNS * ELEMENT_BYTES,
        "loaded_by": fewer,
        "blocking_seconds": round(blocking, 6),
        "save_seconds": round(saved, 6),
        "load_seconds": round(took, 6),
        "error": "",
    }


def rows_of(state_bytes: int, size: int) -> int:
    """Return the rows of a state of at least so many bytes that ``size`` ranks can share, and one rank less."""
    unit = size * (size - 1)
    return -(-state_bytes // (COLUMNS * ELEMENT_BYTES * unit)) * unit


def values(torch: Any, first_row: int, rows: int) -> Any:
    """Return rows of the state: every element is told by where it stands."""
    numbers = torch.arange(first_row * COLUMNS, (first_row + rows) * COLUMNS, dtype=torch.int64)
    return (numbers % PERIOD).to(torch.float32).reshape(rows, COLUMNS)


def _give_up(seconds: float) -> None:
    _say({"error": f"not done after {seconds:g} s"})
    os._exit(1)


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()

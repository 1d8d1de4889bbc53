"""What one rank does with torch.distributed: tell numbers to its group, wait for its device, time what it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Ranks:
    """The process group of all ``count`` ranks as seen by ``me``, and this rank's device."""

    torch: Any
    distributed: Any
    device: Any
    me: int
    count: int

    @property
    def all_gather(self) -> Any:
        """The all-gather into one tensor under the name that the release at hand has for it."""
        return self._named("all_gather_single", "all_gather_into_tensor")

    @property
    def reduce_scatter(self) -> Any:
        """The reduce-scatter of one tensor; gloo's is an all-reduce of which each rank keeps its part."""
        return self._named("reduce_scatter_single", "reduce_scatter_tensor")

    def _named(self, new: str, old: str) -> Any:
        return getattr(self.distributed, new, None) or getattr(self.distributed, old)

    def barrier(self, group: Any = None) -> None:
        """Wait for all of a group, and for the device."""
        self.distributed.barrier(group=group)
        self.synchronize()

    def synchronize(self) -> None:
        """Wait until the device has done all it was asked to."""
        if self.device.type == "cuda":
            self.torch.cuda.synchronize(self.device)

    def exchange(self, peer: int, sent: Any, received: Any) -> None:
        """Send to and receive from one rank, both at once, over the connections of the group of all."""
        operations = [
            self.distributed.P2POp(self.distributed.isend, sent, peer),
            self.distributed.P2POp(self.distributed.irecv, received, peer),
        ]
        for work in self.distributed.batch_isend_irecv(operations):
            work.wait()

    def table(self, numbers: Sequence[int], group: Any = None, count: int | None = None) -> Any:
        """Return the numbers of all of a group, one row for each rank in ascending order."""
        mine = self.torch.tensor(list(numbers), device=self.device, dtype=self.torch.int64)
        return self.gathered(mine, group, count)

    def gathered(self, mine: Any, group: Any = None, count: int | None = None) -> Any:
        """Return the tensors of all of a group, one row for each rank in ascending order."""
        rows = self.torch.empty((count or self.count) * mine.numel(), device=self.device, dtype=mine.dtype)
        self.all_gather(rows, mine, group=group)
        return rows.view(count or self.count, -1)

    def waited(self, meet: Callable[[], Any]) -> int:
        """Return how many nanoseconds passed until all had met, by the host's clock."""
        start = time.perf_counter_ns()
        meet()
        self.synchronize()
        return time.perf_counter_ns() - start

    def timed(self, run: Callable[[], Any]) -> int:
        """Return how many nanoseconds ``run`` took; on a GPU by its own clock, without the launch from here."""
        if self.device.type == "cuda":
            begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run()
            end.record()
            end.synchronize()
            return max(1, round(begin.elapsed_time(end) * 1e6))
        start = time.perf_counter_ns()
        run()
        return max(1, time.perf_counter_ns() - start)

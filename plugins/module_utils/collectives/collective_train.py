"""A few steps of a small sharded transformer, its collectives overlapping with its compute.

Some nodes are found by nothing else: their GPUs compute and their NICs send well, but not both at once. Every rank
holds a part of each layer's parameters, gathers the next layer's while it computes one, and scatters the gradients of
a layer while it computes those of the layer before, as fully sharded training does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .collective_guard import MEETING, OWN, Guard
from .collective_program import Phase
from .collective_ranks import Ranks

# Tokens of each rank in a step, in sequences that attend to themselves.
SEQUENCES = 4
TOKENS = 256
RATE = 1e-3
# Parts of a layer's parameters in units of hidden squared: query, key, value; their sum; both halves of the network.
PARTS = (3, 1, 4, 4)


@dataclass(frozen=True)
class Trained:
    """What this rank saw: bytes of gradients in a step, nanoseconds of each step, its compute and the wait for it."""

    size: int
    steps: list[int]
    compute: list[int]
    waited: list[int]
    wrong: int


def train(ranks: Ranks, guard: Guard, phase: Phase, group: Any, members: Sequence[int]) -> Trained:
    """Run a phase's steps and compare the loss: all ranks hold the same model, so it is the same on all of them."""
    model = _Model(ranks, guard, phase, group, len(members))
    steps: list[int] = []
    compute: list[int] = []
    waited: list[int] = []
    for number in range(-phase.warmup, phase.iterations):
        guard.stage(MEETING)
        wait = ranks.waited(lambda: ranks.barrier(group))
        begin = time.perf_counter_ns()
        model.step(number + phase.warmup)
        ranks.synchronize()
        if number >= 0:
            steps.append(time.perf_counter_ns() - begin)
            compute.append(model.compute_nanoseconds())
            waited.append(wait)
    guard.stage(MEETING)
    losses = ranks.gathered(model.loss_of_all(), group, len(members)).flatten().tolist()
    return Trained(model.gradient_bytes, steps, compute, waited, wrong_loss(losses, members.index(ranks.me)))


def wrong_loss(losses: Sequence[float], index: int) -> int:
    """Return 1 unless this rank's loss is finite and that of more than half of all."""
    same = sum(loss == losses[index] for loss in losses)
    return 0 if math.isfinite(losses[index]) and 2 * same > len(losses) else 1


class _Model:
    def __init__(self, ranks: Ranks, guard: Guard, phase: Phase, group: Any, members: int) -> None:
        assert phase.training is not None
        self.ranks, self.guard, self.group, self.members = ranks, guard, group, members
        self.torch, self.device = ranks.torch, ranks.device
        self.hidden, self.layers = phase.training.hidden, phase.training.layers
        self.shard = -(-sum(PARTS) * self.hidden**2 // members)
        self.dtype = self.torch.bfloat16 if self.device.type == "cuda" else self.torch.float32
        self.gradient_bytes = self.layers * self.shard * members * self.dtype.itemsize
        self.shards = [
            self._random((self.shard,), 1 + layer * 100_003 + ranks.me) * (0.5 / self.hidden**0.5)
            for layer in range(self.layers)
        ]
        self.spans: list[tuple[Any, Any]] = []
        self.nanoseconds = 0

    def _random(self, shape: tuple[int, ...], seed: int) -> Any:
        generator = self.torch.Generator().manual_seed(seed)
        return self.torch.randn(shape, generator=generator).to(self.device, self.dtype)

    def _gather(self, layer: int) -> tuple[Any, Any]:
        full = self.torch.empty(self.shard * self.members, device=self.device, dtype=self.dtype)
        return full, self.ranks.all_gather(full, self.shards[layer], group=self.group, async_op=True)

    def _scatter(self, gradient: Any) -> tuple[Any, Any, Any]:
        part = self.torch.empty(self.shard, device=self.device, dtype=self.dtype)
        # The gradient is kept until it is sent.
        return part, self.ranks.reduce_scatter(part, gradient, group=self.group, async_op=True), gradient

    def step(self, number: int) -> None:
        """Run one step: forward, backward, and what was learned into the own part of the parameters."""
        torch = self.torch
        self.spans, self.nanoseconds = [], 0
        data = self._random((SEQUENCES, TOKENS, self.hidden), 7 + number * 1009 + self.ranks.me)
        inputs, layer_input = [], data
        coming = self._gather(0)
        with torch.no_grad():
            for layer in range(self.layers):
                full, work = coming
                self._wait(work)
                if layer + 1 < self.layers:
                    coming = self._gather(layer + 1)
                inputs.append(layer_input)
                layer_input = self._computed(self._layer, full, layer_input)
        gradient = (layer_input - data) * (2.0 / data.numel())
        coming = self._gather(self.layers - 1)
        scattered: list[tuple[int, tuple[Any, Any, Any]]] = []
        for layer in reversed(range(self.layers)):
            full, work = coming
            self._wait(work)
            if layer:
                coming = self._gather(layer - 1)
            parameters = full.requires_grad_()
            given = inputs[layer].detach().requires_grad_()
            self._computed(self._backward, parameters, given, gradient)
            gradient = given.grad
            scattered.append((layer, self._scatter(parameters.grad)))
        for layer, (part, work, _) in scattered:
            self._wait(work)
            self.shards[layer] -= RATE * part / self.members

    def _backward(self, parameters: Any, given: Any, gradient: Any) -> None:
        with self.torch.enable_grad():
            self._layer(parameters, given).backward(gradient)

    def loss_of_all(self) -> Any:
        """Return the loss on data that is the same for all ranks, with the parameters of all."""
        given = data = self._random((SEQUENCES, TOKENS, self.hidden), 3)
        with self.torch.no_grad():
            for layer in range(self.layers):
                full, work = self._gather(layer)
                self._wait(work)
                given = self._layer(full, given)
            return (given - data).float().square().mean().reshape(1).double()

    def _layer(self, flat: Any, given: Any) -> Any:
        functional, hidden = self.torch.nn.functional, self.hidden
        ends = [hidden**2 * sum(PARTS[: index + 1]) for index in range(len(PARTS))]
        begins = [0, *ends[:-1]]
        inward, outward, up, down = (flat[begin:end] for begin, end in zip(begins, ends))
        normal = functional.layer_norm(given, (hidden,))
        query, key, value = (normal @ inward.view(hidden, 3 * hidden)).chunk(3, dim=-1)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        given = given + mixed @ outward.view(hidden, hidden)
        normal = functional.layer_norm(given, (hidden,))
        return given + functional.gelu(normal @ up.view(hidden, 4 * hidden)) @ down.view(4 * hidden, hidden)

    def _wait(self, work: Any) -> None:
        self.guard.stage(MEETING)
        work.wait()
        self.guard.stage(OWN)

    def _computed(self, run: Callable[..., Any], *given: Any) -> Any:
        if self.device.type == "cuda":
            begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            result = run(*given)
            end.record()
            self.spans.append((begin, end))
            return result
        start = time.perf_counter_ns()
        result = run(*given)
        self.nanoseconds += time.perf_counter_ns() - start
        return result

    def compute_nanoseconds(self) -> int:
        """Return how long the last step computed; the device must have been synchronized."""
        spans = sum(round(begin.elapsed_time(end) * 1e6) for begin, end in self.spans)
        return max(1, spans + self.nanoseconds)

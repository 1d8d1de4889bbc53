"""What a NodeName line of slurm.conf says of a class' processors and memory."""

from __future__ import annotations

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations

# All keys of such a line that count processors, in lower case.
PROCESSORS = frozenset({"boards", "cpus", "sockets", "socketsperboard", "corespersocket", "threadspercore"})


def hardware_of(expect: Expectations) -> dict[str, int]:
    """Return the keys of a class, memory in MiB; none of processors where it does not count them.

    Slurm gives out one processor and 1 MiB of a node of which it is told nothing, and starts no round there (seen with
    24.11: "CPU count per node can not be satisfied"). It drains a node that has less than it is told: the memory is the
    least that check ``memory`` passes.
    """
    cpu, memory = expect.cpu, expect.memory
    found = {"RealMemory": int(memory.mib * (100 - memory.tolerance_percent) / 100)}
    if cpu.cores and cpu.threads_per_core and cpu.cores % cpu.sockets == 0:
        each = cpu.cores // cpu.sockets
        found |= {"Sockets": cpu.sockets, "CoresPerSocket": each, "ThreadsPerCore": cpu.threads_per_core}
    return found

"""perftest's ``ib_write_bw`` and ``ib_write_lat``: how one end is started, and what its report says.

Layout: perftest 5 and 6 (https://github.com/linux-rdma/perftest): after the header that begins with ``#bytes`` one row
for each message size, here the only one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..words.errors import MusterError

BANDWIDTH, LATENCY = "ib_write_bw", "ib_write_lat"
# Options that only a build with CUDA has; perftest 4.5-0.17 has not the second one.
CUDA, CUDA_DMABUF = "--use_cuda", "--use_cuda_dmabuf"
# Where a server listens, everywhere without it; from perftest 24.01 on (Ubuntu 24.04, Debian 13).
LISTEN_AT = "--bind_source_ip"
# Column that counts, by tool: the mean over the run; the median round trip, halved by the tool itself.
_COLUMNS = {BANDWIDTH: "BW average[Gb/sec]", LATENCY: "t_typical[usec]"}
# What is told after the closing line where the memory of a GPU was used; releases before 25.01 call it "RX GPU buffer".
_AFTERWARDS = ("deallocating GPU buffer", "deallocating RX GPU buffer", "destroying current CUDA Ctx")
_COLUMN = re.compile(r"\s{2,}|(?<=\])\s+|(?<=#bytes)\s+|(?<=#iterations)\s+")


class PerftestError(MusterError, ValueError):
    """A report that gives no figure; the text says what was found and what was expected."""


@dataclass(frozen=True)
class RailTest:
    """One test of one rail (``rail0``): ``client`` writes into the memory of ``server``.

    ``seconds`` of load, or as many ``iterations``; exactly one of them is not 0. ``traffic_class`` is the ToS byte
    of the packets, None on InfiniBand. ``gpu`` is the CUDA number of the GPU whose memory is used, None for the host's;
    ``dmabuf`` says that the NIC gets at it by the kernel's DMA-BUF.
    """

    phase: str
    tool: str
    rail: str
    server: str
    client: str
    port: int
    size_bytes: int
    queue_pairs: int = 1
    seconds: int = 0
    iterations: int = 0
    traffic_class: int | None = None
    gpu: int | None = None
    dmabuf: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return what tells this test from others in an answer."""
        told = asdict(self)
        return {key: told[key] for key in ("phase", "tool", "rail", "server", "client")}


@dataclass(frozen=True)
class Result:
    """What a client reported: Gb/s or microseconds, and the bytes that it wrote at the least."""

    value: float
    bytes: int


def argv_of(test: RailTest, device: str, gid_index: int | None, server_address: str | None) -> list[str]:
    """Return the command of one end; ``device`` is what its host calls the rail's RDMA device.

    ``server_address`` is where a client finds its server, None starts the server.
    """
    argv = [test.tool, "-d", device, "-F", "-p", str(test.port), "-s", str(test.size_bytes)]
    if test.tool == BANDWIDTH:
        argv += ["--report_gbits", "-q", str(test.queue_pairs)]
    argv += ["-D", str(test.seconds)] if test.seconds else ["-n", str(test.iterations)]
    if gid_index is not None:
        argv += ["-x", str(gid_index)]
    if test.traffic_class is not None:
        argv.append(f"--tclass={test.traffic_class}")
    if test.gpu is not None and test.tool == BANDWIDTH:
        # perftest measures the latency of reads and sends alone with a GPU's memory, of writes with the host's.
        argv.append(f"{CUDA}={test.gpu}")
        if test.dmabuf:
            # Without it perftest registers the GPU's memory by nvidia_peermem; it is refused before the GPU's number.
            argv.append(CUDA_DMABUF)
    return argv if server_address is None else [*argv, server_address]


def parse(text: str, test: RailTest) -> Result:
    """Return what a whole report says; raises PerftestError for one that is cut, unreadable, or of another test."""
    if "\ufffd" in text:
        raise PerftestError("text that is not Unicode, expected a report of perftest")
    lines = text.splitlines()
    headers = [index for index, line in enumerate(lines) if line.strip().startswith("#bytes")]
    if len(headers) != 1:
        raise PerftestError(f"{len(headers)} lines begin with #bytes, expected one header")
    columns = [word for word in _COLUMN.split(lines[headers[0]].strip()) if word]
    wanted = _COLUMNS[test.tool]
    if wanted not in columns:
        raise PerftestError(f"columns {columns}, expected {wanted}")
    rows = [row for row in map(_numbers, lines[headers[0] + 1 :]) if row]
    if len(rows) != 1 or len(rows[0]) != len(columns):
        raise PerftestError(f"{len(rows)} rows of figures, expected one of {len(columns)} columns")
    row = dict(zip(columns, rows[0]))
    ending = [line.strip() for line in lines[headers[0] + 1 :] if line.strip() and not line.startswith(_AFTERWARDS)]
    if not ending or not ending[-1].startswith("-----"):
        raise PerftestError("the report has no end, expected a closing line of dashes")
    if row["#bytes"] != test.size_bytes:
        raise PerftestError(f"figures of {row['#bytes']:g} bytes, expected {test.size_bytes}")
    if not (math.isfinite(row[wanted]) and row[wanted] > 0 and row["#iterations"] >= 1):
        found = f"{row[wanted]:g} after {row['#iterations']:g} iterations"
        raise PerftestError(f"{wanted} is {found}, expected more than 0")
    return Result(row[wanted], int(row["#iterations"]) * test.size_bytes)


def _numbers(line: str) -> list[float]:
    """Return the figures of a row, nothing of a line that is none (such as a remark on the CPU's frequency)."""
    words = line.split()
    if not words or not all(re.fullmatch(r"[0-9]+(\.[0-9]+)?", word) for word in words):
        return []
    return [float(word) for word in words]


def gid_index_of(gids: Mapping[int, tuple[str, str]], address: str) -> int:
    """Return the index of the RoCE v2 GID of an IPv4 or IPv6 address.

    ``gids`` by index: the GID's text, and its type as sysfs has it. Raises PerftestError if there is none.
    """
    import ipaddress  # noqa: PLC0415 -- start-up budget

    wanted = ipaddress.ip_address(address)
    for index, (text, kind) in sorted(gids.items()):
        try:
            gid = ipaddress.IPv6Address(text)
        except ValueError:
            continue
        if kind.strip() == "RoCE v2" and wanted in (gid, gid.ipv4_mapped):
            return index
    raise PerftestError(f"no GID of type RoCE v2 with address {address} among {len(gids)}")

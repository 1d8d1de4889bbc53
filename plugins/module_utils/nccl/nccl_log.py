"""What NCCL's own log of one rank says about the road its data took.

Lines as NCCL 2.18 to 2.30 writes them with ``NCCL_DEBUG=INFO`` and ``NCCL_DEBUG_SUBSYS=INIT,NET`` (init.cc, topo.cc,
transport/net.cc, net_ib and nvls.cc). All of them come while connections are made, none with each collective.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..words.errors import MusterError

# A rank's log grows with its connections: a few hundred kilobytes on thousands of nodes. More is no such log.
MOST_BYTES = 16 * 2**20
# Data goes over RDMA devices that NET/IB opened; the plugins of HPC-X and of the vendor drive the same ones.
RDMA_NETWORK = re.compile(r"IB|IBext\w*|NCCL RDMA Plugin\b.*")

_VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+)")
_USING = re.compile(r"NCCL INFO NET/IB : Using (?P<devices>.*)")
# [0]mlx5_0:1/RoCE, [0]mlx5_0:1/IB/SHARP; of merged devices [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE}.
# Names of devices have at most 63 characters (IBV_SYSFS_NAME_MAX).
_DEVICE = re.compile(r"([A-Za-z][\w.-]{0,62}):(\d{1,3})/(IB|RoCE)\b")
_NETWORK = re.compile(r"NCCL INFO Using network (\S.*?)\s*$")
_CHANNEL = re.compile(
    r"NCCL INFO Channel \d+(?:/\d+)? ?: .*\[(?:send|receive)\] via NET/(?P<network>[^/]+)/(?P<rest>\S+)"
)
_GPU_DIRECT = re.compile(
    r"NCCL INFO NET/\S+ : GPU Direct RDMA (?P<is>Enabled|Disabled) for HCA \d+ '(?P<device>[^']+)'"
)
_NVLS = re.compile(r"NCCL INFO NVLS multicast support is (?P<not>not )?available on dev")
_COMPLETE = re.compile(r"NCCL INFO .*\bInit COMPLETE\b")


class LogError(MusterError, ValueError):
    """A log that says nothing: what was found and what was expected."""


@dataclass(frozen=True)
class NcclLog:
    """The road of one rank.

    ``devices`` are RDMA devices with their link layer (``IB``, ``RoCE``); ``staged`` counts by network the channels
    whose data goes through host memory, ``direct`` those that the NIC moves to and from GPU memory;
    ``without_gpu_direct`` are devices that cannot. ``nvls`` is None where NCCL said nothing of it, ``complete``
    whether a communicator came up. ``rails`` is what the host calls the device of each rail, None where it has not one:
    the log knows devices by these names alone.
    """

    devices: Mapping[str, str]
    networks: tuple[str, ...]
    direct: Mapping[str, int]
    staged: Mapping[str, int]
    without_gpu_direct: tuple[str, ...]
    nvls: bool | None
    complete: bool
    version: str | None
    rails: Mapping[str, str | None] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data that ``from_dict`` reads back."""
        data = asdict(self)
        return {**data, "networks": list(self.networks), "without_gpu_direct": list(self.without_gpu_direct)}

    @classmethod
    def from_dict(cls, data: Any) -> NcclLog:
        """Return what ``to_dict`` wrote; raises LogError, also for an ``error`` in the place of what was read."""
        if not isinstance(data, Mapping):
            raise LogError("NCCL's log was not read")
        if "error" in data:
            raise LogError(f"NCCL's log was not read: {str(data['error'])[:200]}")
        if set(data) != set(cls.__dataclass_fields__):
            raise LogError(f"what was read of NCCL's log has {', '.join(sorted(map(str, data)))[:200]}")
        counts = [data[key] for key in ("direct", "staged")]
        texts = [data["networks"], data["without_gpu_direct"]]
        right = (
            isinstance(data["devices"], Mapping)
            and all(isinstance(link, str) for link in data["devices"].values())
            and all(isinstance(each, Mapping) for each in counts)
            and all(type(number) is int and number > 0 for each in counts for number in each.values())
            and all(isinstance(each, list) and all(isinstance(text, str) for text in each) for each in texts)
            and (data["nvls"] is None or isinstance(data["nvls"], bool))
            and isinstance(data["complete"], bool)
            and (data["version"] is None or isinstance(data["version"], str))
            and isinstance(data["rails"], Mapping)
            and all(name is None or isinstance(name, str) for name in data["rails"].values())
        )
        if not right:
            raise LogError("what was read of NCCL's log has values of other types than were written")
        return cls(
            dict(data["devices"]),
            tuple(texts[0]),
            dict(counts[0]),
            dict(counts[1]),
            tuple(texts[1]),
            data["nvls"],
            data["complete"],
            data["version"],
            dict(data["rails"]),
        )


def parse_nccl_log(text: str) -> NcclLog:
    """Return what the log of one rank, or of several, says; raises LogError where a line about devices cannot be read.

    What is not in the text is not in the answer: a log that was cut short lacks something, and never gains anything.
    """
    devices: dict[str, str] = {}
    networks: dict[str, None] = {}
    roads: dict[bool, dict[str, int]] = {True: {}, False: {}}
    without: dict[str, None] = {}
    nvls: set[bool] = set()
    complete = False
    version = None
    # The last line may be half a line.
    for line in text.split("\n")[:-1]:
        if match := _USING.search(line):
            found = _DEVICE.findall(match["devices"])
            # As many as are numbered: a name that is not understood must not be left out.
            if not found or len(found) != _numbered(match["devices"]):
                raise LogError(f"found {line[-160:]!r}, expected devices such as [0]mlx5_0:1/RoCE")
            devices.update({name: link for name, _, link in found})
        elif match := _NETWORK.search(line):
            networks[match[1]] = None
        elif match := _CHANNEL.search(line):
            road = roads["/GDRDMA" in match["rest"]]
            road[match["network"]] = road.get(match["network"], 0) + 1
        elif match := _GPU_DIRECT.search(line):
            if match["is"] == "Disabled":
                without[match["device"]] = None
        elif match := _NVLS.search(line):
            nvls.add(not match["not"])
        elif _COMPLETE.search(line):
            complete = True
        if match := _VERSION.search(line):
            version = match[1]
    return NcclLog(
        devices,
        tuple(networks),
        roads[True],
        roads[False],
        tuple(without),
        None if not nvls else nvls == {True},
        complete,
        version,
    )


def _numbered(devices: str) -> int:
    """Return how many devices a line numbers; a merged one has a number of its own and one for each part."""
    return len(re.findall(r"\[\d+\](?! ?=?\{)", devices))


@contextlib.contextmanager
def own_log(environment: MutableMapping[str, str]) -> Iterator[int]:
    """Have NCCL in this process write its log to a file in memory, which nobody else sees and nothing leaves behind.

    Gives the file's descriptor for ``read_log``. The variables stay set: NCCL reads them when it is first used.
    """
    file = os.memfd_create("nccl-log")
    try:
        environment["NCCL_DEBUG"] = "INFO"
        environment["NCCL_DEBUG_SUBSYS"] = "INIT,NET"
        environment["NCCL_DEBUG_FILE"] = f"/proc/self/fd/{file}"
        yield file
    finally:
        os.close(file)


def read_log(file: int, rails: Mapping[str, str | None]) -> dict[str, Any]:
    """Return what NCCL has written so far as data for ``NcclLog.from_dict``; why not, under ``error``."""
    try:
        data = os.pread(file, MOST_BYTES + 1, 0)
        if not data:
            raise LogError("NCCL wrote nothing")
        if len(data) > MOST_BYTES:
            raise LogError(f"more than {MOST_BYTES} bytes")
        return replace(parse_nccl_log(data.decode("utf-8", "replace")), rails=rails).to_dict()
    except (OSError, LogError) as exc:
        return {"error": str(exc)}

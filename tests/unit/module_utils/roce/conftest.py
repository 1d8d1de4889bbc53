"""A host whose one RoCE port keeps what it is told, as the vendor's driver, the upstream one or Soft-RoCE does."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.roce.settings import PortSettings

from tests.contracts.table import refuse_unknown

TOS = "/sys/kernel/config/rdma_cm/{}/ports/1/default_roce_tos"
SETTINGS: dict[str, Any] = {
    "rail": 0,
    "address": "0000:1a:00.0",
    "ip": "172.16.0.1/31",
    "backend": "doca",
    "mtu_bytes": 9000,
    "dscp_priority": [{"dscp": 26, "priority": 3}, {"dscp": 46, "priority": 5}, {"dscp": 48, "priority": 6}],
    "lossless_priorities": [3, 5],
    "dcqcn": False,
    "cnp_dscp": None,
    "cnp_priority": None,
    "cm_tos": 104,
    "traffic_class": None,
    "rings": {"rx": 8192, "tx": 8192},
    "buffers": None,
}
INBOX = {**SETTINGS, "backend": "inbox", "dcqcn": None}
SOFT = {
    **INBOX,
    "dscp_priority": [],
    "lossless_priorities": [],
    "cm_tos": 0,
    "rings": None,
}


class Nic:
    """``ignores`` names files and options that are taken and forgotten; a ``soft`` one has no DCB."""

    def __init__(
        self,
        device: str = "mlx5_0",
        interface: str = "rdma0",
        address: str = "0000:1a:00.0",
        *,
        soft: bool = False,
    ) -> None:
        self.device, self.interface, self.soft = device, interface, soft
        self.tos = {device: "0"}
        self.ignores: set[str] = set()
        self.ran: list[tuple[str, ...]] = []
        self.written: list[str] = []
        self.dcbx, self.trust, self.pfc = "Firmware", "pcp", [0] * 8
        self.dscp = {dscp: dscp // 8 for dscp in range(64)}
        self.sizes, self.of_priority = [130944, *[0] * 7], [0] * 8
        self.rings = {"rx": "1024", "tx": "1024"}
        base, net, pci = (
            f"/sys/class/infiniband/{device}",
            f"/sys/class/net/{interface}",
            f"/sys/bus/pci/devices/{address}",
        )
        gids = f"{base}/ports/1"
        self.files = {
            f"{pci}/net/{interface}": "",
            f"{net}/mtu": "1500",
            **{
                f"/proc/sys/net/ipv4/conf/{interface}/{name}": "0"
                for name in ("arp_ignore", "arp_announce", "rp_filter")
            },
            f"{gids}/gids/0": "fe80:0000:0000:0000:0e42:a1ff:fe00:0001",
            f"{gids}/gids/3": "0000:0000:0000:0000:0000:ffff:ac10:0001",
            f"{gids}/gids/4": "0000:0000:0000:0000:0000:0000:0000:0000",
            **{f"{gids}/gid_attrs/types/{index}": kind for index, kind in (("0", "IB/RoCE v1"), ("3", "RoCE v2"))},
            **{f"{gids}/gid_attrs/ndevs/{index}": interface for index in "03"},
        }
        if soft:
            self.files[f"{base}/parent"] = interface
            return
        self.files[f"{pci}/infiniband/{device}"] = ""
        self.files[f"{base}/tc/1/traffic_class"] = ""
        for point in ("roce_np", "roce_rp"):
            self.files.update({f"{net}/ecn/{point}/enable/{priority}": "1" for priority in range(8)})
        self.files[f"{net}/ecn/roce_np/cnp_dscp"] = "0"
        self.files[f"{net}/ecn/roce_np/cnp_802p_prio"] = "6"

    def rename(self, device: str, interface: str) -> None:
        """Call them otherwise, as udev's rules do after a reboot; the port keeps its settings."""
        new = {self.device: device, self.interface: interface}
        self.files = {
            "/".join(new.get(part, part) for part in path.split("/")): new.get(text, text)
            for path, text in self.files.items()
        }
        self.tos = {device: self.tos[self.device]}
        self.device, self.interface = device, interface

    def read(self, path: str) -> Output:
        if path not in self.files:
            return Output(rc=None, error=f"{path}: No such file or directory")
        return Output(self.files[path] + "\n" if self.files[path] else "")

    def paths(self, *patterns: str) -> list[str]:
        return sorted({path for path in self.files for each in patterns if fnmatch.fnmatchcase(path, each)})

    def write(self, path: str, text: str) -> str:
        self.written.append(path)
        if path not in self.files:
            return "No such file or directory"
        if path.endswith("traffic_class"):
            text = "" if text == "-1" else f"Global tclass={text}"
        if path == TOS.format(self.device):
            self.tos[self.device] = text
        if path.rpartition("/")[2] not in self.ignores:
            self.files[path] = text
        return ""

    def run(self, argv: Sequence[str], timeout_seconds: float) -> Output:
        refuse_unknown(argv)
        self.ran.append(tuple(argv))
        if argv[0] in self.ignores:
            return Output(rc=None, error=f"{argv[0]}: not found in PATH")
        return getattr(self, f"_{argv[0]}")(list(argv[1:]))

    def _mkdir(self, words: list[str]) -> Output:
        self.files[TOS.format(self.device)] = self.tos[self.device]
        return Output()

    def _rmdir(self, words: list[str]) -> Output:
        del self.files[TOS.format(self.device)]
        return Output()

    def _cma_roce_tos(self, words: list[str]) -> Output:
        if "-t" in words and "cma_tos" not in self.ignores:
            self.tos[words[1]] = words[3]
        return Output(self.tos[words[1]] + "\n")

    def _ethtool(self, words: list[str]) -> Output:
        if words[0] == "-G" and "rings" not in self.ignores:
            self.rings = {words[2]: words[3], words[4]: words[5]}
        head = "Ring parameters for rdma0:\nPre-set maximums:\nRX:\t\t8192\nRX Mini:\tn/a\nTX:\t\t8192\n"
        return Output(f"{head}Current hardware settings:\nRX:\t\t{self.rings['rx']}\nTX:\t\t{self.rings['tx']}\n")

    def _mlnx_qos(self, words: list[str]) -> Output:
        assert words.pop(0) == "-i"
        if words.pop(0) != self.interface:
            return Output(stderr="Cannot get device: No such device\n", rc=1)
        assert not {"--trust", "--dscp2prio"} <= set(words), "mlnx_qos refuses both at once"
        for option, value in zip(words[::2], words[1::2], strict=True):
            if option in self.ignores:
                continue
            if option == "--dcbx":
                self.dcbx = "OS"
            elif option == "--trust":
                self.trust, self.dscp = value, {dscp: dscp // 8 for dscp in range(64)}
            elif option == "--dscp2prio":
                _, dscp, priority = value.split(",")
                self.dscp[int(dscp)] = int(priority)
            elif option == "--pfc":
                self.pfc = [int(each) for each in value.split(",")]
            elif option == "--prio2buffer":
                self.of_priority = [int(each) for each in value.split(",")]
            elif option == "--buffer_size":
                self.sizes = [int(each) for each in value.split(",")]
        return Output(self.qos())

    def qos(self) -> str:
        lines = [f"DCBX mode: {self.dcbx} controlled", f"Priority trust state: {self.trust}"]
        if self.trust == "dscp":
            lines.append("dscp2prio mapping:")
            for priority in range(8):
                own = [f"{dscp:02}," for dscp in sorted(self.dscp, reverse=True) if self.dscp[dscp] == priority]
                for start in range(0, len(own), 8):
                    lines.append(f"\tprio:{priority} dscp:{''.join(own[start : start + 8])}")
        row = "   ".join
        return "\n".join(
            [
                *lines,
                "default priority:",
                f"Receive buffer size (bytes): {','.join(map(str, self.sizes))},total_size=262016",
                "Cable len: 7",
                "PFC configuration:",
                f"\tpriority    {row('01234567')}",
                f"\tenabled     {row(map(str, self.pfc))}   ",
                f"\tbuffer      {row(map(str, self.of_priority))}   ",
                "tc: 0 ratelimit: unlimited, tsa: vendor",
                "\t priority:  1\n",
            ]
        )

    def _dcb(self, words: list[str]) -> Output:
        if self.soft:
            return Output(stderr="Attribute read: Operation not supported\n", rc=1)
        if words[0] == "-j":
            return Output(json.dumps(self._dcb_answer(words[1])) + "\n")
        what, values = words[0], words[4:]
        pairs = [value.split(":") for value in values if ":" in value]
        if what in self.ignores:
            return Output()
        if what == "dcbx":
            self.dcbx = "OS"
        elif what == "app":
            self.trust = "dscp"
            self.dscp = {**(self.dscp if self.apps else {}), **{int(key): int(value) for key, value in pairs}}
            self.apps = True
        elif what == "pfc":
            for key, value in pairs:
                self.pfc[int(key)] = int(value == "on")
        else:
            self.of_priority = [int(value) for _, value in pairs[:8]]
            self.sizes = [int(value) for _, value in pairs[8:]]
        return Output()

    apps = False

    def _dcb_answer(self, what: str) -> Any:
        if what == "dcbx":
            return {"host": True, "ieee": True} if self.dcbx == "OS" else {"lld_managed": True}
        if what == "app":
            return {"dscp_prio": [[key, value] for key, value in sorted(self.dscp.items())]} if self.apps else {}
        if what == "pfc":
            return {"pfc_cap": 8, "macsec_bypass": False, "delay": 0, "prio_pfc": [bool(each) for each in self.pfc]}
        return {"prio_buffer": self.of_priority, "buffer_size": self.sizes, "total_size": 262016}


class Nics:
    """A host with several ports."""

    def __init__(self, *nics: Nic) -> None:
        self.nics = nics

    def read(self, path: str) -> Output:
        return next((nic for nic in self.nics if path in nic.files), self.nics[0]).read(path)

    def paths(self, *patterns: str) -> list[str]:
        return sorted({path for nic in self.nics for path in nic.paths(*patterns)})

    def write(self, path: str, text: str) -> str:
        return next(nic for nic in self.nics if path in nic.files).write(path, text)

    def run(self, argv: Any, timeout_seconds: float) -> Output:
        return next(nic for nic in self.nics if {nic.device, nic.interface} & set(argv)).run(argv, timeout_seconds)


def settings(base: dict[str, Any] = SETTINGS, **changes: Any) -> PortSettings:
    return PortSettings.from_dict({**base, **changes})


@pytest.fixture
def nic() -> Nic:
    return Nic()


@pytest.fixture
def soft() -> Nic:
    return Nic("rxe0", "eth1", soft=True)

"""A small InfiniBand fabric for tests: its plan, and what the tools would print of it, sound or with faults."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Rail, rail_name
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.cable_faults import Comparison, compare
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.planned_cables import Plan
from ansible_collections.muster.cluster.plugins.plugin_utils.cabling.task_results import infiniband_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.cabling_plan import Cable, End

HOSTS = ("gpu-1", "gpu-2")
LEAVES = ("leaf-1", "leaf-2")
SPINE = "spine-1"
PORTS = 6
# PCI addresses of each host's rails.
ADDRESSES = ("0000:1a:00.0", "0000:3c:00.0")


def plan(speed_gbps: int = 400, others: tuple[str, ...] = ()) -> Plan:
    """Two hosts of two rails, a leaf for each rail, two uplinks of each leaf to one spine."""
    rails = [
        Cable(End(host, rail_name(rail)), End(LEAVES[rail], str(1 + HOSTS.index(host))))
        for host in HOSTS
        for rail in (0, 1)
    ]
    uplinks = [
        Cable(End(leaf, str(3 + link)), End(SPINE, str(1 + 2 * LEAVES.index(leaf) + link)))
        for leaf in LEAVES
        for link in (0, 1)
    ]
    numbers = {cable.below: int(cable.below.port[-1]) for cable in rails}
    hosts: dict[str, str | None] = {**dict.fromkeys(HOSTS, "r1"), "sm": None}
    nics = dict.fromkeys(HOSTS, tuple(Rail(rail, address) for rail, address in enumerate(ADDRESSES)))
    return Plan("infiniband", (*rails, *uplinks), numbers, hosts, frozenset((*LEAVES, SPINE)), speed_gbps, others, nics)


@dataclass
class Lab:
    """Links by end, in both directions; what deviates from a sound port by end."""

    links: dict[End, End] = field(default_factory=lambda: dict(plan().far))
    names: dict[str, str] = field(default_factory=dict)
    width: dict[End, int] = field(default_factory=dict)
    speed: dict[End, str] = field(default_factory=dict)
    state: dict[End, str] = field(default_factory=dict)
    errors: dict[End, str] = field(default_factory=dict)

    def pull(self, name: str, port: str) -> End:
        """Pull a cable and return its other end."""
        other = self.links.pop(End(name, port))
        del self.links[other]
        return other

    def plug(self, one: End | tuple[str, str], other: End | tuple[str, str]) -> None:
        """Plug a cable in."""
        self.links[End(*one)] = End(*other)
        self.links[End(*other)] = End(*one)

    def exchange(self, one: tuple[str, str], other: tuple[str, str]) -> None:
        """Exchange the far ends of two cables."""
        ends = self.pull(*one), self.pull(*other)
        self.plug(one, ends[1])
        self.plug(other, ends[0])

    def ports(self) -> list[End]:
        """Every port that discovery reaches: HCAs that are linked, and all ports of switches."""
        switches = {end.name for end in self.links if end.port.isdigit()}
        numbers = [End(name, str(port)) for name in sorted(switches) for port in range(1, PORTS + 1)]
        return sorted(end for end in self.links if not end.port.isdigit()) + numbers

    def seen(self, end: End) -> tuple[str, str, int, int]:
        """Kind, description, GUID and number of a port."""
        hca = not end.port.isdigit()
        name = f"{end.name} {end.port}" if hca else f"MF0;{end.name}:MQM9790/U1"
        node = f"{end.name} {end.port}" if hca else end.name
        guid = 0x1000 + sum(ord(letter) * 131**index for index, letter in enumerate(node)) % 10**15
        return "CA" if hca else "SW", self.names.get(node, name), guid, 1 if hca else int(end.port)

    def ibnetdiscover(self) -> str:
        lines = []
        for end in self.ports():
            kind, name, guid, port = self.seen(end)
            peer = self.links.get(end)
            first = f"{kind} {7:5d} {port:2d} 0x{guid:016x} {self.width.get(end, 4)}x {self.speed.get(end, 'NDR')}"
            if peer is None:
                lines.append(f"{first}{'':36}'{name}'")
            else:
                far, far_name, far_guid, far_port = self.seen(peer)
                lines.append(f"{first} - {far} {8:5d} {far_port:2d} 0x{far_guid:016x} ( '{name}' - '{far_name}' )")
        return "\n".join(lines) + "\n"

    def iblinkinfo(self) -> str:
        gbps = {"EDR": "25.78125", "HDR": "53.125", "NDR": "106.25", "XDR": "212.5"}
        lines = []
        for end in self.ports():
            _, name, guid, port = self.seen(end)
            peer = self.links.get(end)
            own = f'0x{guid:016x} "{name:>30}" {7:6d} {port:4d}[  ] =='
            if peer is None:
                lines.append(f'{own}({"":14}  Down/ Polling)==>             [  ] "" ( )')
                continue
            _, far_name, far_guid, far_port = self.seen(peer)
            speed = f"{gbps[self.speed.get(end, 'NDR')]} Gbps"
            link = f"({self.width.get(end, 4):2d}X {speed:>18} {self.state.get(end, 'Active/  LinkUp')})"
            lines.append(f'{own}{link}==>  0x{far_guid:016x} {8:6d} {far_port:4d}[  ] "{far_name}" ( )')
        return "\n".join(lines) + "\n"

    def ibqueryerrors(self) -> str:
        lines = []
        for end, counters in self.errors.items():
            kind, name, guid, port = self.seen(end)
            lines.append(f'Errors for {f"0x{guid:x} " if kind == "SW" else ""}"{name}"')
            lines.append(f"   GUID 0x{guid:x} port {port}: {counters}")
        nodes = len({self.seen(end)[2] for end in self.ports()})
        lines += ["", f"## Summary: {nodes} nodes checked, {len(self.errors)} bad nodes found"]
        lines += [
            f"##          {len(self.ports())} ports checked, {len(self.errors)} ports have errors beyond threshold"
        ]
        return "\n".join([*lines, "## Thresholds: ", "## Suppressed:"]) + "\n"

    def results(self) -> dict[str, dict[str, object]]:
        """What the tasks would have registered."""
        tools = {
            "ibnetdiscover": self.ibnetdiscover,
            "iblinkinfo": self.iblinkinfo,
            "ibqueryerrors": self.ibqueryerrors,
        }
        return {
            name: {"rc": int(name == "ibqueryerrors" and bool(self.errors)), "stdout": say()}
            for name, say in tools.items()
        }

    def compared(self, others: tuple[str, ...] = (), **changed: object) -> Comparison:
        """The comparison with the plan, with some results replaced."""
        wanted = replace(plan(), others=others)
        return compare(wanted, infiniband_of(wanted, {**self.results(), **changed}))

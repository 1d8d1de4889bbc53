"""A switch as its hand-over sheet and the cabling plan make it."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS, Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_audit import SYSTEMS, commands_for
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_judging import judge
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_plan import SwitchPlan
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_sheets import sheets_of
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_state import Answers

from .leaf import leaf_of
from .simulated import SWITCHES, Wire, Wires

# No command shows EOS' headroom.
LEFT_OUT = {"eos": ("headroom",), "sonic": (), "cumulus": ()}


def wired(plan: SwitchPlan) -> dict[str, Wire]:
    """Return what every port hears when all cables are where they belong; hosts give a MAC address, then the name."""
    wires = {}
    for port, ours in plan.ports.items():
        ids = ("0c:42:a1:00:00:01", "eth0") if ours.host else (ours.other.port, "uplink")
        wires[port] = Wire([(ours.other.name if not ours.host else f"{ours.other.name}.site.example", *ids)])
    return wires


def sheet_of(fleet: Fleet) -> str:
    """Return the sheet of the first leaf."""
    return dict(sheets_of(fleet, ["tor-1"]))["tor-1.txt"]


def outputs_of(fleet: Fleet, wires: Wires | None = None, sheet: str | None = None) -> dict[str, str]:
    """Return what the first leaf prints, by command, once it was configured from its sheet."""
    plan = leaf_of(fleet)
    text = sheet_of(fleet) if sheet is None else sheet
    return SWITCHES[plan.switch.system](text, wired(plan) if wires is None else wires)


def wrong(fleet: Fleet, outputs: Mapping[str, str], left_out: tuple[str, ...] | None = None) -> list[Finding]:
    """Return what is not right about the first leaf that prints this."""
    plan = leaf_of(fleet)
    left_out = LEFT_OUT[plan.switch.system] if left_out is None else left_out
    commands = commands_for(plan)
    texts = {name: outputs[command] for name, command in commands.items()}
    state = SYSTEMS[plan.switch.system].read(Answers(commands, texts), plan.ports)
    return [finding for finding in judge(plan, state, left_out) if finding.verdict != PASS]

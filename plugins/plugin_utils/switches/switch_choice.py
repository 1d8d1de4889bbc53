"""Which of the fleet's switches a task is about."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ansible_collections.muster.cluster.plugins.module_utils.words.errors import MusterError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.cabling_plan import switches_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declared_fabric import ROCE
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_plan import SwitchPlan, plans_of


class SwitchChoiceError(MusterError, ValueError):
    """Switches that a task cannot be about; says what was found and what was expected."""


def require_switches(fleet: Fleet, names: Collection[str]) -> None:
    """Raise SwitchChoiceError where the fleet's fabric has no switches of ours, or not those that are named."""
    if fleet.fabric.kind != ROCE:
        raise SwitchChoiceError(f"fabric.kind is {fleet.fabric.kind}, expected {ROCE}")
    if unknown := sorted(set(names) - set(switches_of(fleet.fabric))):
        raise SwitchChoiceError(f"{', '.join(unknown)} is no switch of fabric.switches")


def chosen(fleet: Fleet, names: Sequence[str]) -> tuple[list[SwitchPlan], list[str]]:
    """Return the switches to ask, all where none is named, and those that nobody can ask as they have no address.

    Raises SwitchChoiceError.
    """
    require_switches(fleet, names)
    plans = plans_of(fleet)
    wanted = [plans[name] for name in dict.fromkeys(names or plans)]
    asked = [plan for plan in wanted if plan.switch.address]
    if not asked:
        raise SwitchChoiceError("no switch has an address in fabric.switches, nobody to ask")
    return asked, [plan.switch.name for plan in wanted if not plan.switch.address]

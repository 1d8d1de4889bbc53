"""Hand-over sheets: what follows from the declaration for each switch, as text for those who configure it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fabric_of_host import tos_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_choice import require_switches
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_judging import QUESTIONS
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_plan import HASHED, SwitchPlan, plans_of
from ansible_collections.muster.cluster.plugins.plugin_utils.switches.switch_state import QUEUE_PAIR

SUMMARY = "handover.md"
# What the sheets set up to end pauses that never end: Cumulus' defaults (three polls of 100 ms) for all systems.
WATCHDOG = {"detect_ms": 300, "restore_ms": 300, "poll_ms": 100}


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Configuration and Markdown; names have been checked where they are declared.
        autoescape=False,
    )


def sheets_of(fleet: Fleet, names: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield name and text of the summary and of each switch's sheet; ``names``, if any, leave out all other switches.

    Raises SwitchChoiceError.
    """
    require_switches(fleet, names)
    plans = plans_of(fleet)
    environment = _environment()
    kinds: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, plan in plans.items():
        if not names or name in names:
            gaps = tuple(gaps_of(plan))
            kinds.setdefault((plan.switch.system, gaps), []).append(name)
            template = environment.get_template(f"{plan.switch.system}.txt.j2")
            values = {"plan": plan, "gaps": gaps, "cluster": fleet.cluster, "watchdog": WATCHDOG}
            if plan.switch.system == "sonic":
                values["tables"] = sonic_tables(plan)
            yield f"{name}.txt", template.render(values)
    summary = {"fleet": fleet, "kinds": kinds, "classes": list(_classes(fleet)), "questions": QUESTIONS}
    yield SUMMARY, environment.get_template("handover.md.j2").render(summary)


def gaps_of(plan: SwitchPlan) -> Iterator[str]:
    """Yield what a switch needs and the declaration does not say."""
    system, routing = plan.switch.system, plan.fabric.routing or ""
    if any(not port.host for port in plan.ports.values()):
        yield "addresses of links between switches, and routing over them, are not declared"
    for gateway in sorted({port.shared_gateway for port in plan.ports.values() if port.shared_gateway}):
        yield f"gateway {gateway} of a rail's shared network: on which switch and interface is not declared"
    if plan.classes:
        yield "weights of the traffic classes are not declared (NVIDIA's RoCE default: 50 % for data, strict for CNP)"
    if plan.lossless:
        yield "cable lengths, from which headroom is calculated, are not declared"
    if routing not in HASHED:
        yield f"how {system} spreads packets ({routing}) is not derived"
    elif QUEUE_PAIR in HASHED[routing] and system == "cumulus":
        yield f"NVUE has no hash field for the {QUEUE_PAIR}, which e_ecmp hashes"
    elif QUEUE_PAIR in HASHED[routing] and system == "eos":
        yield "load-balance sand is for 7280R, 7500R and 7800R; other platforms choose hash fields in other words"
    if system == "eos" and plan.lossless:
        yield "on some platforms the watchdog sees only queues with guaranteed bandwidth (EOS manual)"
    if system == "eos" and plan.marks:
        yield "platforms with separate unicast queues say uc-tx-queue instead of tx-queue"


def _classes(fleet: Fleet) -> Iterator[dict[str, Any]]:
    qos = fleet.fabric.qos
    for name, traffic in (("data", qos.data), ("control", qos.control), ("cnp", qos.cnp)) if qos else ():
        yield {"name": name, "traffic": traffic, "tos": tos_of(traffic, fleet.fabric)}


def sonic_tables(plan: SwitchPlan) -> dict[str, Any]:
    """Return what goes into SONiC's CONFIG_DB; its values are text."""
    same = {str(number): str(number) for number in range(8)}
    lossless = ",".join(map(str, plan.lossless))
    maps = {
        "dscp_to_tc_map": "MUSTER",
        "tc_to_queue_map": "MUSTER",
        "tc_to_pg_map": "MUSTER",
        "pfc_to_queue_map": "MUSTER",
        **({"pfc_enable": lossless} if lossless else {}),
    }
    interfaces: dict[str, Any] = {}
    for name, port in plan.ports.items():
        if port.address:
            interfaces |= {name: {}, f"{name}|{port.address}": {}}
    tables: dict[str, Any] = {
        "PORT": {
            name: {"description": str(port.other), "mtu": str(plan.fabric.mtu_bytes)}
            for name, port in plan.ports.items()
        },
        "INTERFACE": interfaces,
        "DSCP_TO_TC_MAP": {"MUSTER": {str(dscp): str(each) for dscp, each in plan.classes.items()}},
        "TC_TO_QUEUE_MAP": {"MUSTER": same},
        "TC_TO_PRIORITY_GROUP_MAP": {
            "MUSTER": {each: each if int(each) in plan.lossless else "0" for each in same},
        },
        "MAP_PFC_PRIORITY_TO_QUEUE": {"MUSTER": same},
        "PORT_QOS_MAP": dict.fromkeys(plan.ports, maps),
        "BUFFER_PG": {f"{name}|{each}": {"profile": "NULL"} for name in plan.ports for each in plan.lossless},
    }
    if plan.lossless:
        times = {"detection_time": str(WATCHDOG["detect_ms"]), "restoration_time": str(WATCHDOG["restore_ms"])}
        tables["PFC_WD"] = {name: {"action": "drop", **times} for name in plan.ports}
    for priority, ecn in plan.marks.items():
        tables["WRED_PROFILE"] = {
            "MUSTER": {
                "ecn": "ecn_green",
                "wred_green_enable": "true",
                "green_min_threshold": str(ecn.min_bytes),
                "green_max_threshold": str(ecn.max_bytes),
                "green_drop_probability": "100",
            }
        }
        tables["QUEUE"] = {f"{name}|{priority}": {"wred_profile": "MUSTER"} for name in plan.ports}
    if plan.fabric.routing in HASHED:
        fields = ["SRC_IP", "DST_IP", "IP_PROTOCOL", "L4_SRC_PORT", "L4_DST_PORT"]
        queue_pair = ["RDMA_BTH_DEST_QP"] if QUEUE_PAIR in HASHED[plan.fabric.routing] else []
        tables["SWITCH_HASH"] = {"GLOBAL": {"ecmp_hash": [*fields, *queue_pair]}}
    if not plan.classes:
        tables = {name: rows for name, rows in tables.items() if name in ("PORT", "INTERFACE", "SWITCH_HASH")}
    return {name: rows for name, rows in tables.items() if rows}

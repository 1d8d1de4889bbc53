"""The verdicts of a fleet and their evidence as one self-contained HTML page."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import STAGES, Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import (
    INCOMPLETE,
    PASS,
    VERDICTS,
    Finding,
    worst,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.printable import printable
from ansible_collections.muster.cluster.plugins.plugin_utils.checkpoints.checkpoint_plan import Plan
from ansible_collections.muster.cluster.plugins.plugin_utils.checkpoints.checkpoint_plan_table import (
    FORMULAS,
    plan_cells,
    plan_head,
    plan_notes,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.acceptance_shown import (
    CampaignView,
    Recorded,
    RoundView,
    campaign_view,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.report.owed import owed_of, owed_text
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import (
    QUIET_STATES,
    STATES_SHOWN,
    Verdict,
    counting_order,
    quantity,
    reason_of,
    verdict_order,
    words,
    worst_finding,
)
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

# So many sick nodes are read one by one; with more, the lists above say which to open.
OPEN_AT_MOST = 12
# So many healthy nodes fit on a screen; more stay behind their heading until asked for.
LIST_AT_MOST = 24
# The comma before each place of a list of serial numbers (0000:1b:00.0=1650222000123,0000:43:00.0=...).
_LISTED = re.compile(r",(?=[^ ,=][^,=]*=)")
TEMPLATES = Path(__file__).parent


@dataclass(frozen=True)
class About:
    """What the page says about itself: written (seconds since the epoch), and whatever of the rest is known.

    ``plan`` is that of the cluster's checkpoints, None where it declares none; ``recorded`` are the campaigns of
    acceptance to draw, ``lost`` says which others cannot be.
    """

    written: float
    cluster: str = ""
    muster_version: str = ""
    ledger_id: str = ""
    plan: Plan | None = None
    recorded: tuple[Recorded, ...] = ()
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """A part that was seen in a node; ``seen`` is when it was last seen there, seconds since the epoch."""

    kind: str
    slot: str
    serial: str
    seen: float


@dataclass(frozen=True)
class Passed:
    """Findings of one check that passed with the same numbers, as one line."""

    check: str
    subjects: tuple[str, ...]
    measured: str
    expected: str


@dataclass(frozen=True)
class Cause:
    """Findings that did not pass, as one line: several where the same kept many parts from being measured."""

    finding: Finding
    subjects: tuple[str, ...]
    checks: tuple[str, ...]


@dataclass(frozen=True)
class StageView:
    """One stage's evidence, ready to print."""

    evidence: Evidence
    verdict: str
    started: str
    took: str
    detail: tuple[tuple[str, str], ...]
    # Findings that did not pass and are not among those that explain the node's state.
    others: tuple[Cause, ...]
    passed: tuple[Passed, ...]


@dataclass(frozen=True)
class NodeView:
    """One node, ready to print."""

    anchor: str
    verdict: Verdict
    place: str
    worst: Finding | None
    bad: tuple[Cause, ...]
    # Serial number of the part that a finding is about, by the finding's subject.
    serials: Mapping[str, str]
    parts: tuple[Part, ...]
    stages: tuple[StageView, ...]
    fingerprint: tuple[tuple[str, str, str], ...]
    # The rounds shown on the page that it took part in.
    rounds: tuple[RoundView, ...] = ()


@dataclass(frozen=True)
class Remark:
    """What is to be known of nodes beside their state."""

    kind: str
    text: str
    nodes: Sequence[NodeView]


@dataclass
class Work:
    """What is asked for on how many nodes, for the same check in the same stage."""

    action: str
    stage: str
    check: str
    verdict: str
    nodes: list[NodeView] = field(default_factory=list)


def report_page(
    verdicts: Iterable[Verdict],
    evidence: Mapping[str, Sequence[Evidence]],
    about: About,
    places: Mapping[str, Mapping[str, Any]] | None = None,
    parts: Mapping[str, Sequence[Part]] | None = None,
) -> str:
    """Return the page as HTML text that loads nothing and runs nothing.

    ``evidence`` holds the records to show for a node, the latest of a stage wins; ``places`` says of a node what
    helps to find it (``address``, ``hardware_class``, ``pod``, ``rack``), ``parts`` what was seen in it, so that a
    part that is gone can still be named by its serial number. Without matplotlib, or with
    recorded rounds that cannot be read, the page has all the rest and says so. All text is escaped, and characters that
    could hide or reverse it are written out.
    """
    campaigns = [campaign_view(one, places or {}, number) for number, one in enumerate(about.recorded, 1)]
    nodes = [
        _node(
            index,
            verdict,
            evidence.get(verdict.node, ()),
            (places or {}).get(verdict.node, {}),
            (parts or {}).get(verdict.node, ()),
        )
        for index, verdict in enumerate(sorted(verdicts, key=verdict_order))
    ]
    if campaigns:
        nodes = [replace(node, rounds=_rounds(node.verdict.node, campaigns)) for node in nodes]
    counts = _counts(nodes)
    return page_template("report.html.j2").render(
        about=about,
        written=moment(about.written),
        total=len(nodes),
        counts=counts,
        work=_work(nodes),
        remarks=_remarks(nodes),
        sick=[node for node in nodes if node.verdict.state not in QUIET_STATES],
        quiet=[(state, [node for node in nodes if node.verdict.state == state]) for state in QUIET_STATES],
        open_at_most=OPEN_AT_MOST,
        list_at_most=LIST_AT_MOST,
        plan=_plan(about.plan) if about.plan else None,
        campaigns=campaigns,
        images=any(campaign.images for campaign in campaigns),
        # A node that took part but is not on this page is named without a link.
        anchors={node.verdict.node: node.anchor for node in nodes},
    )


def _rounds(node: str, campaigns: Sequence[CampaignView]) -> tuple[RoundView, ...]:
    return tuple(view for campaign in campaigns for view in campaign.of_node.get(node, ()))


def _plan(plan: Plan) -> dict[str, Any]:
    rows = [plan_cells(row) for row in plan.rows]
    return {"head": plan_head(plan), "rows": rows, "notes": (*plan_notes(plan), *FORMULAS)}


def page_template(name: str) -> Template:
    """Return a page's template, in which ``style`` is what all pages look like."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # The one place that every value passes on its way into the page; markup from our own macros is left alone.
        finalize=lambda value: printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )
    environment.filters["quantity"] = lambda finding, key: quantity(getattr(finding, key), finding.unit)
    environment.filters["reason"] = reason_of
    environment.filters["words"] = words
    environment.filters["moment"] = moment
    environment.globals["style"] = Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))
    return environment.from_string((TEMPLATES / name).read_text(encoding="utf-8"))


def _counts(nodes: Sequence[NodeView]) -> list[tuple[str, int]]:
    found = [node.verdict.state for node in nodes]
    order = [state for state in dict.fromkeys(found) if state not in STATES_SHOWN] + list(STATES_SHOWN)
    return [(state, found.count(state)) for state in order if state in found]


def _work(nodes: Sequence[NodeView]) -> list[Work]:
    """Return what has to be done, that on most nodes first within the order of the states."""
    grouped: dict[tuple[str, ...], Work] = {}
    for node in nodes:
        if node.worst is None or node.verdict.state in QUIET_STATES:
            continue
        key = (node.worst.action, node.verdict.stage, node.worst.check, node.worst.verdict)
        grouped.setdefault(key, Work(*key)).nodes.append(node)
    return sorted(grouped.values(), key=lambda work: (VERDICTS.index(work.verdict), -len(work.nodes)))


def _remarks(nodes: Sequence[NodeView]) -> list[Remark]:
    """Return what an admission was not asked, was forgiven or still owes, by what it is."""
    owed: dict[tuple[str, str], list[NodeView]] = {}
    found: dict[tuple[str, str], list[NodeView]] = {}
    for node in nodes:
        for key in dict.fromkeys((due.stage, each) for due in node.verdict.due for each in owed_of(due)):
            owed.setdefault(key, []).append(node)
        said = []
        for waived in node.verdict.waived:
            finding, waiver = waived.finding, waived.waiver
            what = f"{finding.check} {finding.subject}: {finding.reason or finding.verdict}"
            said.append((f"Waived until {waiver.until}", f"{what} ({waiver.who}: {waiver.reason})"))
        said += [("Asked less than shipped", text) for text in node.verdict.weaker]
        for key in dict.fromkeys(said):
            found.setdefault(key, []).append(node)
    return [
        *(Remark("Due again", owed_text(stage, each, len(named)), named) for (stage, each), named in owed.items()),
        *(Remark(kind, text, named) for (kind, text), named in found.items()),
    ]


def _node(
    index: int, verdict: Verdict, records: Sequence[Evidence], place: Mapping[str, Any], parts: Sequence[Part]
) -> NodeView:
    latest = {record.stage: record for record in sorted(records, key=lambda one: one.started)}
    first = worst_finding(verdict.findings)
    # Two stages may say the same of a part; once is enough.
    bad = tuple(
        sorted(
            dict.fromkeys(finding for finding in verdict.findings if finding.verdict != PASS),
            key=lambda one: (one != first, VERDICTS.index(one.verdict)),
        )
    )
    shown = frozenset(bad)
    stages = tuple(_stage(latest[stage], shown) for stage in STAGES if stage in latest)
    where = [place.get("hardware_class"), place.get("pod"), place.get("rack"), place.get("address")]
    # Anchors are ours, not the node's name: a name cannot break out of an attribute or collide with another.
    return NodeView(
        f"node-{index + 1}",
        verdict,
        " · ".join(str(part) for part in where if part),
        first,
        _causes(bad),
        {finding.subject: serial for finding in bad if (serial := _serial_of(finding.subject, parts))},
        tuple(sorted(parts, key=lambda part: (part.kind, counting_order(part.slot), -part.seen))),
        stages,
        _fingerprint([stage.evidence for stage in stages]),
    )


def _serial_of(subject: str, parts: Sequence[Part]) -> str:
    """Return the serial number last seen in the slot or at the address that a subject names.

    A subject is spelled ``gpu SXM5 0000:9d:00.0``: kind, slot, address.
    """
    kind, *where = subject.split() or [""]
    seen = [part for part in parts if part.kind == kind and part.slot in where]
    return max(seen, key=lambda part: part.seen).serial if seen else ""


def _causes(findings: Iterable[Finding]) -> tuple[Cause, ...]:
    """Return the findings, those that one cause left unmeasured as one; a part at fault keeps a line of its own."""
    grouped: dict[Finding, list[Finding]] = {}
    for finding in findings:
        cause = replace(finding, check="", subject="") if finding.verdict == INCOMPLETE and finding.reason else finding
        grouped.setdefault(cause, []).append(finding)
    return tuple(
        Cause(
            same[0],
            tuple(dict.fromkeys(finding.subject for finding in same)),
            tuple(dict.fromkeys(finding.check for finding in same)),
        )
        for same in grouped.values()
    )


def _stage(evidence: Evidence, shown: Collection[Finding]) -> StageView:
    took = "not finished" if evidence.finished is None else _duration(evidence.finished - evidence.started)
    # What the save came to that all nodes took part in (stage storage) is told like what only this node did.
    save = evidence.detail.get("save")
    told = {**evidence.detail, **(save if isinstance(save, Mapping) else {})}
    detail = tuple(
        (key, quantity(value)) for key, value in sorted(told.items()) if isinstance(value, (str, int, float))
    )
    return StageView(
        evidence,
        worst(finding.verdict for finding in evidence.findings) if evidence.finished is not None else "incomplete",
        moment(evidence.started),
        took,
        detail,
        _causes(finding for finding in evidence.findings if finding.verdict != PASS and finding not in shown),
        _passed(evidence.findings),
    )


def _passed(findings: Iterable[Finding]) -> tuple[Passed, ...]:
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for finding in findings:
        if finding.verdict == PASS:
            key = (finding.check, quantity(finding.measured, finding.unit), quantity(finding.expected, finding.unit))
            grouped.setdefault(key, []).append(finding.subject)
    return tuple(Passed(key[0], tuple(parts), key[1], key[2]) for key, parts in grouped.items())


def _fingerprint(records: Sequence[Evidence]) -> tuple[tuple[str, str, str], ...]:
    """Return component, value and, where stages saw different values, the stages that saw this one."""
    rows: list[tuple[str, str, str]] = []
    for component in sorted({name for record in records for name in record.fingerprint}):
        seen: dict[str, list[str]] = {}
        for record in records:
            if component in record.fingerprint:
                # Serial numbers stand one on a line, as they are compared with labels.
                value = _LISTED.sub("\n", str(record.fingerprint[component] or "unreadable"))
                seen.setdefault(value, []).append(record.stage)
        rows += [(component, value, ", ".join(stages) if len(seen) > 1 else "") for value, stages in seen.items()]
    return tuple(rows)


def moment(seconds: float) -> str:
    """Return a time as people compare it between machines: UTC, to the second."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):
        return f"{seconds} (not a time)"


def _duration(seconds: float) -> str:
    if not 0 <= seconds < 1e9:
        return f"{seconds:g} s (the clock was set)"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min {rest:02} s"

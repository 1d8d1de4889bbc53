"""Questions put to a ledger within one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import (
    FORMAT,
    Evidence,
    EvidenceError,
    original_of,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import (
    AGREES,
    CLOCK_SKEW_SECONDS,
    AdmittedBy,
    Doubt,
    Draw,
    JudgedBy,
    Mark,
    Measured,
    NodeRow,
    Progress,
    Record,
    Stay,
    StoredRound,
    Transition,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.tables import (
    BURN_IN_SHARE,
    DECISION,
    DOUBT,
    DRAIN,
    DRAW,
    EVIDENCE,
    META,
    NODE,
    PART,
    POLICY,
    ROUND,
    SERIES,
    TRANSITION,
    UnreadableColumnError,
)
from sqlalchemy import JSON, Connection, Table, func, select, type_coerce

# SQLite before 3.32 takes no more than 999 variables in one statement.
NAMES_PER_QUERY = 900
DRAW_COLUMNS = tuple(DRAW.c[name] for name in Draw.__dataclass_fields__)


class Reader:
    """Questions put to the ledger within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def generation(self) -> int:
        """Return how many changes the gate has to follow."""
        return int(self._connection.execute(select(META.c.generation)).scalar_one())

    def progress(self) -> Progress:
        """Return how far the decisions have come."""
        return Progress(self.generation(), self._last(TRANSITION))

    def mark(self) -> Mark:
        """Return how far the ledger has come, for ``moved_on`` to compare with."""
        last = select(EVIDENCE.c.seq, EVIDENCE.c.digest).order_by(EVIDENCE.c.seq.desc()).limit(1)
        row = self._connection.execute(last).one_or_none()
        evidence, digest = (0, "") if row is None else (row.seq, row.digest)
        return Mark(self.generation(), evidence, digest, self._last(DECISION), self._last(TRANSITION))

    def moved_on(self, mark: Mark, nodes: Collection[str]) -> bool:
        """Return whether there is a decision or a change of state since the mark, or evidence of one of the nodes."""
        then = (mark.generation, mark.decision, mark.transition)
        if (self.generation(), self._last(DECISION), self._last(TRANSITION)) != then:
            return True
        return not self.stages_since(mark).keys().isdisjoint(nodes)

    def stages_since(self, mark: Mark) -> dict[str, set[str]]:
        """Return, by node, the stages of which evidence was recorded since the mark."""
        columns = (EVIDENCE.c.seq, EVIDENCE.c.digest, EVIDENCE.c.node, EVIDENCE.c.stage)
        found: dict[str, set[str]] = {}
        for row in self._connection.execute(select(*columns).where(EVIDENCE.c.seq >= mark.evidence)):
            if (row.seq, row.digest) != (mark.evidence, mark.digest):
                found.setdefault(row.node, set()).add(row.stage)
        return found

    def _last(self, table: Table) -> int:
        return int(self._connection.execute(select(func.max(table.c.seq))).scalar_one() or 0)

    def nodes(self) -> dict[str, NodeRow]:
        """Return every node that was ever judged."""
        return {row.name: NodeRow(**row._mapping) for row in self._connection.execute(select(NODE))}

    def states(self) -> dict[str, str]:
        """Return the state of every node that was ever judged."""
        return {row.name: row.state for row in self._connection.execute(select(NODE.c.name, NODE.c.state))}

    def decisions(self) -> dict[str, str]:
        """Return the operators' standing decisions; a released node has none."""
        last = select(func.max(DECISION.c.seq)).group_by(DECISION.c.node)
        rows = self._connection.execute(select(DECISION.c.node, DECISION.c.decision).where(DECISION.c.seq.in_(last)))
        return {row.node: row.decision for row in rows if row.decision != "none"}

    def drains(self) -> dict[str, str]:
        """Return the reason of every manual drain, by node."""
        return {row.node: row.reason for row in self._connection.execute(select(DRAIN))}

    def transitions(self) -> list[Transition]:
        """Return every transition, oldest first."""
        return [move for _, move in self.history()]

    def history(self) -> list[tuple[float, Transition]]:
        """Return every transition with its time, seconds since the epoch, in the order in which they were recorded."""
        columns = [TRANSITION.c[name] for name in Transition.__dataclass_fields__]
        rows = self._connection.execute(select(TRANSITION.c.at, *columns).order_by(TRANSITION.c.seq))
        return [(at, Transition(*move)) for at, *move in rows]

    def parts(self, node: str) -> list[Stay]:
        """Return the parts last seen in a node."""
        newest = select(func.max(PART.c.seq)).group_by(PART.c.kind, PART.c.serial)
        query = select(PART).where(PART.c.node == node, PART.c.seq.in_(newest)).order_by(PART.c.kind, PART.c.slot)
        return [Stay(**row._mapping) for row in self._connection.execute(query)]

    def stays(self, serials: Iterable[str]) -> dict[tuple[str, str], Stay]:
        """Return, by kind and serial, where the parts with these serials were seen last."""
        found: dict[tuple[str, str], Stay] = {}
        for names in portions(serials):
            newest = select(func.max(PART.c.seq)).where(PART.c.serial.in_(names)).group_by(PART.c.kind, PART.c.serial)
            for row in self._connection.execute(select(PART).where(PART.c.seq.in_(newest))):
                found[row.kind, row.serial] = Stay(*row)
        return found

    def shared_parts(self) -> list[tuple[str, str, str]]:
        """Return (kind, serial, node) of each part that more than one node showed when it was examined last.

        Of each part the node comes first that showed it first. Retired nodes are not asked any more.
        """
        now = (PART.c.last_seen == NODE.c.examined) & (NODE.c.state != "retired") & (PART.c.kind != "module")
        there = select(PART.c.kind, PART.c.serial, PART.c.node).join(NODE, NODE.c.name == PART.c.node).where(now)
        twice = there.subquery()
        keys = (
            select(twice.c.kind, twice.c.serial)
            .group_by(twice.c.kind, twice.c.serial)
            .having(func.count(func.distinct(twice.c.node)) > 1)
        ).subquery()
        same = (PART.c.kind == keys.c.kind) & (PART.c.serial == keys.c.serial)
        stay = PART.alias()
        # A part that was seen elsewhere in between begins another stay where it was before.
        own = (stay.c.kind == PART.c.kind) & (stay.c.serial == PART.c.serial) & (stay.c.node == PART.c.node)
        first = select(func.min(stay.c.seq)).where(own).scalar_subquery().label("first")
        query = there.join(keys, same).add_columns(first).distinct().order_by(PART.c.kind, PART.c.serial, first)
        return [(row.kind, row.serial, row.node) for row in self._connection.execute(query)]

    def part_history(self, serial: str) -> list[Stay]:
        """Return every place in which parts with this serial were seen, oldest first."""
        query = select(PART).where(PART.c.serial == serial).order_by(PART.c.seq)
        return [Stay(**row._mapping) for row in self._connection.execute(query)]

    def series(self, node: str, check: str, subject: str) -> list[tuple[float, float]]:
        """Return (time, value) of all that a check measured on one part of a node, oldest first.

        Times are those of the import, in seconds since the epoch.
        """
        rows = self._connection.execute(
            select(SERIES.c.at, SERIES.c.numbers).where(SERIES.c.node == node).order_by(SERIES.c.seq)
        )
        key = f"{check}/{subject}"
        return [(row.at, row.numbers[key]) for row in rows if key in row.numbers]

    def records(self, stages: Iterable[str], nodes: Iterable[str]) -> dict[str, list[Record]]:
        """Return, by node, the evidence that decides each stage: the last imported.

        A record that can no longer be read stands as one that never finished; no older one takes its place. One query
        per stage however many nodes there are.
        """
        wanted = set(nodes)
        found: dict[str, list[Record]] = {name: [] for name in wanted}
        for stage in stages:
            for row in self._newest(stage, wanted):
                if row.node in wanted:
                    found[row.node].append(Record(_evidence_of(row), row.imported, row.seq))
        return found

    def _newest(self, stage: str, wanted: set[str]) -> Iterator[Any]:
        newest = select(func.max(EVIDENCE.c.seq)).where(EVIDENCE.c.stage == stage).group_by(EVIDENCE.c.node)
        if len(wanted) <= NAMES_PER_QUERY:
            newest = newest.where(EVIDENCE.c.node.in_(sorted(wanted)))
        yield from self._connection.execute(select(EVIDENCE).where(EVIDENCE.c.seq.in_(newest)).order_by(EVIDENCE.c.seq))

    def began_later(self, stage: str, started: Mapping[str, float], since: float) -> dict[str, Evidence]:
        """Return, by node, the evidence of a stage that began last, if that is later than ``started``.

        Of what was imported after ``since``; times are in seconds since the epoch.
        """
        columns = (EVIDENCE.c.seq, EVIDENCE.c.node, EVIDENCE.c.started, EVIDENCE.c.imported)
        query = select(*columns).where(EVIDENCE.c.imported > since, EVIDENCE.c.stage == stage)
        last: dict[str, tuple[float, int]] = {}
        for row in self._connection.execute(query):
            # One from the future is no later one.
            if row.node in started and started[row.node] < row.started <= row.imported + CLOCK_SKEW_SECONDS:
                last[row.node] = max(last.get(row.node, (row.started, row.seq)), (row.started, row.seq))
        found: dict[str, Evidence] = {}
        for names in portions(str(seq) for _, seq in last.values()):
            rows = self._connection.execute(select(EVIDENCE).where(EVIDENCE.c.seq.in_([int(seq) for seq in names])))
            found |= {row.node: _evidence_of(row) for row in rows}
        return found

    def admitted_under(self, stage: str, nodes: Iterable[str]) -> dict[str, AdmittedBy]:
        """Return, by node that is admitted, what the stage was judged by when the node was admitted."""
        wanted = set(nodes)
        then = (
            select(func.max(EVIDENCE.c.seq))
            .join(NODE, NODE.c.name == EVIDENCE.c.node)
            .where(EVIDENCE.c.stage == stage, NODE.c.state == "admitted", EVIDENCE.c.imported <= NODE.c.since)
            .group_by(EVIDENCE.c.node)
        )
        if len(wanted) <= NAMES_PER_QUERY:
            then = then.where(EVIDENCE.c.node.in_(sorted(wanted)))
        query = select(EVIDENCE.c.node, EVIDENCE.c.expect_digest, EVIDENCE.c.rules).where(EVIDENCE.c.seq.in_(then))
        return {
            row.node: AdmittedBy(row.expect_digest, row.rules if isinstance(row.rules, dict) else {})
            for row in self._connection.execute(query)
            if row.node in wanted
        }

    def unjudged_faults(self) -> list[Evidence]:
        """Return evidence of measured faults of admitted nodes that came after each was judged last, newest first.

        A run may have been killed between the two. Whatever came of the stage since has not been judged either.
        """
        since = (NODE.c.name == EVIDENCE.c.node) & (NODE.c.state == "admitted") & (EVIDENCE.c.seq > NODE.c.judged)
        query = select(EVIDENCE).join(NODE, since).order_by(EVIDENCE.c.seq.desc())
        return [each for each in map(_evidence_of, self._connection.execute(query)) if each.faulty]

    def doubts(self) -> list[Doubt]:
        """Return the doubts about nodes that no later evidence of the stage has answered, oldest first."""
        later = (
            select(EVIDENCE.c.seq)
            .where(
                EVIDENCE.c.node == DOUBT.c.node,
                EVIDENCE.c.stage == DOUBT.c.stage,
                EVIDENCE.c.seq > DOUBT.c.evidence,
                # Nobody has looked at the node for a record that was judged again.
                type_coerce(EVIDENCE.c.detail, JSON)["judged_again"].as_string().is_(None),
            )
            .exists()
        )
        columns = [DOUBT.c[name] for name in Doubt.__dataclass_fields__]
        return [Doubt(*row) for row in self._connection.execute(select(*columns).where(~later).order_by(DOUBT.c.seq))]

    def judged_by(self, stage: str) -> list[JudgedBy]:
        """Return by which rules each node's finished evidence of a stage that came last was judged."""
        newest = select(func.max(EVIDENCE.c.seq)).where(EVIDENCE.c.stage == stage).group_by(EVIDENCE.c.node)
        columns = [EVIDENCE.c[name] for name in ("id", "node", "detail", "rules", "expect_digest")]
        query = select(*columns).where(EVIDENCE.c.seq.in_(newest), EVIDENCE.c.finished.is_not(None))
        rows = self._connection.execute(query.order_by(EVIDENCE.c.seq))
        return [
            JudgedBy(row.node, original_of(row.id, row.detail), row.rules, row.expect_digest)
            for row in rows
            if isinstance(row.detail, dict) and isinstance(row.rules, dict)
        ]

    def measured(self, stage: str) -> list[Measured]:
        """Return what each node's finished evidence of a stage that came last measured, where it says so."""
        newest = select(func.max(EVIDENCE.c.seq)).where(EVIDENCE.c.stage == stage).group_by(EVIDENCE.c.node)
        columns = (EVIDENCE.c.node, EVIDENCE.c.expect_digest, EVIDENCE.c.detail)
        query = select(*columns).where(EVIDENCE.c.seq.in_(newest), EVIDENCE.c.finished.is_not(None))
        return [
            Measured(row.node, row.expect_digest, row.detail["measures"])
            for row in self._connection.execute(query.order_by(EVIDENCE.c.seq))
            if isinstance(row.detail, dict) and "measures" in row.detail
        ]

    def newest(self, node: str, stage: str) -> Evidence | None:
        """Return the node's evidence of a stage that came last, None where there is none."""
        query = select(EVIDENCE).where(EVIDENCE.c.stage == stage, EVIDENCE.c.node == node)
        row = self._connection.execute(query.order_by(EVIDENCE.c.seq.desc()).limit(1)).one_or_none()
        return None if row is None else _evidence_of(row)

    def unfinished(self, stage: str) -> list[tuple[str, float, Any]]:
        """Return node, start and detail of the newest evidence of a stage that has not ended.

        The start is by the node's clock, and no later than the ledger heard of it.
        """
        newest = select(func.max(EVIDENCE.c.seq)).where(EVIDENCE.c.stage == stage).group_by(EVIDENCE.c.node)
        columns = (EVIDENCE.c.node, EVIDENCE.c.started, EVIDENCE.c.imported, EVIDENCE.c.detail)
        query = select(*columns).where(EVIDENCE.c.seq.in_(newest), EVIDENCE.c.finished.is_(None))
        rows = self._connection.execute(query)
        return [(row.node, min(row.started, row.imported), row.detail) for row in rows]

    def newest_since(self, stage: str, since: float) -> list[Evidence]:
        """Return each node's newest evidence of a stage, if it was imported after ``since``."""
        newest = select(func.max(EVIDENCE.c.seq)).where(EVIDENCE.c.stage == stage).group_by(EVIDENCE.c.node)
        query = select(EVIDENCE).where(EVIDENCE.c.seq.in_(newest), EVIDENCE.c.imported > since)
        return [_evidence_of(row) for row in self._connection.execute(query.order_by(EVIDENCE.c.seq))]

    def burn_in_shares(self, now: float) -> set[str]:
        """Return the nodes that hold a share of the power budget: their burn-in was planned and has not ended since."""
        share = BURN_IN_SHARE
        ended = (
            select(EVIDENCE.c.seq)
            .where(
                EVIDENCE.c.node == share.c.node,
                EVIDENCE.c.stage == "burn_in",
                EVIDENCE.c.finished.is_not(None),
                EVIDENCE.c.imported >= share.c.since,
                # By the node's clock; what began before is an earlier run, imported or judged again later.
                EVIDENCE.c.started >= share.c.since - CLOCK_SKEW_SECONDS,
            )
            .exists()
        )
        return set(self._connection.execute(select(share.c.node).where(share.c.until > now, ~ended)).scalars())

    def draws(self) -> list[Draw]:
        """Return all that were drawn to have their evidence judged here too, oldest first."""
        return [Draw(*row) for row in self._connection.execute(select(*DRAW_COLUMNS).order_by(DRAW.c.seq))]

    def unsettled(self, stage: str) -> set[str]:
        """Return the nodes whose evidence of a stage was not found to agree when they were drawn last."""
        return {each.node for each in self._last_draws() if each.stage == stage and each.outcome != AGREES}

    def drawn_and_not_judged(self) -> frozenset[str]:
        """Return the ids of the evidence that was drawn last of each node and stage, and not judged since."""
        return frozenset(each.evidence for each in self._last_draws() if each.outcome is None)

    def _last_draws(self) -> list[Draw]:
        """Return the last draw of each node and stage."""
        last = select(func.max(DRAW.c.seq)).group_by(DRAW.c.stage, DRAW.c.node)
        return [Draw(*row) for row in self._connection.execute(select(*DRAW_COLUMNS).where(DRAW.c.seq.in_(last)))]

    def policy(self, digest: str) -> dict[str, Any] | None:
        """Return the policy with this digest as it was when nodes were judged by it, None for an unknown one."""
        row = self._connection.execute(select(POLICY.c.content).where(POLICY.c.digest == digest)).one_or_none()
        return None if row is None else row.content

    def known(self, stage: str, node: str) -> list[str]:
        """Return the ids of a node's finished evidence of one stage, oldest first."""
        return self.known_by_node(stage, [node])[node]

    def known_by_node(self, stage: str, nodes: Collection[str]) -> dict[str, list[str]]:
        """Return the same of many nodes, with one query."""
        query = select(EVIDENCE.c.node, EVIDENCE.c.id).where(
            EVIDENCE.c.stage == stage, EVIDENCE.c.finished.is_not(None)
        )
        if len(nodes) <= NAMES_PER_QUERY:
            query = query.where(EVIDENCE.c.node.in_(sorted(nodes)))
        found: dict[str, list[str]] = {name: [] for name in nodes}
        for row in self._connection.execute(query.order_by(EVIDENCE.c.seq)):
            if row.node in found:
                found[row.node].append(row.id)
        return found

    def rounds(self, campaign: str | None = None) -> list[StoredRound]:
        """Return the rounds of one campaign, or of all, in the order in which they were started."""
        return list(self.each_round(campaign))

    def each_round(self, campaign: str | None = None) -> Iterator[StoredRound]:
        """Yield the same, read one by one: what thousands of nodes observed in one of them is large enough."""
        query = select(ROUND.c.seq).order_by(ROUND.c.seq)
        if campaign is not None:
            query = query.where(ROUND.c.campaign == campaign)
        columns = [ROUND.c[name] for name in StoredRound.__dataclass_fields__]
        for seq in list(self._connection.execute(query).scalars()):
            row = self._connection.execute(select(*columns).where(ROUND.c.seq == seq)).one()
            yield _round_of(row._asdict())

    def plans(self) -> list[StoredRound]:
        """Return the rounds of all campaigns, oldest first, without what they observed, which is large."""
        names = [name for name in StoredRound.__dataclass_fields__ if name != "observations"]
        query = select(*(ROUND.c[name] for name in names)).order_by(ROUND.c.seq)
        return [_round_of({**row._asdict(), "observations": None}) for row in self._connection.execute(query)]


def portions(names: Iterable[str]) -> Iterator[list[str]]:
    """Yield the names in portions that one statement takes."""
    ordered = sorted(set(names))
    for start in range(0, len(ordered), NAMES_PER_QUERY):
        yield ordered[start : start + NAMES_PER_QUERY]


def _round_of(row: Mapping[str, Any]) -> StoredRound:
    """Return a round; raises UnreadableColumnError where its columns hold other data than a plan and observations."""
    for column, kind, wanted in (("plan", dict, "a mapping"), ("observations", list, "a list")):
        if not isinstance(row[column], kind) and (column == "plan" or row[column] is not None):
            found = type(row[column]).__name__
            where = f"round {row['number']} of campaign {row['campaign']}"
            raise UnreadableColumnError(f"{where}: round.{column} is {found}, expected {wanted}")
    return StoredRound(**row)


def _evidence_of(row: Any) -> Evidence:
    from_columns = {key: value for key, value in row._mapping.items() if key not in ("seq", "imported", "digest")}
    try:
        return Evidence.from_dict({"format": FORMAT, **from_columns})
    except EvidenceError:
        return Evidence(row.id, row.node, row.stage, row.started, None, row.boot_id, {}, row.expect_digest)

"""Changes to a ledger; all of one transaction's or none."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.judging import fingerprint
from ansible_collections.muster.cluster.plugins.module_utils.judging.identity import misnamed
from ansible_collections.muster.cluster.plugins.module_utils.judging.placeholders import real
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, digest_of
from ansible_collections.muster.cluster.plugins.module_utils.words.printable import printable
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.database import LedgerError
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.judged_again import refusal
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger_reader import (
    NAMES_PER_QUERY,
    Reader,
    portions,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import (
    DECISIONS,
    Doubt,
    Draw,
    Refused,
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
)
from sqlalchemy import bindparam, delete, insert, select, update

# A record of a day's burn-in of a node with eight GPUs has about 300 kB.
MOST_BYTES = 4 * 2**20
# What judging it again may add: a record must not escape that by its size.
MORE_BYTES = 2**16


class Writer(Reader):
    """Changes to the ledger; all of one transaction's or none."""

    def declare(self, classes: Mapping[str, str | None], now: float) -> None:
        """Enter nodes the ledger does not know as ``new`` and follow the fleet file's hardware classes.

        An admitted node keeps the class it was admitted as until it is moved.
        """
        known = self.nodes()
        fresh = [name for name in sorted(classes) if name not in known]
        if fresh:
            row = {"state": "new", "stage": "", "reason": "", "since": now}
            self._connection.execute(
                insert(NODE), [{"name": name, "hardware_class": classes[name], **row} for name in fresh]
            )
        moved = [
            name
            for name in classes
            if name in known and known[name].state != "admitted" and known[name].hardware_class != classes[name]
        ]
        if moved:
            self._connection.execute(
                update(NODE).where(NODE.c.name == bindparam("b_name")).values(hardware_class=bindparam("b_class")),
                [{"b_name": name, "b_class": classes[name]} for name in moved],
            )

    def add_evidence(self, evidence: Sequence[Evidence], now: float) -> list[Refused]:
        """Append evidence in the order given and return what was refused.

        The same record again changes nothing. A record that had not finished makes way for its continuation, which is
        the newest then; a finished one with the same id and another content is refused, and what the ledger has stays.
        One that was judged again is refused unless it stands for the newest of its stage, and is no better.
        """
        stored = self._stored({item.id for item in evidence})
        refused: list[Refused] = []
        rows: dict[str, dict[str, Any]] = {}
        given: dict[tuple[str, str], Evidence] = {}
        continued: list[str] = []
        for item in evidence:
            try:
                row = _row_of(item, now)
            except (ValueError, OverflowError, TypeError, RecursionError) as exc:
                refused.append(Refused(item.node, item.id, f"evidence {item.id!r}: cannot be stored: {exc}"))
                continue
            old = rows.get(item.id) or stored.get(item.id)
            if old is None:
                place = (item.node, item.stage)
                if item.judged_again and (why := refusal(item, given.get(place) or self.newest(*place))):
                    refused.append(Refused(item.node, item.id, f"evidence {item.id}: {why}"))
                    continue
                rows[item.id] = row
                given[place] = item
            elif old["digest"] == row["digest"]:
                continue
            elif old["finished"] is None and all(old[key] == row[key] for key in ("node", "stage", "started")):
                if item.id not in rows:
                    continued.append(item.id)
                rows.pop(item.id, None)
                rows[item.id] = row
                given[item.node, item.stage] = item
            else:
                refused.append(Refused(item.node, item.id, f"evidence {item.id}: another record has this id already"))
        for start in range(0, len(continued), NAMES_PER_QUERY):
            part = continued[start : start + NAMES_PER_QUERY]
            self._connection.execute(delete(EVIDENCE).where(EVIDENCE.c.id.in_(part)))
        if rows:
            self._connection.execute(insert(EVIDENCE), list(rows.values()))
        self._keep_numbers(evidence, rows.keys(), now)
        self._see_parts(evidence, {item.id for item in refused}, now)
        return refused

    def _stored(self, ids: set[str]) -> dict[str, dict[str, Any]]:
        columns = [EVIDENCE.c[key] for key in ("id", "digest", "finished", "node", "stage", "started")]
        found: dict[str, dict[str, Any]] = {}
        names = sorted(ids)
        for start in range(0, len(names), NAMES_PER_QUERY):
            query = select(*columns).where(EVIDENCE.c.id.in_(names[start : start + NAMES_PER_QUERY]))
            found |= {row.id: dict(row._mapping) for row in self._connection.execute(query)}
        return found

    def _see_parts(self, evidence: Sequence[Evidence], refused: set[str], now: float) -> None:
        """Count on the stay of each part that is where it was seen last, and begin a new one for each other.

        Parts of a machine on which Slurm runs another node than the one that was asked for are not that one's.
        """
        own = [
            item
            for item in evidence
            if item.id not in refused
            and item.stage == "preflight"
            and not ((named := misnamed(item.identity, item.node)) and named.certain)
        ]
        seen = {(kind, serial, item.node, slot) for item in own for kind, slot, serial in parts_of(item)}
        stays = self.stays(serial for _, serial, _, _ in seen)
        last = {(stay.kind, stay.serial, stay.node, stay.slot): stay.seq for stay in stays.values()}
        same = sorted(seq for place, seq in last.items() if place in seen)
        fresh = [
            {"kind": kind, "serial": serial, "node": node, "slot": slot, "first_seen": now, "last_seen": now}
            for kind, serial, node, slot in sorted(seen - last.keys())
        ]
        # A fleet has hundreds of thousands of them: a statement for each would take most of the time of an admission.
        for start in range(0, len(same), NAMES_PER_QUERY):
            part = same[start : start + NAMES_PER_QUERY]
            self._connection.execute(update(PART).where(PART.c.seq.in_(part)).values(last_seen=now))
        if fresh:
            self._connection.execute(insert(PART), fresh)
        examined = {item.node for item in own}
        if examined:
            statement = update(NODE).where(NODE.c.name == bindparam("b_name")).values(examined=now)
            self._connection.execute(statement, [{"b_name": name} for name in sorted(examined)])

    def _keep_numbers(self, evidence: Sequence[Evidence], new: Collection[str], now: float) -> None:
        rows = [
            {"node": item.node, "stage": item.stage, "at": now, "numbers": numbers}
            for item in evidence
            if item.id in new and not item.judged_again and (numbers := numbers_of(item))
        ]
        if rows:
            self._connection.execute(insert(SERIES), rows)

    def decide(self, node: str, decision: str, reason: str, who: str, now: float) -> Transition | None:
        """Record an operator's decision (``none`` releases) and return the transition it makes, if any.

        Raises LedgerError for a decision outside the vocabulary and for a node the ledger does not know.
        """
        if decision not in (*DECISIONS, "none"):
            raise LedgerError(f"decision {decision!r}, expected one of {', '.join((*DECISIONS, 'none'))}")
        row = self.nodes().get(node)
        if row is None:
            raise LedgerError(f"node {node} is not in the ledger")
        standing = self.decisions().get(node, "none")
        if standing == decision:
            return None
        values = {"node": node, "decision": decision, "who": who, "at": now, "reason": reason}
        self._connection.execute(insert(DECISION), values)
        # What the evidence says of a released node is for the next run to find out.
        state = "testing" if decision == "none" else decision
        cause = f"{who}: {decision if decision != 'none' else 'released'}: {reason}"
        approval = f"decision of {who}"
        self.move({node: (state, "", cause)}, who, now, compared=False, approval=approval)
        return Transition(node, row.state, state, cause, who, "", approval)

    def move(  # noqa: PLR0913 -- what a change of state has to say for itself
        self,
        verdicts: Mapping[str, tuple[str, str, str]],
        who: str,
        now: float,
        *,
        compared: bool,
        policies: Mapping[str, str] = MappingProxyType({}),
        approval: str = "",
    ) -> list[Transition]:
        """Record states as (state, stage, reason) by node and return the transitions.

        ``policies`` holds by node the digest of the policy by which it was judged; one that was not, and stays in its
        state, keeps its own. ``approval`` is the switch that allowed the changes. ``compared`` says that the gate's
        generation was seen to be no newer than this ledger's; changes made without are counted by the next call that
        has it.
        """
        known = self.nodes()
        moves: list[Transition] = []
        changed: list[dict[str, Any]] = []
        for name, (state, stage, told) in sorted(verdicts.items()):
            old, reason = known[name], _storable(told)
            if state != old.state:
                moves.append(Transition(name, old.state, state, reason, who, policies.get(name, ""), approval))
            by = policies.get(name, old.policy if state == old.state else "")
            if (state, stage, reason, by) != (old.state, old.stage, old.reason, old.policy):
                since = now if state != old.state else old.since
                row = {"state": state, "stage": stage, "reason": reason, "since": since, "policy": by}
                changed.append({"b_name": name, **row})
        if changed:
            columns = ("state", "stage", "reason", "since", "policy")
            statement = update(NODE).where(NODE.c.name == bindparam("b_name"))
            self._connection.execute(statement.values({key: bindparam(key) for key in columns}), changed)
        if moves:
            self._connection.execute(insert(TRANSITION), [{**vars(move), "at": now} for move in moves])
        owed = bool(self._connection.execute(select(META.c.owed)).scalar_one())
        if compared and (moves or owed):
            self._connection.execute(update(META).values(generation=META.c.generation + 1, owed=0))
        elif moves:
            self._connection.execute(update(META).values(owed=1))
        return moves

    def judged(self, nodes: Collection[str], evidence: int) -> None:
        """Note that all evidence of these nodes up to this row has been judged."""
        rows = [{"b_name": name, "judged": evidence} for name in nodes]
        if rows:
            statement = update(NODE).where(NODE.c.name == bindparam("b_name"))
            self._connection.execute(statement.values(judged=bindparam("judged")), rows)

    def keep_policy(self, content: Mapping[str, Any], now: float) -> str:
        """Keep a policy whole, unless it is known, and return its digest."""
        digest = digest_of(content)
        if self.policy(digest) is None:
            self._connection.execute(insert(POLICY), {"digest": digest, "content": dict(content), "first_used": now})
        return digest

    def add_doubts(self, doubts: Sequence[Doubt], now: float) -> None:
        """Record doubts; one that stands already, word for word, is not recorded twice."""
        standing = self.doubts()
        fresh = [{**vars(each), "at": now, "evidence": self._last(EVIDENCE)} for each in doubts if each not in standing]
        if fresh:
            self._connection.execute(insert(DOUBT), fresh)

    def add_draws(self, draws: Sequence[Draw]) -> None:
        """Record who was drawn, before it is known what comes of it."""
        if draws:
            self._connection.execute(insert(DRAW), [vars(each) for each in draws])

    def end_draws(self, seed: str, outcomes: Mapping[str, str]) -> None:
        """Record by node what came of one drawing of lots."""
        statement = update(DRAW).where(DRAW.c.seed == seed, DRAW.c.node == bindparam("b_node"))
        rows = [{"b_node": node, "outcome": _storable(outcome)} for node, outcome in outcomes.items()]
        if rows:
            self._connection.execute(statement.values(outcome=bindparam("outcome")), rows)

    def advance(self) -> int:
        """Count the generation on without a change of state and return it: what the gate is told next is newer."""
        self._connection.execute(update(META).values(generation=META.c.generation + 1))
        return self.generation()

    def share_burn_in(self, shares: Mapping[str, tuple[float, float]]) -> None:
        """Give nodes a share of the power budget, each (since, until); one that has a share has a new one."""
        self.end_burn_in_shares(shares)
        rows = [{"node": node, "since": since, "until": until} for node, (since, until) in shares.items()]
        if rows:
            self._connection.execute(insert(BURN_IN_SHARE), rows)

    def end_burn_in_shares(self, nodes: Iterable[str]) -> None:
        """Take the nodes' shares of the power budget back."""
        for names in portions(nodes):
            self._connection.execute(delete(BURN_IN_SHARE).where(BURN_IN_SHARE.c.node.in_(names)))

    def keep_drains(self, drains: Mapping[str, str], now: float) -> bool:
        """Make the ledger's manual drains those given and return whether that changed anything."""
        known = self.drains()
        if known == dict(drains):
            return False
        gone = sorted(name for name in known if known[name] != drains.get(name))
        for start in range(0, len(gone), NAMES_PER_QUERY):
            self._connection.execute(delete(DRAIN).where(DRAIN.c.node.in_(gone[start : start + NAMES_PER_QUERY])))
        rows = [
            {"node": name, "reason": reason, "seen": now}
            for name, reason in sorted(drains.items())
            if known.get(name) != reason
        ]
        if rows:
            self._connection.execute(insert(DRAIN), rows)
        return True

    def save_round(self, stored: StoredRound) -> None:
        """Record a round when it starts, and again with its observations when it ends.

        Raises LedgerError when it has ended already, or has another plan.
        """
        where = (ROUND.c.campaign == stored.campaign) & (ROUND.c.number == stored.number)
        old = self._connection.execute(select(ROUND).where(where)).one_or_none()
        if old is None:
            self._connection.execute(insert(ROUND), vars(stored))
            return
        if old.finished is not None or old.plan != stored.plan:
            what = "has ended" if old.finished is not None else "has another plan"
            raise LedgerError(f"round {stored.number} of campaign {stored.campaign} {what} already")
        self._connection.execute(
            update(ROUND).where(where).values(observations=stored.observations, finished=stored.finished)
        )


def parts_of(evidence: Evidence) -> list[tuple[str, str, str]]:
    """Return (kind, slot, serial) of the board, its BMC and each part with a serial number of its own."""
    own = [("board_uuid", "board"), ("board_serial", "board"), ("bmc_mac", "bmc")]
    known = [(kind, slot, bare) for kind, slot in own if (bare := real(evidence.identity.get(kind)))]
    return [*known, *fingerprint.parts_of(evidence.fingerprint)]


def numbers_of(evidence: Evidence) -> dict[str, float]:
    """Return what a finished record measured as a number, by check and subject."""
    if evidence.finished is None:
        return {}
    return {
        f"{finding.check}/{finding.subject}": finding.measured
        for finding in evidence.findings
        if isinstance(finding.measured, int | float)
    }


def _row_of(evidence: Evidence, now: float) -> dict[str, Any]:
    """Return a row of the evidence table; raises ValueError or OverflowError for what no database takes."""
    data = evidence.to_dict()
    digest = digest_of({key: value for key, value in data.items() if key != "format"})
    # A host may have written NaN, half a surrogate pair, or a time beyond any clock.
    size = len(json.dumps(data, allow_nan=False, ensure_ascii=False).encode())
    most = MOST_BYTES + (MORE_BYTES if evidence.judged_again else 0)
    if size > most:
        raise ValueError(f"{size} bytes, expected at most {most}")
    if any("\0" in data[key] for key in ("id", "node", "boot_id", "expect_digest", "muster_version")):
        raise ValueError("text with a NUL character")
    times = {key: None if data[key] is None else float(data[key]) for key in ("started", "finished")}
    row = {**data, **times, "imported": now, "digest": digest}
    del row["format"]
    return row


def _storable(text: str) -> str:
    # What stopped a node may quote whatever its tools printed, and is shown on terminals.
    return printable(text)

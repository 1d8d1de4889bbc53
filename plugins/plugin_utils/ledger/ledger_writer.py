"""Changes to a ledger; all of one transaction's or none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence, digest_of
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.database import LedgerError
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.ledger_reader import NAMES_PER_QUERY, Reader
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.records import (
    DECISIONS,
    Refused,
    StoredRound,
    Transition,
)
from ansible_collections.muster.cluster.plugins.plugin_utils.ledger.tables import (
    DECISION,
    DRAIN,
    EVIDENCE,
    META,
    NODE,
    PART,
    ROUND,
    TRANSITION,
)
from sqlalchemy import bindparam, delete, insert, select, update


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
        """
        stored = self._stored({item.id for item in evidence})
        refused: list[Refused] = []
        rows: dict[str, dict[str, Any]] = {}
        continued: list[str] = []
        for item in evidence:
            try:
                row = _row_of(item, now)
            except (ValueError, OverflowError, TypeError, RecursionError) as exc:
                refused.append(Refused(item.node, item.id, f"evidence {item.id!r}: cannot be stored: {exc}"))
                continue
            old = rows.get(item.id) or stored.get(item.id)
            if old is None:
                rows[item.id] = row
            elif old["digest"] == row["digest"]:
                continue
            elif old["finished"] is None and all(old[key] == row[key] for key in ("node", "stage", "started")):
                if item.id not in rows:
                    continued.append(item.id)
                rows.pop(item.id, None)
                rows[item.id] = row
            else:
                refused.append(Refused(item.node, item.id, f"evidence {item.id}: another record has this id already"))
        for start in range(0, len(continued), NAMES_PER_QUERY):
            part = continued[start : start + NAMES_PER_QUERY]
            self._connection.execute(delete(EVIDENCE).where(EVIDENCE.c.id.in_(part)))
        if rows:
            self._connection.execute(insert(EVIDENCE), list(rows.values()))
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
        seen: dict[tuple[str, str], dict[str, Any]] = {}
        for item in evidence:
            if item.id not in refused and item.stage == "preflight":
                for kind, slot, serial in parts_of(item):
                    seen[kind, serial] = {"kind": kind, "serial": serial, "node": item.node, "slot": slot}
        if not seen:
            return
        known = self._known_parts({serial for _, serial in seen})
        fresh = [{**row, "first_seen": now, "last_seen": now} for key, row in seen.items() if key not in known]
        if fresh:
            self._connection.execute(insert(PART), fresh)
        again = [
            {
                "b_kind": row["kind"],
                "b_serial": row["serial"],
                "node": row["node"],
                "slot": row["slot"],
                "last_seen": now,
            }
            for key, row in seen.items()
            if key in known
        ]
        if again:
            self._connection.execute(
                update(PART)
                .where(PART.c.kind == bindparam("b_kind"), PART.c.serial == bindparam("b_serial"))
                .values(node=bindparam("node"), slot=bindparam("slot"), last_seen=bindparam("last_seen")),
                again,
            )

    def _known_parts(self, serials: set[str]) -> set[tuple[str, str]]:
        """Return (kind, serial) of the parts with these serials that are known already."""
        found: set[tuple[str, str]] = set()
        names = sorted(serials)
        for start in range(0, len(names), NAMES_PER_QUERY):
            query = select(PART.c.kind, PART.c.serial).where(PART.c.serial.in_(names[start : start + NAMES_PER_QUERY]))
            found |= {(row.kind, row.serial) for row in self._connection.execute(query)}
        return found

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
        self.move({node: (state, "", cause)}, who, now, compared=False)
        return Transition(node, row.state, state, cause)

    def move(
        self, verdicts: Mapping[str, tuple[str, str, str]], who: str, now: float, compared: bool
    ) -> list[Transition]:
        """Record states as (state, stage, reason) by node and return the transitions.

        ``compared`` says that the gate's generation was seen to be no newer than this ledger's; changes made without
        are counted by the next call that has it.
        """
        known = self.nodes()
        moves: list[Transition] = []
        changed: list[dict[str, Any]] = []
        for name, (state, stage, told) in sorted(verdicts.items()):
            old, reason = known[name], _storable(told)
            if state != old.state:
                moves.append(Transition(name, old.state, state, reason))
            if (state, stage, reason) != (old.state, old.stage, old.reason):
                since = now if state != old.state else old.since
                changed.append({"b_name": name, "state": state, "stage": stage, "reason": reason, "since": since})
        if changed:
            columns = ("state", "stage", "reason", "since")
            statement = update(NODE).where(NODE.c.name == bindparam("b_name"))
            self._connection.execute(statement.values({key: bindparam(key) for key in columns}), changed)
        if moves:
            rows = [{**vars(move), "at": now, "who": who} for move in moves]
            self._connection.execute(insert(TRANSITION), rows)
        owed = bool(self._connection.execute(select(META.c.owed)).scalar_one())
        if compared and (moves or owed):
            self._connection.execute(update(META).values(generation=META.c.generation + 1, owed=0))
        elif moves:
            self._connection.execute(update(META).values(owed=1))
        return moves

    def advance(self) -> int:
        """Count the generation on without a change of state and return it: what the gate is told next is newer."""
        self._connection.execute(update(META).values(generation=META.c.generation + 1))
        return self.generation()

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
    """Return (kind, slot, serial) of each part in the fingerprint (``0000:1b:00.0=1650222000123,...`` for GPUs)."""
    serials = evidence.fingerprint.get("gpu_serials")
    pairs = [pair.partition("=") for pair in serials.split(",")] if isinstance(serials, str) else []
    return [("gpu", address, serial) for address, _, serial in pairs if address and serial]


def _row_of(evidence: Evidence, now: float) -> dict[str, Any]:
    """Return a row of the evidence table; raises ValueError or OverflowError for what no database takes."""
    data = evidence.to_dict()
    digest = digest_of({key: value for key, value in data.items() if key != "format"})
    # A host may have written NaN, half a surrogate pair, or a time beyond any clock.
    json.dumps(data, allow_nan=False, ensure_ascii=False).encode()
    if any("\0" in data[key] for key in ("id", "node", "boot_id", "expect_digest", "muster_version")):
        raise ValueError("text with a NUL character")
    times = {key: None if data[key] is None else float(data[key]) for key in ("started", "finished")}
    row = {**data, **times, "imported": now, "digest": digest}
    del row["format"]
    return row


def _storable(text: str) -> str:
    # What stopped a node may quote whatever its tools printed.
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")

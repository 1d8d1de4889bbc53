"""An answer of a node, or of one of its ranks, in lines that Slurm does not tear.

srun passes the output of several tasks on in messages of 1,024 bytes: lines longer than that mix with those of others.
An answer of some kilobytes therefore goes packed, in numbered parts.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

PREFIX = "muster-collective"
PART_CHARACTERS = 700


def pack(answer: Mapping[str, Any]) -> str:
    """Return the lines of one answer, each with a digest; ``answer`` names its ``node``, and its ``rank`` if any."""
    text = base64.b64encode(zlib.compress(json.dumps(answer, sort_keys=True).encode())).decode("ascii")
    parts = [text[at : at + PART_CHARACTERS] for at in range(0, len(text), PART_CHARACTERS)]
    who = {key: answer[key] for key in ("node", "rank") if key in answer}
    count = len(parts)
    return "".join(
        encode({**who, "part": number, "parts": count, "text": part}) + "\n" for number, part in enumerate(parts)
    )


def unpack(output: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the answers in ``output`` that are whole, and what is wrong with all else that bears the prefix."""
    faults: list[str] = []
    return list(answers_in(output, faults)), faults


def answers_in(output: str, faults: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the answers in ``output`` that are whole, one at a time; what is wrong with all else goes to ``faults``.

    Those of tens of thousands of ranks are never in memory together.
    """
    records, found_faults = decode(output)
    faults += found_faults
    parts: dict[tuple[str, int | None], dict[int, str]] = {}
    counts: dict[tuple[str, int | None], int] = {}
    for record in records:
        node, rank, number, count, text = (record.get(key) for key in ("node", "rank", "part", "parts", "text"))
        if not (isinstance(node, str) and isinstance(rank, (int, type(None))) and isinstance(number, int)) or not (
            isinstance(text, str)
        ):
            faults.append(f"a line that is no part of an answer: {str(record)[:80]}")
            continue
        who = (node, rank)
        if not isinstance(count, int) or counts.setdefault(who, count) != count or number in parts.get(who, {}):
            faults.append(f"part {number} of {_named(who)}'s answer came twice, or of another answer")
        else:
            parts.setdefault(who, {})[number] = text
    for who, found in parts.items():
        if sorted(found) != list(range(counts[who])):
            faults.append(f"{len(found)} of {counts[who]} parts of {_named(who)}'s answer")
            continue
        try:
            whole = base64.b64decode("".join(found[number] for number in sorted(found)), validate=True)
            answer = json.loads(zlib.decompress(whole))
        except (binascii.Error, zlib.error, ValueError) as exc:
            faults.append(f"{_named(who)}'s answer cannot be unpacked: {exc}")
            continue
        if isinstance(answer, dict) and (answer.get("node"), answer.get("rank")) == who:
            yield answer
        else:
            faults.append(f"{_named(who)}'s answer is that of another node")


def _named(who: tuple[str, int | None]) -> str:
    node, rank = who
    return node if rank is None else f"{node} rank {rank}"


def encode(record: Mapping[str, Any]) -> str:
    """Return one line for ``record``: prefix, digest of the JSON text, JSON text.

    The digest tells a line that was cut or mixed with another's from a whole one.
    """
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return f"{PREFIX} {_digest(text)} {text}"


def decode(output: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the records in ``output`` and, for each line that bears the prefix but cannot be read, what is wrong.

    Lines without the prefix (warnings of libraries) are passed over.
    """
    records: list[dict[str, Any]] = []
    faults: list[str] = []
    for number, line in enumerate(output.splitlines(), 1):
        if PREFIX not in line:
            continue
        parts = line.strip().split(" ", 2)
        if len(parts) != 3 or parts[0] != PREFIX or parts[1] != _digest(parts[2]):
            faults.append(f"line {number} of the output is cut or mixed with another: {line.strip()[:80]!r}")
            continue
        try:
            record = json.loads(parts[2])
        except ValueError as exc:
            faults.append(f"line {number} of the output is not JSON: {exc}")
            continue
        if isinstance(record, dict):
            records.append(record)
        else:
            faults.append(f"line {number} of the output is {type(record).__name__}, expected a mapping")
    return records, faults


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

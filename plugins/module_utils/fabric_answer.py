"""A node's answer in lines that Slurm does not tear.

srun passes the output of several tasks on in messages of 1,024 bytes: lines longer than that mix with those of others.
An answer of some kilobytes therefore goes packed, in numbered parts.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from typing import Any

from .collective import decode, encode

PART_CHARACTERS = 700


def pack(answer: Mapping[str, Any]) -> str:
    """Return the lines of one node's answer, each with a digest; ``answer`` names its ``node``."""
    text = base64.b64encode(zlib.compress(json.dumps(answer, sort_keys=True).encode())).decode("ascii")
    parts = [text[at : at + PART_CHARACTERS] for at in range(0, len(text), PART_CHARACTERS)]
    node, count = answer.get("node"), len(parts)
    return "".join(
        encode({"node": node, "part": number, "parts": count, "text": part}) + "\n" for number, part in enumerate(parts)
    )


def unpack(output: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the answers in ``output`` that are whole, and what is wrong with all else that bears the prefix."""
    records, faults = decode(output)
    parts: dict[str, dict[int, str]] = {}
    counts: dict[str, int] = {}
    for record in records:
        node, number, count, text = (record.get(key) for key in ("node", "part", "parts", "text"))
        if not isinstance(node, str) or not isinstance(number, int) or not isinstance(text, str):
            faults.append(f"a line that is no part of an answer: {str(record)[:80]}")
        elif not isinstance(count, int) or counts.setdefault(node, count) != count or number in parts.get(node, {}):
            faults.append(f"part {number} of {node}'s answer came twice, or of another answer")
        else:
            parts.setdefault(node, {})[number] = text
    answers: list[dict[str, Any]] = []
    for node, found in parts.items():
        if sorted(found) != list(range(counts[node])):
            faults.append(f"{len(found)} of {counts[node]} parts of {node}'s answer")
            continue
        try:
            whole = base64.b64decode("".join(found[number] for number in sorted(found)), validate=True)
            answer = json.loads(zlib.decompress(whole))
        except (binascii.Error, zlib.error, ValueError) as exc:
            faults.append(f"{node}'s answer cannot be unpacked: {exc}")
            continue
        if isinstance(answer, dict) and answer.get("node") == node:
            answers.append(answer)
        else:
            faults.append(f"{node}'s answer is that of another node")
    return answers, faults

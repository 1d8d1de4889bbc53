"""The table of ``dcgmi diag`` without ``-j`` (NVIDIA/DCGM, dcgmi/Diag.cpp of several releases, and recorded outputs).

- DCGM 2 and 3: ``Pass - All``, or one line for each status with its list of GPUs; only the first bears the test's name.
- DCGM 4: the test's own status, then ``GPU0: Pass`` lines.

Longer texts are cut into pieces of 45 characters, each on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..host.host import Unreadable
from .dcgm import PASS, UNKNOWN, Report, Result, Trouble, gpus_named, one_line, status_of, test_of

_SECTION = re.compile(r"[|+]-+  (\w+)  -+\+-+[|+]?")
_BORDER = re.compile(r"\+-+\+-+\+")
_BY_GPU = re.compile(r"(Pass|Fail|Skip|Warn|Not Run)(?: - (?:(All)|GPUs?: ([\d, ]+)))?")
_ENTITY = re.compile(r"(GPU|[A-Za-z_ ]+?)(\d+): (Pass|Fail|Skip|Warn|Not Run)")
_MESSAGE = re.compile(r"(Warning|Error|Info)(?:: ?[A-Za-z_ ]+(\d+))?")


@dataclass
class _Row:
    """A test of the table while its lines are read: its lines of status, and the texts of its warnings and errors."""

    name: str
    category: str
    statuses: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


def table_report(text: str, gpus: Sequence[int] | None) -> Report:
    """Return the results of the table.

    ``gpus`` are the GPUs that dcgmi knows; "All" means them if the table counts as many. Raises Unreadable.
    """
    rows, metadata = _rows(text)
    if not rows:
        said = text.strip().splitlines()
        raise Unreadable(f"no result of a test; begins with {one_line(said[0]) if said else 'nothing'!r}")
    counted = [part for part in metadata.get("GPU Device IDs Detected", "").split(",") if part.strip()]
    # A GPU that was not tested must not profit from "All".
    every = gpus if gpus and len(counted) == len(gpus) else None
    results = tuple(result for row in rows for result in _row_results(row, every))
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    complete = any(line.startswith("+====") for line in lines) and bool(_BORDER.fullmatch(lines[-1]))
    return Report(results, complete, metadata.get("DCGM Version"))


def _rows(text: str) -> tuple[list[_Row], dict[str, str]]:
    """Return the tests of the table in order, and what its head says of versions and devices."""
    rows: list[_Row] = []
    metadata: dict[str, str] = {}
    category, row, in_trouble = "", None, False
    for line in text.splitlines():
        section = _SECTION.fullmatch(line.rstrip())
        if section:
            category, row, in_trouble = section.group(1), None, False
        if section or not line.startswith("|"):
            continue
        name, value = _cells(line)
        message = _MESSAGE.fullmatch(name)
        if name.endswith((" Version", " Detected")):
            metadata[name] = value.strip()
        elif message:
            in_trouble = message.group(1) != "Info"
            if in_trouble and row is None:
                # The errors of Deployment stand alone in some releases.
                row = _Row(category or message.group(1), category, ["Fail"])
                rows.append(row)
            if in_trouble and row is not None:
                # DCGM 4 names the GPU beside the text instead of in it.
                row.troubles.append(f"GPU {message.group(2)}: {value}" if message.group(2) else value)
        elif name and value.strip() != "Result":
            row, in_trouble = _Row(name, category, [value.strip()]), False
            rows.append(row)
        elif row is not None and (_BY_GPU.fullmatch(value.strip()) or _ENTITY.fullmatch(value.strip())):
            row.statuses.append(value.strip())
        elif row is not None and in_trouble:
            row.troubles[-1] += value
    return rows, metadata


def _cells(line: str) -> tuple[str, str]:
    """Return name and value of a line; a text is cut into pieces of 45 characters, whose blanks are part of it."""
    name, _, value = line[1:].rstrip().rstrip("|").partition("|")
    return name.strip(), value[1:46]


def _row_results(row: _Row, every: Sequence[int] | None) -> Iterator[Result]:
    test = test_of(row.name, row.category)
    troubles = tuple(Trouble(one_line(text)) for text in row.troubles)
    entities = [match for match in map(_ENTITY.fullmatch, row.statuses) if match]
    for match in entities:
        gpu = int(match.group(2)) if match.group(1) == "GPU" else None
        yield Result(test, row.name, gpu, status_of(match.group(3)), _about(troubles, gpu))
    reported = {status_of(match.group(3)) for match in entities}
    # Where some failed, what is said is of those; where all passed, somebody said it all the same.
    passed = all(text.startswith("Pass") for text in row.statuses)
    for text in row.statuses:
        if _ENTITY.fullmatch(text):
            continue
        by_gpu = _BY_GPU.fullmatch(text)
        status = status_of(by_gpu.group(1)) if by_gpu else UNKNOWN
        # As with the test_summary of the JSON.
        if entities and status in reported:
            continue
        numbers = [int(number) for number in (by_gpu.group(3) or "").split(",") if number.strip()] if by_gpu else []
        gpus: Sequence[int | None] = (every or [None]) if by_gpu and by_gpu.group(2) else (numbers or [None])
        for gpu in gpus:
            yield Result(test, row.name, gpu, status, _about(troubles, gpu) if status != PASS or passed else ())


def _about(troubles: tuple[Trouble, ...], gpu: int | None) -> tuple[Trouble, ...]:
    """Return the troubles that do not name another GPU alone."""
    return tuple(
        trouble
        for trouble in troubles
        if gpu is None or not gpus_named(trouble.text) or gpu in gpus_named(trouble.text)
    )

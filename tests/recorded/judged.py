"""Judging what real machines printed: the rows of every table here, and what came of them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import judge
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import (
    CHECKS,
    PROBES,
    STRESSES,
    parsers,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS, Finding, worst
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.placed import PLACED, laid
from tests.typed import typed

from .row import Row

HERE = Path(__file__).parent
# Beside the checkout; the files are other people's and are read where they lie.
RECORDED = HERE.parents[2] / "shared" / "recorded"
NO_TABLES = ("healthy_hosts", "judged", "row", "test_healthy_hosts", "test_judged_files", "test_recorded")


def _tables() -> list[Any]:
    """Return the modules here that hold ROWS and NOT_COVERED."""
    names = sorted(path.stem for path in HERE.glob("[a-z]*.py") if path.stem not in NO_TABLES)
    return [importlib.import_module(f"{__package__}.{name}") for name in names]


ROWS: tuple[Row, ...] = tuple(row for table in _tables() for row in table.ROWS)
# Files, and whole directories ("slurm/"), that no check judges, each with the reason.
NOT_COVERED: dict[str, str] = {file: why for table in _tables() for file, why in table.NOT_COVERED.items()}


@dataclass(frozen=True)
class Judged:
    """What came of one row; ``said`` is what the worst findings say."""

    row: Row
    verdict: str
    said: str

    @property
    def right(self) -> bool:
        return self.verdict == self.row.verdict

    @property
    def sick_passed(self) -> bool:
        """Whether a machine that was not healthy, or about which the file says nothing, got through."""
        return self.verdict == PASS and self.row.verdict != PASS

    @property
    def unverified(self) -> bool:
        """Whether nobody has recorded this tool on a real machine, so that the row proves only itself."""
        if self.row.judge:
            return False
        return bool(getattr(parsers([self.row.probe])[self.row.probe], "FORMAT_UNVERIFIED", False))


def expectations(row: Row) -> dict[str, Any]:
    """Return the class hgx_h100 with the row's own expectations laid over it."""
    return laid(expectations_of("hgx_h100", PLACED, "recorded"), row.expect)


def judged(row: Row, recorded: Path) -> Judged:
    """Return what the row's checks say of its file."""
    findings = findings_of(row, recorded)
    verdict = worst(finding.verdict for finding in findings)
    said = [f"{finding.check} {finding.subject}: {finding.reason or finding.measured}" for finding in findings]
    worse = [text for text, finding in zip(said, findings, strict=True) if finding.verdict == verdict != PASS]
    return Judged(row, verdict, "; ".join(worse))


def findings_of(row: Row, recorded: Path) -> Sequence[Finding]:
    """Return all findings of the row's checks on its file."""
    data = (recorded / row.file).read_bytes()
    return row.judge(data, expectations(row)) if row.judge else _findings(row, data)


def _findings(row: Row, data: bytes) -> Sequence[Finding]:
    outputs = outputs_of(row, data)
    checks = [CHECKS[name] for name in row.checks]
    names = {*outputs, *(probe for check in checks for probe in check.PROBES)}
    return judge(outputs, parsers(names), checks, typed(expectations(row))).findings


def outputs_of(row: Row, data: bytes) -> dict[str, Output]:
    """Return what the probes gave on the machine, by their names."""
    output = row.run(data) if row.run else Output(data.decode("utf-8", errors="replace"))
    return {row.probe: output, **({"rail_names": row.names(data)} if row.names else {})}


def figures(results: list[Judged]) -> dict[str, int]:
    """Return how many files were judged rightly and wrongly; formats nobody recorded are not among them."""
    files: dict[str, list[Judged]] = {}
    for result in results:
        if not result.unverified:
            files.setdefault(result.row.file, []).append(result)
    return {
        "recorded_covered": len(files),
        "recorded_right": sum(all(result.right for result in rows) for rows in files.values()),
        "recorded_sick_passed": sum(any(result.sick_passed for result in rows) for rows in files.values()),
    }


def unverified_formats() -> list[str]:
    """Return the probes and stresses whose tools nobody has recorded on a real machine, or a part of whose output."""
    names = []
    for name, module in sorted({**PROBES, **STRESSES}.items()):
        if getattr(module, "FORMAT_UNVERIFIED", False):
            names.append(name)
        elif part := getattr(module, "PARTLY_UNVERIFIED", ""):
            names.append(f"{name} ({part})")
    return names


def unlisted(recorded: Path) -> list[str]:
    """Return the recorded files that stand in no table."""
    known = {row.file for row in ROWS} | set(NOT_COVERED) | {"SOURCES.md"}
    files = (path.relative_to(recorded).as_posix() for path in recorded.rglob("*") if path.is_file())
    return sorted(file for file in files if not known & {file, f"{file.split('/')[0]}/"})

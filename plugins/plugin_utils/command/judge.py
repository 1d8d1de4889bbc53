"""``muster judge``: what the checks say of saved outputs, for a hardware class or a host's expectations."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.muster.cluster.plugins.module_utils.commands import judge_command
from ansible_collections.muster.cluster.plugins.module_utils.examination.rejudge import (
    SavedError,
    line_of,
    rejudged,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, read_expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import worst
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError, one_of
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import read_yaml
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import (
    expectations_of,
    shipped_classes,
)

from .dispatch import Answer, CommandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which outputs are judged, and against what."""
    judge_command.add_arguments(parser)
    against = parser.add_mutually_exclusive_group(required=True)
    names = ", ".join(shipped_classes())
    against.add_argument("--class", dest="hardware_class", metavar="NAME", help=f"{names}, or a class of --fleet")
    against.add_argument(
        "--expect", metavar="FILE", help="a host's expectations (JSON), such as /etc/muster/expect.json"
    )
    parser.add_argument("--fleet", metavar="FILE", help="fleet file that declares the class")
    parser.epilog = "Exit status: 0 everything passed, 1 something failed, 2 incomplete or wrong input."


def run(options: argparse.Namespace) -> Answer:
    """Return one line per finding and the worst verdict. Raises CommandError and FleetError."""
    if options.expect and options.fleet:
        raise CommandError("--fleet: found --expect beside it, expected --class with a class of the fleet file")
    expect = _of_file(options.expect) if options.expect else _of_class(options.hardware_class, options.fleet)
    try:
        findings = rejudged(judge_command.outputs_of(options, expect), expect, options.check)
    except SavedError as exc:
        raise CommandError(str(exc)) from exc
    verdict = worst(finding.verdict for finding in findings)
    text = "\n".join([*map(line_of, findings), verdict])
    data = {"verdict": verdict, "findings": [finding.to_dict() for finding in findings]}
    return Answer(text, data, judge_command.status_of(verdict))


def _of_class(name: str, fleet: str | None) -> Expectations:
    """Return what a class expects by itself: what follows from fabric and storage is no part of it."""
    overrides: Mapping[str, Any] = {}
    if fleet is not None:
        Fleet.load(fleet)
        overrides = read_yaml(fleet).get("hardware_classes") or {}
    known = sorted({*shipped_classes(), *overrides})
    if name not in known:
        raise CommandError(f"--class: found {name!r}, expected {one_of(known)}")
    return read_expectations(expectations_of(name, overrides, fleet or name))


def _of_file(path: str) -> Expectations:
    try:
        return read_expectations(json.loads(Path(path).read_text(encoding="utf-8")))
    except ReadError as exc:
        raise CommandError(f"{path}: {exc}") from exc
    except ValueError as exc:
        raise CommandError(f"{path} is not JSON: {exc}") from exc

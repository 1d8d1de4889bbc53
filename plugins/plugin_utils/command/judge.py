"""``muster judge``: what the checks say of saved outputs, for a shipped hardware class or a host's expectations."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ansible_collections.muster.cluster.plugins.module_utils.commands import judge_command
from ansible_collections.muster.cluster.plugins.module_utils.examination.rejudge import (
    SavedError,
    line_of,
    rejudged,
    saved_outputs,
)
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import Expectations, read_expectations
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import worst
from ansible_collections.muster.cluster.plugins.module_utils.words.reader import ReadError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.declaration import FleetError
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import (
    expectations_of,
    shipped_classes,
)

from .dispatch import Answer, CommandError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which outputs are judged, and against what."""
    judge_command.add_arguments(parser)
    against = parser.add_mutually_exclusive_group(required=True)
    classes = shipped_classes()
    against.add_argument(
        "--class", dest="hardware_class", choices=classes, help="hardware class that comes with Muster"
    )
    against.add_argument(
        "--expect", metavar="FILE", help="a host's expectations (JSON), such as /etc/muster/expect.json"
    )
    parser.epilog = "Exit status: 0 everything passed, 1 something failed, 2 incomplete or wrong input."


def run(options: argparse.Namespace) -> Answer:
    """Return one line per finding and the worst verdict. Raises CommandError."""
    expect = _expectations(options)
    try:
        findings = rejudged(saved_outputs(options.path, options.probe), expect, options.check)
    except SavedError as exc:
        raise CommandError(str(exc)) from exc
    verdict = worst(finding.verdict for finding in findings)
    text = "\n".join([*map(line_of, findings), verdict])
    data = {"verdict": verdict, "findings": [finding.to_dict() for finding in findings]}
    return Answer(text, data, judge_command.status_of(verdict))


def _expectations(options: argparse.Namespace) -> Expectations:
    try:
        if options.hardware_class:
            return read_expectations(expectations_of(options.hardware_class, {}, options.hardware_class))
        return read_expectations(json.loads(Path(options.expect).read_text(encoding="utf-8")))
    except FleetError as exc:
        raise CommandError(str(exc)) from exc
    except ReadError as exc:
        raise CommandError(f"{options.expect}: {exc}") from exc
    except ValueError as exc:
        raise CommandError(f"{options.expect} is not JSON: {exc}") from exc

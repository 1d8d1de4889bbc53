"""``muster judge-again``: what the present checks make of evidence whose raw outputs this host keeps."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from ..examination.rejudge import STAGES, SavedError, judged_again
from ..host.evidence_store import EvidenceStore, valid_id
from ..host.own_program import program_digest
from ..host.raw_outputs import RawError, places_in
from ..words.evidence import Evidence, EvidenceError
from ..words.expectations import read_expectations
from ..words.reader import ReadError
from .command_line import STATE_DIRECTORY, wrong


def main(arguments: Sequence[str], version: str) -> int:
    """Print the new evidence as JSON and return 0; 2 where there is none to be made. Nothing on this host changes."""
    parser = argparse.ArgumentParser(
        prog="muster judge-again",
        description="Judge the kept outputs of evidence by the present checks; expectations (JSON) on standard input.",
    )
    parser.add_argument("--stage", required=True, choices=STAGES)
    parser.add_argument("--id", required=True, help="the evidence's id, which names its directory")
    parser.add_argument("--state-directory", default=STATE_DIRECTORY)
    options = parser.parse_args(arguments)
    if not valid_id(options.id):
        return wrong(f"--id is {options.id!r}, expected letters, digits, '-', '_' and '.'")
    store = EvidenceStore(options.state_directory)
    try:
        expect = read_expectations(json.load(sys.stdin))
        evidence = Evidence.from_dict(store.read(options.stage, options.id))
        kept = store.read_raw(evidence.stage, evidence.id, places_in(evidence.raw))
        again = judged_again(evidence, kept, expect, version, program_digest())
    except (OSError, ReadError, EvidenceError, RawError, SavedError) as exc:
        return wrong(str(exc))
    except ValueError as exc:
        return wrong(f"expectations on standard input, or evidence {options.id}, are not JSON: {exc}")
    print(json.dumps(again.to_dict(), sort_keys=True))
    return 0

"""``muster pcie``: set the PCIe options that every reboot undoes; what the unit runs at boot."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..boot.pcie_settings import PcieError, Settings, apply
from ..host.machine import LocalMachine
from .command_line import wrong

PCIE = "/etc/muster/pcie.json"


def main(arguments: Sequence[str], _version: str) -> int:
    """Print what was set and return 0; 1 where a device did not take it, 2 for a file that cannot be read."""
    parser = argparse.ArgumentParser(prog="muster pcie", description="Set the PCIe options that every reboot undoes.")
    parser.add_argument("action", choices=("apply",))
    parser.add_argument("--settings", default=PCIE, help=f"file with the settings (JSON); {PCIE}")
    options = parser.parse_args(arguments)
    try:
        settings = Settings.from_json(Path(options.settings).read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        return wrong(f"{options.settings}: {exc}")
    try:
        steps = apply(LocalMachine(settings.tool_path, settings.root), settings)
    except PcieError as exc:
        print(f"muster: {exc}", file=sys.stderr)
        return 1
    for step in steps:
        print(step.what)
    return 0

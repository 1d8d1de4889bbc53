"""The fleet file shown in the guide is one that works, and its links lead somewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_fleet_file_of_the_guide_is_valid(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "getting_started.md").read_text(encoding="utf-8")
    block = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert block
    file = tmp_path / "mysite.fleet.yml"
    file.write_text(textwrap.dedent(f"   {block[1].lstrip()}"))
    listed = subprocess.run(
        [Path(sys.executable).parent / "ansible-inventory", "-i", file, "--list"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, listed.stderr
    inventory = json.loads(listed.stdout)
    assert len(inventory["compute"]["hosts"]) == 32
    assert inventory["_meta"]["hostvars"]["gpu-032"]["ansible_host"] == "10.0.1.32"
    assert inventory["rack_r08"]["hosts"] == ["gpu-029", "gpu-030", "gpu-031", "gpu-032"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name}: {target}"

"""The node program as a file that a person can copy to any host."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.command.dispatch import main
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import build

from .test_dispatch import ROOT


def test_program_is_written_once_and_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "muster"
    assert main(["program", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        str(path),
        f"scp {path} root@HOST:",
        "ssh root@HOST python3 muster collect",
    ]
    assert path.read_bytes() == build() and stat.S_IMODE(path.stat().st_mode) == 0o755
    done = subprocess.run([sys.executable, path, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("muster ")
    assert main(["program", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == str(path)


def test_other_file_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "muster"
    path.write_text("mine")
    with pytest.raises(SystemExit, match="2"):
        main(["program", str(path)])
    assert "exists with another content" in capsys.readouterr().err and path.read_text() == "mine"
    with pytest.raises(SystemExit, match="2"):
        main(["program", str(tmp_path)])


def test_standard_output_has_the_program_alone() -> None:
    argv = [sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv.pop(1)); from ansible_collections.muster."
            "cluster.plugins.plugin_utils.command.dispatch import main; sys.exit(main())"]  # fmt: skip
    argv += [str(ROOT / "collections"), "program", "-"]
    assert subprocess.run(argv, capture_output=True, check=True).stdout == build()
    done = subprocess.run([*argv, "--json"], capture_output=True, check=False)
    assert done.returncode == 2 and "would be printed" in json.loads(done.stdout)["error"]

"""Archives are judged as other saved outputs are, by a shipped class or one of a fleet file."""

import json
from pathlib import Path

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.commands import judge_command
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.plugin_utils.command.dispatch import main
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.unit.plugin_utils.drafting.archives import archive_of
from tests.unit.plugin_utils.drafting.hosts import collected

from .test_dispatch import HEALTHY, ROOT

LAB = ROOT / "inventory" / "lab" / "lab.fleet.yml"


@pytest.fixture
def archive(tmp_path: Path) -> str:
    outputs = {"nvidia_smi": Output((HEALTHY / "nvidia_smi.xml").read_text(encoding="utf-8"))}
    return str(archive_of(collected(outputs), tmp_path))


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    """A fleet whose class asks for more memory of GPUs than there is."""
    data = yaml.safe_load(LAB.read_text(encoding="utf-8"))
    data["hardware_classes"] = {"lab_h100": {"gpu": {"memory_mib": 99999}}}
    path = tmp_path / "x.fleet.yml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return str(path)


def test_archive_is_judged_by_a_shipped_class(archive: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge", archive, "--class=lab_h100", "--check=gpu_ecc"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "pass"


def test_class_is_the_one_of_the_fleet_file(archive: str, fleet: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge", archive, "--class=lab_h100", f"--fleet={fleet}", "--check=gpu_inventory"]) == 1
    assert "another memory size than declared" in capsys.readouterr().out


def test_node_judges_an_archive_too(archive: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expect = tmp_path / "expect.json"
    expect.write_text(json.dumps(expectations_of("lab_h100", {}, "x")), encoding="utf-8")
    assert judge_command.main([archive, f"--expect={expect}", "--check=gpu_ecc"], "0") == 0
    Path(archive).write_bytes(b"\x1f\x8b nonsense")
    assert judge_command.main([archive, f"--expect={expect}"], "0") == 2
    assert archive in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--class=hgx_h999"], "--class: found 'hgx_h999', expected one of dgx_h100, "),
        (["--class=hgx_h999", f"--fleet={LAB}"], "--class: found 'hgx_h999', expected one of dgx_h100, "),
        (["--class=lab_h100", "--fleet=/nonexistent"], "/nonexistent"),
        (["--class=lab_h100", "--probe=nvidia_smi"], "an archive and --probe"),
        (["--expect=x.json", f"--fleet={LAB}"], "--fleet: found --expect beside it"),
    ],
)
def test_wrong_words_are_named(archive: str, words: list[str], reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge", archive, *words, "--json"]) == 2
    assert reason in json.loads(capsys.readouterr().out)["error"]


def test_archive_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge", "gone.tar.gz", "--class=lab_h100", "--json"]) == 2
    assert "gone.tar.gz" in json.loads(capsys.readouterr().out)["error"]

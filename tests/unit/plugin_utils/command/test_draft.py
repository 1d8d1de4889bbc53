"""From hosts to a fleet file that is whole, as an operator types it."""

import json
import os
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collecting.archive import Taken, read_archive
from ansible_collections.muster.cluster.plugins.module_utils.host.blocks import joined, split
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.plugin_utils.command.dispatch import main
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet

from tests.unit.plugin_utils.drafting.archives import archive_of, ssh_to
from tests.unit.plugin_utils.drafting.hosts import (
    changed,
    collected,
    healthy_outputs,
    tray_collected,
    tray_outputs,
    whole_outputs,
)

from .test_dispatch import ROOT

# What is typed for a fleet of 16 nodes, two of which can be reached already.
SESSION = r"""
muster draft root@gpu-[01-02] --nodes gpu-[01-16] --address 10.1.16.1 --controller ctl=10.1.0.10 \
  --rail-addresses 172.[16-23].0.1/31 --output mysite.fleet.yml
ansible-inventory -i mysite.fleet.yml --graph
"""
GIVEN = ("--nodes=gpu-[01-16]", "--address=10.1.16.1", "--controller=ctl=10.1.0.10")
WORDS = (*GIVEN, "--rail-addresses=172.[16-23].0.1/31", "--output=mysite.fleet.yml")


def outputs() -> dict[str, Output]:
    return whole_outputs()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which the command is run, with archives of two good hosts."""
    monkeypatch.chdir(tmp_path)
    for name in ("gpu-01", "gpu-02"):
        archive_of(collected(outputs(), name), tmp_path)
    return tmp_path


def draft(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """Return status and data of one draft."""
    capsys.readouterr()
    status = main(["draft", *words, "--json"])
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status, data


def test_fleet_of_16_nodes_takes_three_lines(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh_to(here, monkeypatch)
    typed = SESSION.strip().splitlines()
    commands = [shlex.split(command) for command in SESSION.replace("\\\n", "").strip().splitlines()]
    assert (len(commands), len(typed)) == (2, 3)
    assert main(commands[0][1:]) == 0
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_HOME": str(here / "ansible")}
    argv = [str(Path(sys.executable).with_name(commands[1][0])), *commands[1][1:]]
    listed = subprocess.run(argv, capture_output=True, text=True, check=True, env=environment, timeout=60).stdout
    assert "gpu-16" in listed and "ctl" in listed and "@class_lab_hgx_h100" in listed


def test_answer_tells_what_is_known_and_what_is_not(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draft", "gpu-01.tar.gz", "gpu-02.tar.gz", *WORDS]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "mysite.fleet.yml: class lab_hgx_h100, which extends hgx_h100"
    assert "From hgx_h100, not measured here:" in lines
    assert lines[-3:] == [
        "gpu-01 (gpu-01.tar.gz): pass",
        "gpu-02 (gpu-02.tar.gz): pass",
        "next: ansible-inventory -i mysite.fleet.yml --graph",
    ]
    text = Path("mysite.fleet.yml").read_text()
    assert "from gpu-01, gpu-02" in text.splitlines()[0] and "# From hgx_h100, not measured here:" in text


def test_report_on_a_further_nic_does_not_stand_for_a_rail(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The host was collected with nine NICs, of which the second is no rail; the last rail's is broken."""
    healthy = healthy_outputs()["mlxlink"]
    reports = list(split(healthy.stdout).values())
    broken = Output(reports[7].stdout.replace('"State" : "Active"', '"State" : "Disable"'))
    assert broken != reports[7]
    addresses = [f"0000:{bus}:00.0" for bus in ("1a", "1b", "3c", "4d", "5e", "9c", "bc", "cc", "dc")]
    nine = [reports[0], reports[0], *reports[1:7], broken]
    mlxlink = joined({f"rail{number}": report for number, report in enumerate(nine)})
    taken = tuple(Taken("mlxlink", f"mlxlink -d {address} -m -c --json", 0, 0) for address in addresses)
    archive_of(collected({**outputs(), "mlxlink": mlxlink}, "gpu-02", taken=taken), here)
    status, data = draft(capsys, "gpu-01.tar.gz", "gpu-02.tar.gz", *WORDS)
    assert status == 1 and data["verdicts"]["gpu-01"] == "pass"
    assert {(each["check"], each["subject"]) for each in data["findings"]["gpu-02"]} == {("nic_physical", "nic rail7")}


def test_sick_host_of_the_same_kind_is_named_by_the_drafted_class(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["draft", "gpu-01.tar.gz", "gpu-02.tar.gz", *WORDS, "--class=mine"]) == 0
    sick = changed(outputs(), "nvidia_smi", ("<remapped_row_pending>No", "<remapped_row_pending>Yes"))
    archive_of(collected(sick, "gpu-03"), here)
    against = ("--class=mine", "--fleet=mysite.fleet.yml")
    capsys.readouterr()
    assert main(["judge", "gpu-01.tar.gz", *against]) == 0
    assert main(["judge", "gpu-03.tar.gz", *against]) == 1
    (failed,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("fail ")]
    assert failed.startswith("fail       gpu_row_remap gpu-03 8 GPUs (GPU0 ")


def test_unpacked_archive_is_not_judged_by_the_names_of_its_collecting(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tarfile.open("gpu-01.tar.gz") as archive:
        archive.extractall("unpacked", filter="data")
    for path in ("unpacked/raw", "unpacked/raw/"):
        with pytest.raises(SystemExit, match="2"):
            main(["judge", path, "--class=dgx_h100"])
        assert "expected the archive itself" in capsys.readouterr().err


def test_difference_between_hosts_is_named_and_not_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = changed(outputs(), "nvidia_smi", ("96.00.A5.00.01", "96.00.89.00.01"))
    archive_of(collected(other, "gpu-02"), here)
    status, data = draft(capsys, "gpu-01.tar.gz", "gpu-02.tar.gz", *WORDS)
    assert data["differences"] == {"gpu.vbios": {"gpu-01": "96.00.A5.00.01", "gpu-02": "96.00.89.00.01"}}
    text = Path("mysite.fleet.yml").read_text()
    assert (
        "#   gpu.vbios: gpu-01 96.00.A5.00.01, gpu-02 96.00.89.00.01; as hgx_h100 has it\n" in text
        and "\n      vbios" not in text
    )
    assert set(data["verdicts"].values()) <= {"pass"} and status == 2


def test_host_that_fails_by_its_own_class_ends_with_1(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sick = changed(outputs(), "nvidia_smi", ("<remapped_row_pending>No", "<remapped_row_pending>Yes"))
    archive_of(collected(sick, "gpu-02"), here)
    status, data = draft(capsys, "gpu-01.tar.gz", "gpu-02.tar.gz", *WORDS)
    assert status == 1 and data["verdicts"] == {"gpu-01": "pass", "gpu-02": "fail"}
    assert {finding["check"] for finding in data["findings"]["gpu-02"]} == {"gpu_row_remap"}
    assert data["findings"]["gpu-01"] == []


def test_cables_are_declared_where_every_node_was_collected(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Eight leaves, one for each rail, by what Cumulus Linux tells over LLDP."""
    # The healthy host's rails have both kinds of neighbours, as no real host has.
    cabled = {name: output for name, output in outputs().items() if name != "infiniband_neighbours"}
    archive_of(collected(cabled, "gpu-01"), here)
    archive_of(collected(changed(cabled, "lldp", ("swp1s0", "swp1s1")), "gpu-02"), here)
    status, _ = draft(capsys, "gpu-01.tar.gz", "gpu-02.tar.gz", *WORDS, "--nodes=gpu-[01-02]")
    fleet = Fleet.load("mysite.fleet.yml")
    assert status == 0 and [(block.name, block.system) for block in fleet.fabric.switches] == [
        ("leaf-[1-8]", "cumulus")
    ]
    assert [(rail.switch, rail.port) for rail in fleet.compute["gpu-02"].rails] == [
        (f"leaf-{leaf}", "swp1s1") for leaf in range(1, 9)
    ]
    Path("mysite.fleet.yml").unlink()
    draft(capsys, "gpu-01.tar.gz", "gpu-02.tar.gz", *WORDS)
    assert not Fleet.load("mysite.fleet.yml").fabric.switches
    assert "#   gpu-02 rail7: leaf-8 swp1s1\n" in Path("mysite.fleet.yml").read_text()


def test_what_was_collected_is_kept_where_it_makes_no_fleet(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh_to(here, monkeypatch)
    words = [word for word in WORDS if not word.startswith("--rail-addresses")]
    status, data = draft(capsys, "root@gpu-01", *words)
    assert status == 2 and "--rail-addresses: found none" in data["error"]
    kept = data["error"].partition("what was collected is kept: ")[2]
    assert kept.startswith("muster-gpu-01-") and read_archive(Path(kept)).host == "gpu-01"


def test_host_without_rails_is_drafted_where_a_person_says_so(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive_of(collected({"nvidia_smi": outputs()["nvidia_smi"]}, "gpu-03"), here)
    status, data = draft(capsys, "gpu-03.tar.gz", *WORDS)
    assert status == 2 and "name them with --rails ADDRESS,..." in data["error"]
    _, data = draft(capsys, "gpu-03.tar.gz", *WORDS, "--rails=none")
    assert {"nic is not asked", "rdma is not asked"} <= {*data["weaker"]}
    assert "#   nic is not asked\n" in Path("mysite.fleet.yml").read_text()
    assert Fleet.load("mysite.fleet.yml").fabric.kind == "ethernet"


def test_class_is_called_as_the_product_is(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive_of(collected({**outputs(), "dmidecode": healthy_outputs()["dmidecode"]}, "gpu-01"), here)
    _, data = draft(capsys, "gpu-01.tar.gz", *WORDS)
    assert data["class"] == "lab_hgx_h100"
    assert Fleet.load("mysite.fleet.yml").bases == {"lab_hgx_h100": "hgx_h100"}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--nodes=gpu-[01-"], '--nodes: found "gpu-[01-", expected brackets in pairs'),
        (["--nodes=GPU_1"], "--nodes: found"),
        (["--address=10.1.16"], "--address: found"),
        (["--controller=ctl"], "--controller: found 'ctl', expected NAME=ADDRESS"),
        (["--controller=ctl=here"], "--controller: found"),
        (["--controller=gpu-01=10.1.0.10"], "gpu-01"),
        (["--output=mysite.yml"], "--output: found mysite.yml, expected a name that ends in .fleet.yml"),
        (["--output=gpu-01.tar.gz/mysite.fleet.yml"], "--output: found a file above gpu-01.tar.gz/mysite.fleet.yml"),
        (["--class=a b"], "--class: found 'a b', expected lower-case letters"),
        (["--output=My_Site.fleet.yml"], "--cluster: found"),
        (["--rail-addresses=172.[16-"], "--rail-addresses: found"),
        (["--class=dgx_h100"], "--class: found 'dgx_h100', which comes with Muster"),
        (["--rails=x"], "'x'"),
        (["--rail-addresses=172.16.0.1/31"], "--rail-addresses: found 1 networks, expected 8"),
    ],
)
def test_wrong_word_is_named_and_no_file_is_written(
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str], reason: str
) -> None:
    status, data = draft(capsys, "gpu-01.tar.gz", *WORDS, *words)
    assert status == 2 and reason in data["error"]
    assert sorted(path.name for path in here.iterdir()) == ["gpu-01.tar.gz", "gpu-02.tar.gz"]


def test_unknown_class_to_extend_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["draft", "gpu-01.tar.gz", *WORDS, "--extends=hgx_b300"])
    assert "invalid choice: 'hgx_b300'" in capsys.readouterr().err


def test_file_that_is_there_stays_and_no_host_is_asked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mysite.fleet.yml").write_text("mine")
    status, data = draft(capsys, "root@gone", *WORDS)
    assert status == 2 and "mysite.fleet.yml: exists" in data["error"]
    assert Path("mysite.fleet.yml").read_text() == "mine"


def test_hosts_of_two_models_are_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = changed(outputs(), "nvidia_smi", ("NVIDIA H100 80GB HBM3", "NVIDIA H200"))
    archive_of(collected(other, "gpu-02"), here)
    status, data = draft(capsys, "gpu-01.tar.gz", "gpu-02.tar.gz", *WORDS)
    assert status == 2 and "gpu-01" in data["error"] and "gpu-02" in data["error"]
    assert not Path("mysite.fleet.yml").exists()


def test_trays_are_drafted_into_their_racks_and_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = tray_outputs()
    sick = changed(found, "nvidia_smi", ("<cliqueId>4026", "<cliqueId>[N/A]"))
    for name, own in (("tray-01", found), ("tray-02", found), ("tray-03", sick)):
        archive_of(tray_collected(own, name), tmp_path)
    words = ["tray-01.tar.gz", "tray-02.tar.gz", "--nodes=tray-[01-36]", "--racks=west-[1-2]", "--class=ours"]
    words += ["--address=10.1.16.1", "--controller=ctl=10.1.0.10", "--rail-addresses=172.[16-19].0.1/16"]
    assert main(["draft", *words, "--output=x.fleet.yml"]) == 0
    fleet = Fleet.load("x.fleet.yml")
    assert (fleet.compute["tray-18"].rack, fleet.compute["tray-19"].rack) == ("west-1", "west-2")
    for archive, status in (("tray-01.tar.gz", 0), ("tray-03.tar.gz", 2)):
        assert main(["judge", archive, "--class=ours", "--fleet=x.fleet.yml"]) == status, archive


@pytest.mark.parametrize(
    ("racks", "said"),
    [
        ([], "--racks: found none, expected names of racks of 18 nodes, which are NVLink domains, such as rack-[1-8]"),
        (["--racks=west-[1-2]"], '--racks: found "west-[1-2]" (2 racks), expected 1 racks for 18 nodes, 18 in each'),
    ],
)
def test_racks_that_are_not_known_are_asked_for(
    racks: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    archive_of(tray_collected(tray_outputs(), "tray-01"), tmp_path)
    words = ["--nodes=tray-[01-18]", *GIVEN[1:], "--rail-addresses=172.[16-19].0.1/16", *racks]
    with pytest.raises(SystemExit, match="2"):
        main(["draft", "tray-01.tar.gz", *words, "--output=x.fleet.yml"])
    assert said in capsys.readouterr().err
    assert not Path("x.fleet.yml").exists()


def test_racks_of_hosts_in_no_domain_are_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["draft", "gpu-01.tar.gz", *WORDS, "--racks=rack-1"])
    assert "--racks: found rack-1, expected none" in capsys.readouterr().err

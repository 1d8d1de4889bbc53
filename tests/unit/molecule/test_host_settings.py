"""NIC firmware, PCIe and boot parameters on a lab host: set, then left alone; check mode leaves no trace."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.cli import main
from ansible_collections.muster.cluster.plugins.module_utils.examination import registry
from ansible_collections.muster.cluster.plugins.module_utils.examination.examine import collect, judge
from ansible_collections.muster.cluster.plugins.module_utils.host.host import LocalHost
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.run_module import run_module
from tests.typed import typed

LAB = expectations_of("lab_h100", {}, "lab")
COLLECTIONS = Path(__file__).resolve().parents[3] / "collections"
RAILS = LAB["nic"]["rails"]
FIRST, GPU = "0000:1a:00.0", LAB["gpu"]["parts"][0]["address"]
Module = Callable[..., dict[str, Any]]


@pytest.fixture
def path_of(host_place: Path) -> str:
    return f"{host_place}/bin:{host_place}/own:/usr/bin:/bin"


@pytest.fixture
def module(host_place: Path, path_of: str) -> Module:
    """Run a module as Ansible does, on the simulated host; its systemctl knows two units."""
    own = host_place / "own"
    own.mkdir()
    (host_place / "bin" / "systemctl").unlink()
    script = own / "systemctl"
    script.write_text(
        f'#!/bin/sh\ncd {own}\ncase "$1" in\n'
        'is-enabled) cat "$2" 2>/dev/null || { echo not-found; exit 4; } ;;\n'
        'enable) echo enabled >"$2" ;;\nmask) echo masked >"$3" ;;\nesac\n'
    )
    script.chmod(0o755)
    (own / "muster-pcie.service").write_text("disabled\n")

    return partial(run_module, tool_path=path_of)


def trace(place: Path) -> dict[str, bytes]:
    """Return every file of the host."""
    return {
        str(path): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file() and path.suffix != ".pyc"
    }


def findings(place: Path, path: str, check: str) -> dict[str, Any]:
    """Return a check's findings by part."""
    asked = registry.CHECKS[check]
    names = (*asked.PROBES, *getattr(asked, "OPTIONAL_PROBES", ()))
    probes = {name: registry.PROBES[name] for name in names}
    outputs = collect(LocalHost(path, str(place / "root")), probes.values(), typed(LAB))
    return {finding.subject: finding for finding in judge(outputs, probes, [asked], typed(LAB)).findings}


def firmware(module: Module, check: bool = False, **over: Any) -> dict[str, Any]:
    given = {"nics": RAILS, "settings": LAB["nic"]["firmware_settings"], "firmware": "28.43.1014", **over}
    return module("nic_firmware", check, **given)


def test_healthy_nics_are_left_alone(module: Module) -> None:
    done = firmware(module)
    assert (done["changed"], done["pending"], done["other_firmware"]) == (False, [], []), done


def test_setting_is_set_then_left_alone_and_waits_for_its_reboot(
    module: Module, set_faults: Callable[..., None], host_place: Path, path_of: str
) -> None:
    set_faults(nic_config={"rail3": {"RDMA_SELECTIVE_REPEAT_EN": "0"}})
    before = trace(host_place)
    assert firmware(module, check=True)["changed"] and trace(host_place) == before
    assert findings(host_place, path_of, "nic_firmware_settings")["nic rail3"].action == "investigate"
    first, second = firmware(module), firmware(module)
    assert first["steps"] == ["rail 3 (0000:5e:00.0): RDMA_SELECTIVE_REPEAT_EN 1 in place of False(0)"]
    assert not second["changed"]
    waits = ["rail 3 (0000:5e:00.0): RDMA_SELECTIVE_REPEAT_EN is False(0), True(1) from the next boot on"]
    assert first["pending"] == second["pending"] == waits
    finding = findings(host_place, path_of, "nic_firmware_settings")["nic rail3"]
    assert (finding.verdict, finding.action) == ("fail", "reboot")
    boot_id = host_place / "root/proc/sys/kernel/random/boot_id"
    boot_id.parent.mkdir(parents=True, exist_ok=True)
    boot_id.write_text("another boot\n")
    assert firmware(module)["pending"] == []
    assert findings(host_place, path_of, "nic_firmware_settings")["nic rail3"].verdict == "pass"


def test_setting_that_another_one_unlocks_is_set_in_the_same_run(
    module: Module, set_faults: Callable[..., None]
) -> None:
    set_faults(nic_config={"rail0": {"ADVANCED_PCI_SETTINGS": "0", "MAX_ACC_OUT_READ": "0"}})
    assert [step.split(" in place")[0] for step in firmware(module)["steps"]] == [
        "rail 0 (0000:1a:00.0): ADVANCED_PCI_SETTINGS True",
        "rail 0 (0000:1a:00.0): MAX_ACC_OUT_READ 128",
    ]
    assert not firmware(module)["changed"]


def test_device_is_reset_only_where_the_switch_allows_it(module: Module, set_faults: Callable[..., None]) -> None:
    set_faults(nic_config={"rail1": {"MAX_ACC_OUT_READ": "44"}})
    assert firmware(module)["pending"]
    done = firmware(module, allow_reset=True)
    assert (done["steps"], done["pending"]) == (["rail 1 (0000:3c:00.0): reset"], [])
    assert not firmware(module, allow_reset=True)["changed"]


def test_device_that_ignores_a_setting_is_an_error_and_the_others_are_set(
    module: Module, set_faults: Callable[..., None]
) -> None:
    set_faults(nic_config={"rail3": {"MAX_ACC_OUT_READ": "ignored"}, "rail4": {"MAX_ACC_OUT_READ": "0"}})
    done = firmware(module)
    why = "rail 3 (0000:5e:00.0): after it was set, MAX_ACC_OUT_READ is 0, expected 128"
    assert done["failed"] and why in done["msg"], done
    assert "rail 4 (0000:9c:00.0): MAX_ACC_OUT_READ 128 in place of 0" in done["steps"]
    assert "rail 4" not in done["msg"]


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("NO_SUCH_KEY", "1", "rail 0 (0000:1a:00.0) has no setting NO_SUCH_KEY"),
        ("NUM_OF_PLANES_P1", "2", "rail 0 (0000:1a:00.0): NUM_OF_PLANES_P1 is 0, declared 2, and read-only"),
        ("ESWITCH_HAIRPIN_DESCRIPTORS", "1", "is shown as 'Array[0..7]', expected one value"),
        ("LINK_TYPE_P1", "TOKEN_RING", "Failed to parse the value TOKEN_RING of LINK_TYPE_P1"),
    ],
)
def test_key_or_value_that_a_device_does_not_know_sets_nothing(
    module: Module, host_place: Path, key: str, value: str, why: str
) -> None:
    before = trace(host_place)
    done = firmware(module, settings=[{"key": "NUM_OF_VFS", "wanted": "0"}, {"key": key, "wanted": value}])
    assert done["failed"] and why in done["msg"], done
    assert not done["changed"] and trace(host_place) == before


@pytest.mark.parametrize(
    ("tool", "fault"),
    [
        *itertools.product(["mstconfig", "mstflint"], ["truncate", "empty", "garble", "crash"]),
        # Where mstconfig is missing, mlxconfig answers.
        ("mstflint", "missing"),
    ],
)
def test_tool_that_answers_badly_is_an_error_and_no_finding_passes(
    module: Module, set_faults: Callable[..., None], tool: str, fault: str
) -> None:
    set_faults(tool_faults={tool: fault})
    done = firmware(module, nics=RAILS[:1])
    assert done["failed"] and "rail 0 (0000:1a:00.0)" in done["msg"], done
    assert done["steps"] == []


def test_host_without_either_tool_is_an_error_that_names_both(
    module: Module, host_place: Path, set_faults: Callable[..., None]
) -> None:
    set_faults(tool_faults={"mstconfig": "missing", "mlxconfig": "missing"})
    done = firmware(module, tool_path=f"{host_place}/bin")
    assert done["failed"] and not done["changed"] and done["steps"] == []
    assert all(f"{name}: No such file" in done["msg"] for name in ("mstconfig", "mlxconfig")), done


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        (["mstconfig", "-d", FIRST, "-e", "query"], 3, "-E- Failed to open the device"),
        (
            ["mstflint", "-d", FIRST, "query"],
            1,
            f"-E- Cannot open Device: {FIRST}. No such file or directory. MFE_CR_ERROR",
        ),
    ],
)
def test_simulated_tools_say_of_a_lost_device_what_mstflint_says(
    tool: Callable[..., Any], set_faults: Callable[..., None], argv: list[str], status: int, said: str
) -> None:
    set_faults(nics_missing=["rail0"])
    done = tool(*argv)
    assert (done.returncode, done.stdout.decode(), done.stderr) == (status, f"{said}\n", b"")


def test_other_firmware_is_named_and_never_flashed(module: Module, set_faults: Callable[..., None]) -> None:
    set_faults(nic_values={"rail5": {"fw_ver": "28.39.1002"}})
    done = firmware(module)
    assert (done["changed"], done["other_firmware"]) == (False, ["rail 5 (0000:bc:00.0) runs 28.39.1002"])


def test_nothing_is_asked_where_nothing_is_declared(module: Module, set_faults: Callable[..., None]) -> None:
    set_faults(tool_faults={"mstconfig": "crash", "mlxconfig": "crash"})
    assert not firmware(module, settings=[], firmware="").get("failed")


def pcie(module: Module, place: Path, check: bool = False, **over: Any) -> dict[str, Any]:
    given = {
        **{"rails": RAILS, "max_read_request_bytes": 4096, "relaxed_ordering": True, "acs_off_above": [FIRST, GPU]},
        **{"path": str(place / "pcie.json"), "root": str(place / "root"), **over},
    }
    return module("pcie_tuning", check, **given)


FAULTS = {
    "pci_control": {FIRST: {"max_read_request_bytes": 512}, "0000:3c:00.0": {"relaxed_ordering": False}},
    "acs_enabled": [GPU],
    "nic_interrupts": {"rail2": "0"},
}


def test_pcie_is_set_then_left_alone_and_set_again_at_boot(
    module: Module, set_faults: Callable[..., None], host_place: Path, path_of: str, capsys: Any
) -> None:
    set_faults(**FAULTS)
    (host_place / "bin" / "systemctl").unlink()
    (host_place / "own" / "irqbalance.service").write_text("enabled\n")
    before = trace(host_place)
    assert pcie(module, host_place, check=True)["changed"] and trace(host_place) == before
    assert findings(host_place, path_of, "nic_pcie_settings")["nic rail0"].verdict == "fail"
    done = pcie(module, host_place)
    assert "rail 0 (0000:1a:00.0): reads of 4096 B in place of 512 B" in done["steps"], done
    assert "rail 1 (0000:3c:00.0): relaxed ordering on" in done["steps"] and "mask irqbalance.service" in done["steps"]
    assert "enable muster-pcie.service" in done["steps"]
    assert [step for step in done["steps"] if step.startswith("bridge")] and len(done["steps"]) == 8
    assert not pcie(module, host_place)["changed"]
    assert findings(host_place, path_of, "nic_pcie_settings")["nic rail0"].verdict == "pass"
    # A boot forgets it all; the unit's command sets it from the file alone.
    boot_id = host_place / "root/proc/sys/kernel/random/boot_id"
    boot_id.parent.mkdir(parents=True, exist_ok=True)
    boot_id.write_text("another boot\n")
    assert findings(host_place, path_of, "nic_pcie_settings")["nic rail0"].verdict == "fail"
    assert main(["pcie", "apply", "--settings", str(host_place / "pcie.json")]) == 0
    assert "reads of 4096 B" in capsys.readouterr().out
    assert findings(host_place, path_of, "nic_pcie_settings")["nic rail0"].verdict == "pass"
    assert findings(host_place, path_of, "acs")["host"].verdict == "pass"


def test_pcie_device_that_ignores_a_setting_is_an_error_at_both_ends(
    module: Module, set_faults: Callable[..., None], host_place: Path, capsys: Any
) -> None:
    set_faults()
    (host_place / "bin" / "systemctl").unlink()
    pcie(module, host_place)
    set_faults(pci_control={FIRST: {"max_read_request_bytes": 512, "ignored": True}})
    (host_place / "bin" / "systemctl").unlink()
    done = pcie(module, host_place)
    why = "still to do: rail 0 (0000:1a:00.0): reads of 4096 B in place of 512 B"
    assert done["failed"] and why in done["msg"], done
    assert main(["pcie", "apply", "--settings", str(host_place / "pcie.json")]) == 1
    assert "rail 0 (0000:1a:00.0)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("faults", "why"),
    [
        ({"nics_missing": ["rail3"]}, "no device at the address of rail 3 (0000:5e:00.0)"),
        ({"tool_faults": {"lspci": "empty"}}, "lspci: found ''"),
        ({"tool_faults": {"lspci": "crash"}}, "lspci: "),
        ({"tool_faults": {"setpci": "missing"}, **FAULTS}, "setpci"),
        ({"nic_interrupts": {"rail2": "none"}}, "expected a list of CPUs"),
    ],
)
def test_pcie_that_cannot_be_read_or_set_is_an_error(
    module: Module, set_faults: Callable[..., None], host_place: Path, faults: dict[str, Any], why: str
) -> None:
    set_faults(**faults)
    (host_place / "bin" / "systemctl").unlink()
    done = pcie(module, host_place)
    assert done["failed"] and why in done["msg"], done
    assert not (host_place / "pcie.json").exists()


@pytest.mark.parametrize("text", ["", "{}", '{"rails": []}'])
def test_settings_that_are_not_whole_end_the_unit_with_an_error(tmp_path: Path, text: str, capsys: Any) -> None:
    (tmp_path / "pcie.json").write_text(text)
    assert main(["pcie", "apply", "--settings", str(tmp_path / "pcie.json")]) == 2
    assert "pcie.json" in capsys.readouterr().err


def boot(module: Module, place: Path, check: bool = False, *parameters: str, **over: Any) -> dict[str, Any]:
    given = list(parameters) or ["iommu=pt", "hugepagesz=1048576K", "hugepages=16"]
    return module("boot_parameters", check, parameters=given, root=str(place / "root"), **over)


def booted(place: Path, boot_id: str) -> None:
    """Let the host be started anew."""
    file = place / "root/proc/sys/kernel/random/boot_id"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{boot_id}\n")


def test_parameters_are_declared_then_left_alone_and_wait_for_their_reboot(
    module: Module, set_faults: Callable[..., None], host_place: Path, path_of: str
) -> None:
    set_faults(kernel_command_line="BOOT_IMAGE=/boot/vmlinuz root=/dev/md0 ro quiet")
    before = trace(host_place)
    assert boot(module, host_place, True)["changed"] and trace(host_place) == before
    assert findings(host_place, path_of, "kernel_command_line")["host"].action == "investigate"
    done = boot(module, host_place)
    assert done["steps"] == ["write /etc/default/grub.d/90-muster.cfg", "update-grub"], done
    assert "the kernel was started without iommu=pt" in done["pending"]
    second = boot(module, host_place)
    assert (second["changed"], second["pending"]) == (False, done["pending"])
    finding = findings(host_place, path_of, "kernel_command_line")["host"]
    assert (finding.verdict, finding.action) == ("fail", "reboot")


def test_where_grubby_declares_nothing_is_written_and_the_command_is_told(
    module: Module, set_faults: Callable[..., None], host_place: Path
) -> None:
    set_faults(kernel_command_line="BOOT_IMAGE=/boot/vmlinuz root=/dev/md0 ro quiet hugepages=16")
    # Red Hat's grub.cfg has no kernels in it.
    (host_place / "root/boot/grub/grub.cfg").unlink(missing_ok=True)
    before = trace(host_place)
    for check in (True, False):
        done = boot(module, host_place, check, "iommu=pt", "hugepages=16", "nosmt", boot_loader="grubby")
        command = 'grubby --update-kernel=ALL --args="iommu=pt nosmt"'
        assert done["failed"] and f"without iommu=pt nosmt: run {command}" in done["msg"], done
    done = boot(module, host_place, False, "hugepages=16", boot_loader="grubby")
    assert (done["changed"], done["steps"], done["pending"]) == (False, [], []), done
    assert trace(host_place) == before


def test_driver_that_is_not_loaded_yet_waits_for_a_reboot(
    module: Module, set_faults: Callable[..., None], host_place: Path
) -> None:
    def run(**over: Any) -> dict[str, Any]:
        return boot(module, host_place, False, "iommu=pt", **over)

    assert run()["pending"] == []
    set_faults(doca_not_loaded=True)
    booted(host_place, "first boot")
    done = run(allow_reboot=True)
    modules = "ib_core, ib_uverbs, mlx5_core, mlx5_ib, rdma_cm"
    assert done["reboot"], done
    assert done["pending"] == [f"{modules}: 25.07-0.9.7 is installed, the kernel's own is loaded"]
    # Another boot with the old driver is no reason for a third one.
    booted(host_place, "second boot")
    done = run(allow_reboot=True)
    assert done["failed"] and "renew its initramfs" in done["msg"] and done["uncleared"] == done["pending"], done
    set_faults(doca_not_loaded=True, tool_faults={"modinfo": "missing"})
    assert run()["failed"] and "modinfo" in run()["msg"]


def test_what_a_reboot_did_not_bring_is_an_error_and_no_reason_for_another_one(
    module: Module, set_faults: Callable[..., None], host_place: Path
) -> None:
    set_faults(kernel_command_line="BOOT_IMAGE=/boot/vmlinuz root=/dev/md0 ro iommu=pt")
    record = host_place / "root/var/lib/muster/reboot.json"

    def run(*pending: str, allow_reboot: bool = True, check: bool = False) -> dict[str, Any]:
        return boot(module, host_place, check, "iommu=pt", pending=list(pending), allow_reboot=allow_reboot)

    nic, other = (f"rail {rail}: X is 0, 1 from the next boot on" for rail in (0, 1))
    assert not run(nic, allow_reboot=False)["reboot"] and not record.exists()
    assert run(nic)["failed"] and "boot_id" in run(nic)["msg"]
    booted(host_place, "first boot")
    assert run(nic, check=True)["reboot"] and not record.exists()
    first = run(nic)
    assert (first["reboot"], first["changed"], first["rebooted"]) == (True, True, False), first
    # It never came, as jobs went on, say: it is still due.
    assert run(nic)["reboot"] and run(nic)["rebooted"]
    booted(host_place, "second boot")
    done = run(nic)
    assert done["failed"] and "switch the node off and on" in done["msg"] and nic in done["msg"], done
    assert (done["reboot"], done["uncleared"]) == (False, [nic])
    assert not run(nic, allow_reboot=False).get("failed")
    # Something new is due a reboot of its own, and only one.
    assert run(nic, other)["reboot"]
    booted(host_place, "third boot")
    assert run(nic, other)["failed"] and run(nic)["uncleared"] == [nic]
    # What was cleared in the meantime and waits again is new.
    assert run(nic, other)["reboot"]
    booted(host_place, "after it was off and on")
    done = run()
    assert (done["changed"], done["pending"], done["rebooted"]) == (False, [], True) and not record.exists()
    assert not run()["rebooted"]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"boot_id": "x"}', '{"boot_id": "x", "pending": null}'])
def test_record_of_a_reboot_that_cannot_be_read_is_an_error(
    module: Module, set_faults: Callable[..., None], host_place: Path, text: str
) -> None:
    set_faults()
    record = host_place / "root/var/lib/muster/reboot.json"
    record.parent.mkdir(parents=True)
    record.write_text(text)
    done = boot(module, host_place, pending=["nic"], allow_reboot=True)
    assert done["failed"] and "reboot.json" in done["msg"] and not done["reboot"], done


def test_parameter_that_grub_does_not_take_up_is_an_error(
    module: Module, set_faults: Callable[..., None], host_place: Path
) -> None:
    set_faults(kernel_command_line="BOOT_IMAGE=/boot/vmlinuz root=/dev/md0 ro")
    later = host_place / "root/etc/default/grub.d/99-site.cfg"
    later.parent.mkdir(parents=True)
    later.write_text('GRUB_CMDLINE_LINUX="quiet"\n')
    done = boot(module, host_place)
    assert done["failed"] and "grub.cfg lacks iommu=pt" in done["msg"], done


@pytest.mark.parametrize("word", ["a b", 'a"b', "a;b", "$(id)", ""])
def test_parameter_that_a_shell_would_read_is_refused(module: Module, host_place: Path, word: str) -> None:
    before = trace(host_place)
    done = boot(module, host_place, False, "iommu=pt", word)
    assert done["failed"] and "expected a parameter" in done["msg"]
    assert trace(host_place) == before


def test_host_that_is_not_started_by_grub_is_an_error(module: Module, host_place: Path) -> None:
    (host_place / "root/boot/grub/grub.cfg").unlink()
    done = boot(module, host_place)
    assert done["failed"] and "/boot/grub/grub.cfg" in done["msg"]


def test_simulated_firmware_tools_print_the_layout_of_recorded_ones(
    tool: Callable[..., subprocess.CompletedProcess[bytes]], recorded: Path
) -> None:
    real = (recorded / "mlxconfig" / "mstconfig-e-query-cx4lx-template.txt").read_text().splitlines()
    ours = tool("mstconfig", "-d", FIRST, "-e", "query").stdout.decode().splitlines()[1:]
    theirs, own = (next(line for line in lines if line.startswith("Configurations:")) for lines in (real, ours))
    assert own.split() == theirs.split()
    assert [line.split(":")[0] for line in ours[:7]] == [line.split(":")[0] for line in real[:7]]
    row = {line.split()[0]: line for line in real if line.startswith("   ")}["ROCE_CC_PRIO_MASK_P1"]
    (mine,) = [line for line in ours if "ROCE_CC_PRIO_MASK_P1" in line]
    assert mine.rstrip() == row.rstrip()
    assert ours[-3] == real[-1]
    flint = (recorded / "mlxconfig" / "flint-query-cx7.txt").read_text().splitlines()
    shown = tool("mstflint", "-d", FIRST, "query").stdout.decode().splitlines()
    assert [line.split(":")[0] for line in shown] == [line.split(":")[0] for line in flint]

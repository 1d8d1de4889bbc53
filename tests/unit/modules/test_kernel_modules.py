"""Module kernel_modules, run as Ansible runs it: it loads, fails, or waits for a pending reboot."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule

from tests.run_module import run_module

NAMES = ["rdma_ucm", "ib_umad", "nvidia_peermem"]
MODINFO = "filename: /lib/modules/ib_core.ko\n{}name: ib_core\nvermagic: 6.1.0\n"
Run = Callable[..., dict[str, Any]]


def show(root: Path, path: str, text: str = "") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a host on which rdma_ucm is loaded, and whose modprobe refuses what is named in ``refused``."""
    for name in ("ib_core", "rdma_ucm"):
        show(tmp_path, f"sys/module/{name}/refcnt", "1\n")
    show(tmp_path, "installed", MODINFO.format(""))
    show(tmp_path, "refused")
    modprobe = (
        f'cd {tmp_path}\necho "$1" >>tried\nif grep -qx "$1" refused; then\n'
        "  echo \"modprobe: ERROR: could not insert '$1': Invalid argument\" >&2\n  exit 1\nfi\n"
        'mkdir "sys/module/$1"\n'
    )
    modinfo = f'[ "$1" = ib_core ] && cat {tmp_path}/installed\n'
    for name, script in {"modprobe": modprobe, "modinfo": modinfo}.items():
        show(tmp_path, f"bin/{name}", f"#!/bin/sh\n{script}")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


@pytest.fixture
def run(root: Path) -> Run:
    return partial(run_module, "kernel_modules", names=NAMES, root=str(root), tool_path=f"{root}/bin:/usr/bin:/bin")


def test_modules_are_loaded_then_left_alone(root: Path, run: Run) -> None:
    first = run()
    assert first["changed"] and first["loaded"] == ["ib_umad", "nvidia_peermem"], first
    again = run()
    assert (again["changed"], again["loaded"], again["pending"]) == (False, [], [])
    assert (root / "tried").read_text().split() == ["ib_umad", "nvidia_peermem"]


def test_check_mode_tells_and_loads_nothing(root: Path, run: Run) -> None:
    show(root, "refused", "ib_umad\n")
    told = run(check=True)
    assert told["changed"] and told["loaded"] == ["ib_umad", "nvidia_peermem"] and "failed" not in told
    assert not (root / "tried").exists()


def test_module_that_cannot_be_loaded_fails_at_every_run(root: Path, run: Run) -> None:
    show(root, "refused", "ib_umad\n")
    first = run()
    assert first["failed"] and first["msg"].startswith("ib_umad cannot be loaded: modprobe: ERROR: "), first
    # The others are loaded all the same.
    assert first["changed"] and first["loaded"] == ["nvidia_peermem"]
    second = run()
    assert second["failed"] and not second["changed"] and second["msg"] == first["msg"]


def test_while_a_reboot_is_pending_it_is_a_warning(root: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that role boot, which comes next, can ask for the reboot."""
    warnings: list[str] = []
    # Ansible's own list is one for all modules of a process, and may have been handed out already.
    monkeypatch.setattr(AnsibleModule, "warn", lambda module, text: warnings.append(text))
    show(root, "refused", "nvidia_peermem\n")
    show(root, "installed", MODINFO.format("version: 25.07-0.9.7\n"))
    told = run()
    assert "failed" not in told and told["loaded"] == ["ib_umad"], told
    (pending,) = told["pending"]
    assert pending.startswith("nvidia_peermem cannot be loaded: ")
    told_first = "reboot pending for RDMA modules: ib_core: 25.07-0.9.7 is installed, the kernel's own is loaded. "
    assert warnings == [f"{told_first}Until then {pending}"]
    # After the reboot there is nothing left to wait for.
    show(root, "sys/module/ib_core/version", "25.07-0.9.7\n")
    assert run()["failed"]


def test_builds_that_cannot_be_read_are_no_pending_reboot(root: Path, run: Run) -> None:
    show(root, "refused", "nvidia_peermem\n")
    show(root, "installed", "modinfo: garbled\n")
    told = run()
    assert told["failed"] and "nvidia_peermem cannot be loaded" in told["msg"] and "modinfo ib_core: " in told["msg"]


def test_nothing_is_asked_where_nothing_is_named(root: Path, run: Run) -> None:
    done = run(names=[])
    assert not done["changed"] and "failed" not in done and not (root / "tried").exists()

"""A Python environment holds exactly the wheels of its lock, whatever happened to it before; pip itself is real."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.run_module import run_module
from tests.stand_in_wheels import lock_of, write_wheel

PYTHON = sys.executable
Environment = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels of torch 1.0 and 2.0 and of numpy, each also as a simple index has it."""
    place = tmp_path_factory.mktemp("mirror")
    for name, version, needs in (("numpy", "2.1", []), ("torch", "1.0", ["numpy"]), ("torch", "2.0", ["numpy"])):
        wheel = write_wheel(place / "wheels", name, version, needs)
        (place / "simple" / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel, place / "simple" / name)
        with (place / "simple" / name / "index.html").open("a", encoding="utf-8") as page:
            page.write(f'<!DOCTYPE html><a href="{wheel.name}">{wheel.name}</a>\n')
    return place


@pytest.fixture(scope="module")
def made_once(mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of an environment of torch 1.0, which takes seconds to make."""
    place = tmp_path_factory.mktemp("opt")
    result = run_module("python_environment", **arguments(place, mirror))
    assert result["changed"], result
    return place


@pytest.fixture
def opt(made_once: Path) -> Iterator[Path]:
    """The same environment at the same path, whatever the last test did to it."""
    kept = made_once.with_name("kept")
    if not kept.exists():
        shutil.copytree(made_once, kept, symlinks=True)
    yield made_once
    shutil.rmtree(made_once)
    shutil.copytree(kept, made_once, symlinks=True)


def lock(mirror: Path, torch: str = "1.0") -> str:
    """Return a lock of torch and numpy."""
    wheels = {"numpy==2.1": "numpy-2.1", f"torch=={torch}": f"torch-{torch}"}
    return lock_of({pin: mirror / f"wheels/{stem}-py3-none-any.whl" for pin, stem in wheels.items()})


def arguments(place: Path, mirror: Path, torch: str = "1.0", **more: Any) -> dict[str, Any]:
    """Return the module's arguments for an environment in a directory."""
    given = {"path": str(place / "pytorch"), "requirements": lock(mirror, torch), "python": PYTHON, **more}
    return given if "index" in given else {"find_links": f"file://{mirror}/wheels", **given}


def says(place: Path) -> str:
    """Return which torch the environment in use imports."""
    argv = [place / "pytorch/bin/python3", "-I", "-c", "import numpy, torch; print(torch.__version__)"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def trace(place: Path) -> list[tuple[str, int, int]]:
    """Return every path with its size and time."""
    return sorted((str(each), each.lstat().st_size, each.lstat().st_mtime_ns) for each in place.rglob("*"))


def test_environment_has_what_the_lock_pins_and_a_second_run_changes_nothing(opt: Path, mirror: Path) -> None:
    assert says(opt) == "1.0"
    before = trace(opt)
    again = run_module("python_environment", **arguments(opt, mirror))
    assert (again["changed"], again["steps"]) == (False, [])
    # Neither the comments of a lock nor where the wheels come from make another one.
    text = f"# another\n{lock(mirror)}"
    other = run_module("python_environment", **arguments(opt, mirror, requirements=text, index="https://other.invalid"))
    assert not other["changed"], other
    assert trace(opt) == before


def test_everybody_may_run_from_it(opt: Path) -> None:
    closed = [each for each in opt.rglob("*") if not each.is_symlink() and each.stat().st_mode & 0o005 == 0]
    assert closed == []


def test_scripts_run_from_the_environment_itself(opt: Path) -> None:
    first = (opt / "pytorch/bin/torchrun").read_text(encoding="utf-8").splitlines()[0]
    assert first == f"#!{(opt / 'pytorch').resolve()}/bin/python3"


def test_another_lock_makes_another_environment_and_the_last_one_stays(opt: Path, mirror: Path) -> None:
    first = (opt / "pytorch").resolve()
    stranger, lab = opt / "pytorch-0123456789ab", opt / "pytorch-lab"
    for each in (stranger, lab):
        each.mkdir()
    older = shutil.copytree(first, opt / "pytorch-ba9876543210", symlinks=True)
    seen = run_module("python_environment", check=True, **arguments(opt, mirror, "2.0"))
    assert seen["diff"]["before"] == "numpy==2.1\ntorch==1.0\n" and seen["diff"]["after"] == "numpy==2.1\ntorch==2.0\n"
    result = run_module("python_environment", **arguments(opt, mirror, "2.0", index=f"file://{mirror}/simple"))
    assert result["steps"] == seen["steps"] and len(result["steps"]) == 3, result
    assert says(opt) == "2.0"
    assert first.is_dir() and stranger.is_dir() and lab.is_dir() and not older.exists()
    # The way back downloads nothing.
    back = run_module("python_environment", **arguments(opt, mirror, find_links="file:///nonexistent"))
    assert back["steps"] == [f"{opt}/pytorch leads to {first.name}"] and says(opt) == "1.0"


def harmed(opt: Path, mirror: Path, harm: str) -> None:
    """Do to the environment in use what a command says."""
    env = (opt / "pytorch").resolve()
    (site,) = env.glob("lib/python3*/site-packages")
    command = harm.format(env=env, site=site, wheels=mirror / "wheels")
    subprocess.run(["sh", "-c", command], check=True, env={**os.environ, "PIP_CONFIG_FILE": os.devnull})


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        ("truncate -s 3 {site}/torch/version.py", "torch/version.py of torch-1.0.dist-info has 3 bytes"),
        ("rm {site}/numpy/__init__.py", "numpy/__init__.py of numpy-2.1.dist-info has gone"),
        ("rm -r {site}/numpy {site}/numpy-2.1.dist-info", "numpy-2.1.dist-info/RECORD has gone"),
        ("echo >>{site}/numpy-2.1.dist-info/RECORD", "numpy-2.1.dist-info/RECORD was changed"),
        ("touch {site}/sitecustomize.py", "sitecustomize.py is among its packages, and in no record of pip"),
        ("sed -i s/false/true/ {env}/pyvenv.cfg", "pyvenv.cfg was changed"),
        ("rm {env}/bin/python3", "bin/python3 leads to no program"),
        ("rm {env}/muster-environment.json", "it was not finished"),
        ("truncate -s 40 {env}/muster-environment.json", "it was not finished"),
        ("rm -r {env}", "it is not there"),
    ],
)
def test_what_happened_to_an_environment_is_seen(opt: Path, mirror: Path, harm: str, why: str) -> None:
    harmed(opt, mirror, harm)
    seen = run_module("python_environment", check=True, **arguments(opt, mirror))
    assert seen["changed"] and why in seen["steps"][0], seen


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        ("rm -r {site}/numpy {env}/muster-environment.json", "it was not finished"),
        ("{env}/bin/python3 -m pip install -q --no-deps {wheels}/torch-2.0-py3-none-any.whl", "dist-info/RECORD"),
    ],
)
def test_what_happened_to_an_environment_is_undone(opt: Path, mirror: Path, harm: str, why: str) -> None:
    harmed(opt, mirror, harm)
    result = run_module("python_environment", **arguments(opt, mirror))
    assert why in result["steps"][0] and says(opt) == "1.0", result
    assert not run_module("python_environment", **arguments(opt, mirror))["changed"]


def pips(opt: Path) -> list[int]:
    """Return the processes of pip that install to a directory."""
    lines = {}
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        # Any process of the machine may end while they are read.
        with suppress(OSError):
            lines[each.parent.name] = each.read_bytes()
    return [int(pid) for pid, line in lines.items() if f"{opt}/pytorch-".encode() in line and b"\0pip\0" in line]


def test_run_that_is_killed_ends_its_pip_and_is_made_up_for(opt: Path, mirror: Path) -> None:
    def wait_for(count: int) -> None:
        deadline = time.monotonic() + 30
        while len(pips(opt)) != count:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        given = arguments(opt, mirror, "2.0", index=f"http://127.0.0.1:{silent.getsockname()[1]}/simple")
        program = f"from tests.run_module import run_module; run_module('python_environment', **{given!r})"
        with subprocess.Popen([sys.executable, "-c", program]) as process:
            wait_for(1)
            # Who comes meanwhile waits for no end that it does not know.
            result = run_module("python_environment", **arguments(opt, mirror, "2.0"))
            assert result["failed"] and f"{opt}: another run makes an environment there" in result["msg"], result
            process.kill()
        wait_for(0)
    assert says(opt) == "1.0"
    result = run_module("python_environment", **arguments(opt, mirror, "2.0"))
    assert result["steps"][0].endswith(": it was not finished") and says(opt) == "2.0", result
    assert not list(opt.glob("*/tmp"))


def test_refused_wheels_leave_the_environment_in_use(opt: Path, mirror: Path, tmp_path: Path) -> None:
    first = (opt / "pytorch").resolve()
    before = trace(opt)
    write_wheel(tmp_path, "torch", "2.0", ["numpy"], more="# tampered with\n")
    shutil.copy(mirror / "wheels/numpy-2.1-py3-none-any.whl", tmp_path)
    for source, said in ((tmp_path, "DO NOT MATCH THE HASHES"), (tmp_path / "none", "No matching distribution found")):
        result = run_module("python_environment", **arguments(opt, mirror, "2.0", find_links=f"file://{source}"))
        assert result["failed"] and result["msg"].startswith("pip: ") and said in result["msg"], result
    # The place's own time changes, as something was made there and removed.
    assert trace(opt) == before and (opt / "pytorch").resolve() == first and says(opt) == "1.0"


def test_lock_that_leaves_out_what_its_wheels_need_is_refused(opt: Path, mirror: Path) -> None:
    text = lock_of({"torch==2.0": mirror / "wheels/torch-2.0-py3-none-any.whl"})
    result = run_module("python_environment", **arguments(opt, mirror, requirements=text))
    assert result["failed"] and "numpy" in result["msg"], result
    assert says(opt) == "1.0"


def test_mirror_that_does_not_answer_is_named(opt: Path, mirror: Path) -> None:
    result = run_module("python_environment", **arguments(opt, mirror, "2.0", index="http://127.0.0.1:9/simple"))
    assert result["failed"] and "Connection refused" in result["msg"] and len(result["msg"]) < 800, result


def test_configuration_of_pip_is_not_asked(
    opt: Path, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = f"file://{mirror}/wheels"
    for path in (".config/pip/pip.conf", ".pip/pip.conf", "given.conf"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"[global]\nfind-links = {elsewhere}\nextra-index-url = {elsewhere}\n")
    for name, value in {
        "HOME": str(tmp_path),
        "PIP_CONFIG_FILE": str(tmp_path / "given.conf"),
        "PIP_FIND_LINKS": elsewhere,
    }.items():
        monkeypatch.setenv(name, value)
    # There are no wheels in the one place that is declared.
    (tmp_path / "empty").mkdir()
    result = run_module("python_environment", **arguments(opt, mirror, "2.0", find_links=f"file://{tmp_path}/empty"))
    assert result["failed"] and "from versions: none" in result["msg"], result


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"requirements": "torch==1.0\n"}, "requirements: line 1: found 'torch==1.0', expected NAME==VERSION"),
        ({"requirements": "\n# x\n-r other.txt\n"}, "requirements: line 3: found '-r other.txt'"),
        ({"find_links": "ftp://mirror/wheels"}, "find_links: found 'ftp://mirror/wheels'"),
        ({"index": "https://me:secret@mirror/simple"}, "index: found a user in the address"),
        ({"python": "/usr/bin/false"}, "python: /usr/bin/false: exit status 1"),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_wrong_declaration_is_refused_before_anything_is_made(
    mirror: Path, tmp_path: Path, given: dict[str, str], said: str, check: bool
) -> None:
    result = run_module("python_environment", check=check, **arguments(tmp_path / "opt", mirror, **given))
    assert result["failed"] and said in result["msg"] and "secret" not in result["msg"], result
    assert not list(tmp_path.rglob("pytorch*"))


def test_check_mode_foresees_it_and_leaves_no_trace(mirror: Path, tmp_path: Path) -> None:
    for python in (PYTHON, str(tmp_path / "not-installed-yet")):
        result = run_module("python_environment", check=True, **arguments(tmp_path / "opt", mirror, python=python))
        assert result["changed"] and result["diff"]["after"] == "numpy==2.1\ntorch==1.0\n", result
    assert list(tmp_path.iterdir()) == []


def test_directory_in_the_place_of_the_link_is_nobodys_to_move(mirror: Path, tmp_path: Path) -> None:
    (tmp_path / "pytorch/bin").mkdir(parents=True)
    result = run_module("python_environment", **arguments(tmp_path, mirror))
    assert result["failed"] and f"{tmp_path}/pytorch: found no link" in result["msg"], result

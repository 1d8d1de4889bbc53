"""Names such as ``muster.cluster.site`` work from a checkout, from the wheel and from the installed collection."""

import json
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.plugin_utils.control.zipapp import version_of

ROOT = Path(__file__).parents[2]
SHIPPED = ("plugins", "roles", "playbooks", "meta")
INSIDE = Path("ansible_collections", "muster", "cluster")


def run(argv: list[str], cwd: Path = ROOT, **environment: str) -> str:
    """Return what a command printed; fails with all of it unless the command succeeds."""
    # Neither what the caller has installed nor how it is configured may make a name resolve.
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "PYTHONPATH"))}
    environment = {**clean, "ANSIBLE_HOME": str(ROOT / "build" / "ansible"), **environment}
    done = subprocess.run(argv, cwd=cwd, env=environment, text=True, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, f"{' '.join(argv)}\n{done.stdout}{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Installed:
    """One way of having the collection: the Python that sees it, and where a user of it would work."""

    python: Path
    directory: Path
    collection: Path
    config: Path

    def ansible(self, tool: str, *arguments: str) -> str:
        """Return what an Ansible command printed; ``tool`` is its module, such as ``playbook``."""
        argv = [str(self.python), "-m", f"ansible.cli.{tool}", *arguments]
        return run(argv, cwd=self.directory, ANSIBLE_CONFIG=str(self.config), NO_COLOR="1")


def shipped_files() -> set[str]:
    listed = run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *SHIPPED])
    return {name for name in listed.splitlines() if (ROOT / name).exists()}


def site(directory: Path, collections: str) -> Path:
    """Return the ansible.cfg of a site that has the lab's fleet file and nothing else of this repository."""
    directory.mkdir()
    (directory / "lab.fleet.yml").write_text((ROOT / "inventory/lab/lab.fleet.yml").read_text())
    config = directory / "ansible.cfg"
    config.write_text(f"[defaults]\ncollections_path = {collections}\n")
    return config


def from_checkout(tmp: Path) -> Installed:
    return Installed(Path(sys.executable), ROOT, ROOT, ROOT / "ansible.cfg")


def other_environment(tmp: Path) -> Path:
    """Return the Python of an environment that has what Muster depends on, and no Muster.

    It has the packages of the environment that runs this test, so that no network is needed; what that one refers to
    in turn, the checkout among it, does not follow.
    """
    venv.create(tmp / "venv", symlinks=True)
    python = tmp / "venv" / "bin" / "python"
    (packages_of(python) / "dependencies.pth").write_text(f"{packages_of(Path(sys.executable))}\n")
    return python


def packages_of(python: Path) -> Path:
    return Path(run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip())


def from_wheel(tmp: Path) -> Installed:
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp / "dist"), str(ROOT)])
    (wheel,) = (tmp / "dist").glob("*.whl")
    python = other_environment(tmp)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)])
    config = site(tmp / "site", str(tmp / "none"))
    return Installed(python, tmp / "site", packages_of(python) / INSIDE, config)


def from_tarball(tmp: Path) -> Installed:
    python = other_environment(tmp)
    galaxy = [str(python), "-m", "ansible.cli.galaxy", "collection"]
    config = site(tmp / "site", str(tmp / "collections"))
    run([*galaxy, "build", "--output-path", str(tmp / "dist")], ANSIBLE_CONFIG=str(config))
    (tarball,) = (tmp / "dist").glob("muster-cluster-*.tar.gz")
    install = ["install", "--offline", "-p", str(tmp / "collections"), str(tarball)]
    run([*galaxy, *install], ANSIBLE_CONFIG=str(config))
    return Installed(python, tmp / "site", tmp / "collections" / INSIDE, config)


WAYS = {"checkout": from_checkout, "wheel": from_wheel, "tarball": from_tarball}


@pytest.fixture(scope="module", params=WAYS)
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    yield WAYS[request.param](tmp_path_factory.mktemp(request.param))


def fleet_of(installed: Installed) -> str:
    return "inventory/lab" if installed.directory == ROOT else "lab.fleet.yml"


def test_everything_is_shipped(installed: Installed) -> None:
    missing = {name for name in shipped_files() if not (installed.collection / name).is_file()}
    assert not missing


def test_nothing_else_is_shipped(installed: Installed) -> None:
    if installed.directory == ROOT:
        pytest.skip("a checkout holds what it holds")
    names = {path.name for path in installed.collection.iterdir()}
    meant = {*SHIPPED, "docs", "changelogs", "README.md", "LICENSE", "CHANGELOG.md", "galaxy.yml"}
    assert names <= meant | {"MANIFEST.json", "FILES.json"}
    assert not list(installed.collection.rglob("*.log"))


def test_inventory_plugin_reads_a_fleet_file(installed: Installed) -> None:
    graph = installed.ansible("inventory", "-i", fleet_of(installed), "--graph", "class_lab_h100")
    assert [line.strip(" |-") for line in graph.splitlines()[1:]] == ["gpu-01", "gpu-02", "gpu-03", "gpu-04"]


def test_module_and_lookup_run_by_name(installed: Installed) -> None:
    arguments = json.dumps({"fleet": "{{ muster_fleet }}"})
    name = "muster.cluster.fleet_check"
    printed = installed.ansible("adhoc", "controller", "-i", fleet_of(installed), "-m", name, "-a", arguments)
    assert "hosts" in printed
    assert "SUCCESS" in printed


def test_every_module_is_documented_by_name(installed: Installed) -> None:
    names = [f"muster.cluster.{path.stem}" for path in sorted((ROOT / "plugins" / "modules").glob("*.py"))]
    documented = json.loads(installed.ansible("doc", "--json", "-t", "module", *names))
    assert sorted(documented) == names
    assert all(entry["doc"]["short_description"] for entry in documented.values())


@pytest.mark.parametrize("playbook", sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml")))
def test_playbook_is_found_by_name(installed: Installed, playbook: str) -> None:
    arguments = ("-i", fleet_of(installed), f"muster.cluster.{playbook}", "--syntax-check")
    assert f"{playbook}.yml" in installed.ansible("playbook", *arguments)


@pytest.mark.parametrize("source", ["wheel", "checkout"])
def test_command_for_people_is_installed(source: str, tmp_path: Path) -> None:
    if source == "wheel":
        python = from_wheel(tmp_path).python
    else:
        python = other_environment(tmp_path)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
        run([*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--editable", str(ROOT)])
    printed = run([str(python.with_name("muster")), "version"], cwd=tmp_path)
    assert printed.split()[:2] == ["muster", version_of(ROOT)]


def test_wheel_says_what_it_needs(tmp_path: Path) -> None:
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)])
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    for needed in ("ansible-core", "sqlalchemy", "pyyaml", "rich"):
        assert f"Requires-Dist: {needed}" in metadata

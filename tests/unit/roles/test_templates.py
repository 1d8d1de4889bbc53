"""What the roles write, rendered by Ansible itself."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.muster.cluster.plugins.module_utils.host.file_set import Block
from ansible_collections.muster.cluster.plugins.module_utils.host.systems import description
from ansible_collections.muster.cluster.plugins.module_utils.in_service.leftover_processes import JOB_RULE
from ansible_collections.muster.cluster.plugins.module_utils.nccl.nccl_conf import Settings

from tests import warm_ansible
from tests.identified import IDENTIFIED

ROOT = Path(__file__).parents[3]


@pytest.fixture
def render(tmp_path):
    def call(role: str, template: str, variables: dict) -> str:
        tasks = [
            {"ansible.builtin.include_vars": str(ROOT / "roles" / role / f"{part}/main.yml")}
            for part in ("defaults", "vars")
            if (ROOT / "roles" / role / part).exists()
        ]
        given = {"ansible.builtin.include_vars": str(tmp_path / "given.json")}
        written = {"src": str(ROOT / "roles" / role / "templates" / template), "dest": str(tmp_path / "out")}
        play = {
            "hosts": "localhost",
            "gather_facts": False,
            "tasks": [*tasks, given, {"ansible.builtin.template": written}],
        }
        (tmp_path / "given.json").write_text(json.dumps(variables))
        (tmp_path / "play.json").write_text(json.dumps([play]))
        playbook = Path(sys.executable).with_name("ansible-playbook")
        python = f"ansible_python_interpreter={sys.executable}"
        done = warm_ansible.run(
            [playbook, "-i", "localhost,", "-c", "local", "-e", python, tmp_path / "play.json"],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return (tmp_path / "out").read_text()

    return call


def test_slurmctld_waits_for_the_mount_of_its_state(render):
    state = {"slurm_state_directory": "/shared/slurm", "slurm_controllers": [{}, {}]}
    lines = render("slurm", "slurmctld.conf.j2", state).splitlines()
    assert "RequiresMountsFor=/shared/slurm" in lines
    guard = "/usr/libexec/muster/slurmctld-state /shared/slurm /var/lib/muster/slurm/bootstrap"
    assert f"ExecStartPre=+{guard}" in lines


def test_slurmd_asks_both_controllers(render):
    hosts = {"slurm_controllers": [{"address": "10.0.0.1"}, {"address": "10.0.0.2"}]}
    assert "Environment=SLURMD_CONF_SERVER=10.0.0.1,10.0.0.2" in render("slurm", "slurmd.conf.j2", hosts).splitlines()


@pytest.mark.parametrize(("release", "kind", "way"), [("23.02", "simple", "-D -s"), ("23.11", "notify", "--systemd")])
def test_slurmd_tells_systemd_that_it_runs_from_23_11_on(render, release, kind, way):
    given = {"slurm_controllers": [{"address": "10.0.0.1"}], "slurm_version": release}
    lines = render("slurm", "slurmd.conf.j2", given).splitlines()
    assert f"Type={kind}" in lines
    assert f"ExecStart=/usr/sbin/slurmd {way} --conf-server ${{SLURMD_CONF_SERVER}} $SLURMD_OPTIONS" in lines


def test_nccl_is_written_again_at_boot_and_when_a_device_comes_or_is_renamed(render, tmp_path):
    variables = [{"name": "NCCL_IB_HCA", "value": "=rail0,rail1", "reason": "exactly the rails"}]
    rails = [{"rail": rail, "address": f"0000:{bus}:00.0"} for rail, bus in enumerate(("1a", "3c"))]
    wanted = tmp_path / "files.j2"
    wanted.write_text("{{ __nccl_boot | to_json }}\n")
    (tmp_path / "templates").symlink_to(ROOT / "roles/nccl/templates")
    given = {"nccl_variables": variables, "nccl_rails": rails, "nccl_root": "/opt/lab/root"}
    found = {each["path"]: each["content"] for each in json.loads(render("nccl", str(wanted), given))}
    settings = Settings.from_json(found["/etc/muster/nccl.json"])
    assert settings == Settings.from_dict({"variables": variables, "rails": rails})
    unit = found["/etc/systemd/system/muster-nccl.service"].splitlines()
    assert "ExecStart=/usr/libexec/muster/muster nccl apply --wait 120 --root /opt/lab/root" in unit
    wants = found["/etc/systemd/system/multi-user.target.d/50-muster-nccl.conf"].splitlines()
    assert wants[-2:] == ["[Unit]", "Wants=muster-nccl.service"]
    assert found["/etc/udev/rules.d/90-muster-nccl.rules"].splitlines()[-1:] == [
        'ACTION=="add|move", SUBSYSTEM=="infiniband", TAG+="systemd", ENV{SYSTEMD_WANTS}+="muster-nccl.service"'
    ]
    assert all(text.endswith("\n") for text in found.values())


@pytest.fixture
def governor_parts(render, tmp_path):
    """Return a function that gives what role host_base has its task write, remove and run."""

    def call(**variables):
        wanted = tmp_path / "parts.j2"
        names = ("governor_files", "governor_absent", "units", "chrony_files", "files")
        wanted.write_text(f"{{{{ [{', '.join(f'__host_base_{name}' for name in names)}] | to_json }}}}\n")
        if not (tmp_path / "templates").exists():
            (tmp_path / "templates").symlink_to(ROOT / "roles/host_base/templates")
        return json.loads(render("host_base", str(wanted), {**IDENTIFIED, "__host_base_install": {}, **variables}))

    return call


GOVERNOR_UNIT = "/etc/systemd/system/muster-governor.service"
SYSCTL_UNIT = {"name": "systemd-sysctl.service", "files": ["/etc/sysctl.d/90-muster.conf"]}


def test_hosts_limits_and_kernel_parameters_are_what_is_declared(governor_parts):
    given = {
        "host_base_hosts": {"gpu-01": "10.0.0.11", "ctl": "10.0.0.1"},
        "host_base_sysctl": {"net.core.somaxconn": 7},
    }
    names, limits, sysctl, sources = governor_parts(**given)[4]
    assert (names["path"], names["content"]) == ("/etc/hosts", "10.0.0.1 ctl\n10.0.0.11 gpu-01\n")
    assert "* - memlock unlimited" in limits["content"].splitlines()
    assert sysctl["content"].splitlines()[-1] == "net.core.somaxconn = 7"
    assert sources["path"] == "/etc/chrony/sources.d/muster.sources"
    text = Block(**names["block"]).put("127.0.0.1 localhost\n", names["content"], names["path"])
    # As Ansible's own module for blocks wrote it before: its block is found again.
    begin, end = "# BEGIN hosts of the cluster (Muster)", "# END hosts of the cluster (Muster)"
    assert text.splitlines() == ["127.0.0.1 localhost", begin, "10.0.0.1 ctl", "10.0.0.11 gpu-01", end]


def test_governor_is_set_by_a_unit_that_runs_now_and_at_every_boot(governor_parts):
    ((unit,), absent, units, chrony, _) = governor_parts(host_base_governor="performance")
    assert unit["path"] == GOVERNOR_UNIT and absent == []
    assert chrony == []
    assert units == [
        SYSCTL_UNIT,
        {"name": "chrony", "files": []},
        {"name": "muster-governor.service", "files": [GOVERNOR_UNIT]},
    ]
    lines = unit["content"].splitlines()
    assert {"Type=oneshot", "RemainAfterExit=yes", "Before=slurmd.service", "WantedBy=multi-user.target"} <= {*lines}
    assert " /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor;" in unit["content"]


def test_without_a_governor_the_unit_of_an_earlier_one_goes(governor_parts):
    files, absent, units, chrony, _ = governor_parts(host_base_time_service="")
    assert (files, units, chrony) == ([], [SYSCTL_UNIT], [])
    assert absent == [GOVERNOR_UNIT, "/etc/systemd/system/multi-user.target.wants/muster-governor.service"]


@pytest.mark.parametrize("servers", [[], ["10.0.0.1", "ntp.site"]])
def test_time_servers_are_a_block_of_chrony_conf_where_it_reads_no_directory(governor_parts, servers):
    rocky = description({"id": "rocky", "release": "9.4", "name": "Rocky Linux"})
    given = {"muster_system": {"system": rocky}, "host_base_time_servers": servers}
    _, _, (_, unit), (file,), _ = governor_parts(**given)
    assert unit == {"name": "chrony", "files": ["/etc/chrony.conf"]}
    wanted = [f"server {server} iburst prefer" for server in servers]
    assert (file["path"], file["content"].splitlines()) == ("/etc/chrony.conf", wanted)
    # Where the block stands in the file that chrony's package of release 9 has.
    shipped = "pool 2.rocky.pool.ntp.org iburst\nsourcedir /run/chrony-dhcp\ndriftfile /var/lib/chrony/drift\nrtcsync\n"
    begin, end = "# BEGIN time servers (Muster)", "# END time servers (Muster)"
    lines = Block(**file["block"]).put(shipped, file["content"], file["path"]).splitlines()
    assert lines[3:-1] == ([begin, *wanted, end] if servers else [])
    assert governor_parts(**given, host_base_time_service="")[3] == []
    assert governor_parts(**given, host_base_time_service="chronyd")[3] == [file]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_the_unit_of_the_governor(governor_parts, tmp_path):
    ((unit,), *_) = governor_parts(host_base_governor="performance")
    place = tmp_path / "muster-governor.service"
    place.write_text(unit["content"])
    command = ["systemd-analyze", "verify", "--man=no", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_governor_is_written_for_every_cpu_and_a_refused_one_is_an_error(governor_parts, tmp_path):
    root = tmp_path / "root"
    ((unit,), *_) = governor_parts(host_base_governor="performance", host_base_root=str(root))
    (command,) = (line[10:] for line in unit["content"].splitlines() if line.startswith("ExecStart="))
    argv = [word.replace("$$", "$") for word in shlex.split(command)]

    def run():
        return subprocess.run(argv, capture_output=True, timeout=10, check=False).returncode

    assert run() == 0, "a host without frequency scaling"
    files = [root / f"sys/devices/system/cpu/cpu{number}/cpufreq/scaling_governor" for number in (0, 1)]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text("schedutil\n")
    assert run() == 0
    assert [file.read_text() for file in files] == ["performance\n"] * 2
    # The first of two: what comes after does not hide it.
    files[0].unlink()
    files[0].symlink_to("/dev/full")
    assert run() != 0


REST = {"address": "10.0.0.5", "port": 6820}
TLS = {"certificate": "/etc/ssl/rest.pem", "key": "/etc/ssl/rest.key"}


def test_slurmrestd_listens_on_no_network(render):
    lines = render("slurm", "slurmrestd.conf.j2", {"slurm_rest": REST}).splitlines()
    assert [line for line in lines if line.startswith("ExecStart=")] == [
        "ExecStart=",
        "ExecStart=/usr/sbin/slurmrestd -a rest_auth/jwt unix:/run/slurmrestd/slurmrestd.socket",
    ]
    # slurmrestd makes the socket for everybody.
    assert {"User=slurmrestd", "Group=slurmrestd", "RuntimeDirectory=slurmrestd", "RuntimeDirectoryMode=0750"} <= {
        *lines
    }


def test_tls_ends_before_slurmrestd(render):
    lines = render("slurm", "stunnel.conf.j2", {"slurm_rest": REST, "slurm_rest_tls": TLS}).splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == [
        "foreground = yes",
        "setuid = stunnel4",
        "setgid = slurmrestd",
        "[slurmrestd]",
        "accept = 10.0.0.5:6820",
        "connect = /run/slurmrestd/slurmrestd.socket",
        "cert = /etc/ssl/rest.pem",
        "key = /etc/ssl/rest.key",
        "sslVersionMin = TLSv1.2",
    ]


@pytest.mark.parametrize("containers", [{}, {"packages": ["enroot"], "plugin": "/usr/lib/spank_pyxis.so"}])
def test_the_prolog_makes_the_directories_that_enroot_is_told(render, tmp_path, containers):
    place = tmp_path / "settings.j2"
    place.write_text("{{ __slurm_hook_settings | to_json }}\n")
    given = {"slurm_containers": containers, "slurm_ssh_admin_groups": ["sudo", "operators"]}
    settings = json.loads(render("slurm", str(place), given))
    assert settings["operator_groups"] == ["sudo", "operators"]
    told = [
        line.split()[1] for line in render("slurm", "enroot.conf.j2", {}).splitlines() if line.startswith("ENROOT_")
    ]
    assert told == [f"{parent}/user-$(id" for parent in ("/var/cache/enroot", "/var/lib/enroot", "/run/enroot")]
    declared = {f"{parent}/user-$(id" for parent in settings["user_directories"]}
    assert declared == (set(told) if containers else set())


def test_hooks_name_the_operators_group_that_the_host_has(render, tmp_path):
    # By one that it does not know (sudo, on RHEL) the epilog cannot tell whom to leave alone, and drains the node.
    place = tmp_path / "settings.j2"
    place.write_text("{{ __slurm_hook_settings.operator_groups | to_json }}\n")
    system = description({"id": "rocky", "release": "9.4", "name": "Rocky Linux"})
    given = {"slurm_containers": {}, "muster_system": {"system": system}}
    assert json.loads(render("slurm", str(place), given)) == ["wheel"]


def test_a_login_that_cannot_be_put_into_its_jobs_cgroup_is_refused(render, tmp_path):
    rules = tmp_path / "rules.j2"
    rules.write_text("{{ __slurm_pam_rules.pam_slurm_adopt }}\n")
    *exempt, adopt = render("slurm", str(rules), {"slurm_ssh_admin_groups": ["sudo", "operators"]}).splitlines()
    # Root skips two rules, an administrator one: what is left is the refusal.
    assert ["success=2" in exempt[0], "success=1" in exempt[1], len(exempt)] == [True, True, 2]
    assert adopt.split()[2:] == ["pam_slurm_adopt.so", "action_adopt_failure=deny", "action_generic_failure=deny"]


@pytest.mark.parametrize("access", ["pam_slurm", "pam_slurm_adopt", "open"])
def test_only_root_may_have_things_started_where_logins_need_a_job(render, tmp_path, access):
    wanted = tmp_path / "files.j2"
    wanted.write_text("{{ __slurm_compute_files | to_json }}\n")
    for name in ("templates", "files"):
        (tmp_path / name).symlink_to(ROOT / "roles/slurm" / name)
    given = {"slurm_controllers": [{"address": "10.0.0.1"}], "slurm_containers": {}, "slurm_ssh_access": access}
    given |= IDENTIFIED
    found = {each["path"]: each for each in json.loads(render("slurm", str(wanted), given))}
    # By this the health check knows that logins need a job.
    assert bool(JOB_RULE.search(found["/etc/pam.d/sshd"]["content"])) == (access != "open")
    allowed = [found.get(f"/etc/{name}.allow", {}).get("content") for name in ("cron", "at")]
    assert allowed == ([None] * 2 if access == "open" else ["root\n"] * 2)
    assert ("/etc/polkit-1/rules.d/00-muster.rules" in found) == (access != "open")


LINGER = "org.freedesktop.login1.set-{}-linger"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js, as polkit's rules are JavaScript")
@pytest.mark.parametrize(
    ("action", "user", "answer"),
    [
        (LINGER.format("self"), "alice", "no"),
        (LINGER.format("user"), "alice", "no"),
        (LINGER.format("self"), "root", "none"),
        (LINGER.format("user"), "root", "none"),
        ("org.freedesktop.login1.reboot", "alice", "none"),
    ],
)
def test_nobody_but_root_lingers(action, user, answer):
    rule = (ROOT / "roles/slurm/files/linger.rules").read_text()
    program = (
        "let rule; const polkit = {Result: {NO: 'no'}, addRule: (given) => { rule = given; }};"
        f"{rule} console.log(rule({{id: '{action}'}}, {{user: '{user}'}}) ?? 'none');"
    )
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == answer


@pytest.mark.parametrize(("tls", "packages"), [({}, []), (TLS, ["stunnel4"])])
def test_stunnel_is_installed_where_it_is_needed(render, tmp_path, tls, packages):
    wanted = tmp_path / "packages.j2"
    wanted.write_text("{{ __slurm_packages | to_json }}\n")
    given = {"slurm_roles": ["rest"], "slurm_rest": REST, "slurm_rest_tls": tls}
    found = json.loads(render("slurm", str(wanted), given))
    assert [name for name in found if name == "stunnel4"] == packages and "slurmrestd" in found


@pytest.mark.parametrize(
    ("drivers", "roles", "installed"),
    [
        (("torch", "nccl_tests"), ["compute"], True),
        (("nccl_tests",), ["controller"], True),
        (("nccl_tests",), ["login"], False),
        (("torch",), ["compute"], False),
    ],
)
def test_pmix_is_installed_where_a_class_measures_with_nccl_tests(render, tmp_path, drivers, roles, installed):
    wanted = tmp_path / "packages.j2"
    wanted.write_text("{{ __slurm_packages | to_json }}\n")
    declared = yaml.safe_load((ROOT / "playbooks/group_vars/all.yml").read_text())["slurm_pmix"]
    classes = {f"class_{driver}": {"collective": {"driver": driver}} for driver in drivers}
    given = {"slurm_roles": roles, "muster_fleet": {"classes": classes}, "slurm_pmix": declared}
    assert ("libpmix-dev" in json.loads(render("slurm", str(wanted), given))) == installed


FAULTS = [
    ({"slurm_rest_tls": {"certificate": "/c"}}, "slurm_rest_tls has certificate, expected certificate and key"),
    ({"slurm_rest": {}}, "but slurm_rest is empty"),
    ({"slurm_rest_tls": TLS}, ""),
    ({}, ""),
]


@pytest.mark.parametrize(("more", "said"), FAULTS)
def test_faults_of_rest_are_told_before_any_change(render, tmp_path, more, said):
    faults = tmp_path / "faults.j2"
    faults.write_text("{{ __slurm_faults | join('; ') }}\n")
    given = {"slurm_roles": ["rest"], "slurm_controllers": [{"name": "ctl"}], "slurm_rest": REST, **more}
    told = render("slurm", str(faults), given)
    assert said in told and (bool(said) or not told.strip())

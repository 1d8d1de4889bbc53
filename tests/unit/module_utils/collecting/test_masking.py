"""Secrets are masked wherever their keys or shapes tell them, and what real tools print is read as before."""

from __future__ import annotations

import gzip
import json
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.collecting.masking import masked
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import (
    CHECKS,
    PROBES,
    STRESSES,
    parsers,
)
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import kernel_log
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import PASS

from tests.recorded.judged import RECORDED, ROWS, outputs_of
from tests.recorded.row import Row
from tests.typed import typed

HEALTHY = Path(__file__).resolve().parents[3] / "healthy"
SECRET = "Zx9-canary"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("password={}", "password=(masked)"),
        ("password={} ro quiet", "password=(masked) ro quiet"),
        ("password = {}", "password = (masked)"),
        ("password: {}", "password: (masked)"),
        ("password => {}", "password => (masked)"),
        ("rd.iscsi.password={} ro", "rd.iscsi.password=(masked) ro"),
        ("MY_DB_PASSWORD={}", "MY_DB_PASSWORD=(masked)"),
        ("AWS_SECRET_ACCESS_KEY={}", "AWS_SECRET_ACCESS_KEY=(masked)"),
        ("HF_TOKEN={}", "HF_TOKEN=(masked)"),
        ("DBPASS={}", "DBPASS=(masked)"),
        ("bindpw={}", "bindpw=(masked)"),
        ("username=u,password=a,{}", "username=u,password=(masked)"),
        ('password=a"b{}', "password=(masked)"),
        ("password=a\\b{}", "password=(masked)"),
        ("password='a b {}' ro", "password='(masked)' ro"),
        ('password="it\'s {}" ro', 'password="(masked)" ro'),
        ('password="a {}', 'password="(masked)'),
        ('psk "{}"', 'psk "(masked)"'),
        ("--password {} run", "--password (masked) run"),
        ("--db-password={} run", "--db-password=(masked) run"),
        ('["--api-key", "{}"]', '["--api-key", "(masked)"]'),
        ("SNMP Community String   : {} x", "SNMP Community String   : (masked)"),
        ("Authorization: Basic {}", "Authorization: (masked)"),
        ('-H "Authorization: Bearer {}" https://h', '-H "Authorization: (masked)" https://h'),
        ("sent bearer {}", "sent bearer (masked)"),
        ("Cookie: a=b; session={}", "Cookie: (masked)"),
        ("https://user:{}@host/path", "https://user:(masked)@host/path"),
        ("netroot=iscsi:user:{}@10.0.0.1::3260", "netroot=iscsi:user:(masked)@10.0.0.1::3260"),
        ("machine h login l password {}", "machine h login l password (masked)"),
        ("password {}", "password (masked)"),
        ("password_pbkdf2 root {}", "password_pbkdf2 root (masked)"),
        ("https://h/x?a=b&sig={}", "https://h/x?a=b&sig=(masked)"),
        ("<password>{}</password>", "<password>(masked)</password>"),
        ("<line>run password={}</line>", "<line>run password=(masked)</line>"),
        ('"password": "a\\"{}", "b": 1', '"password": "(masked)", "b": 1'),
        ('"tokens": ["a", "{}"]', '"tokens": ["(masked)"]'),
        ('"log": "{{\\"password\\": \\"{}\\"}}"', '"log": "{{\\"password\\": \\"(masked)\\"}}"'),
        (
            "a\n-----BEGIN RSA PRIVATE KEY-----\n{}\nx==\n-----END RSA PRIVATE KEY-----\nb",
            "a\n(masked)\nb",
        ),
        (
            "a\n-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,1\n\n{}\nx==\nb c",
            "a\n(masked)\nb c",
        ),
        ("a -----BEGIN PRIVATE KEY-----\n1 h: " + 60 * "Ab+/" + "{}\nb c", "a (masked)\nb c"),
        ('"a": "-----BEGIN PRIVATE KEY-----\\n{}\\nx=", "b": 1', '"a": "(masked)", "b": 1'),
        ("a -----BEGIN PRIVATE KEY----- {} x -----END PRIVATE KEY----- b", "a (masked) b"),
        ("password:{} ro quiet", "password:(masked) ro quiet"),
        (
            "cryptdevice=UUID=12:secret:{} root=/dev/x iommu=pt",
            "cryptdevice=UUID=12:secret:(masked) root=/dev/x iommu=pt",
        ),
        ("a --password=&quot;a {}&quot; b", "a --password=&quot;(masked)&quot; b"),
        ("<a>run --password &quot;{}&quot; b</a>", "<a>run --password &quot;(masked)&quot; b</a>"),
        ('"a": "run --password &quot;a {}", "b": 1', '"a": "run --password &quot;(masked)", "b": 1'),
        ('"a": "password=\\"a {}", "b": 1', '"a": "password=\\"(masked)", "b": 1'),
        ("<a>run --password &quot;a {}</a>", "<a>run --password &quot;(masked)</a>"),
        ("netroot=iscsi:user:Ab/{}@10.0.0.1::3260", "netroot=iscsi:user:(masked)@10.0.0.1::3260"),
        ("inst.ks=https://user:a/{}@h/x", "inst.ks=https://user:(masked)@h/x"),
        ("//user:{}@nas/share /mnt", "//user:(masked)@nas/share /mnt"),
        *((f"{key}={{}} b", f"{key}=(masked) b") for key in ("WANDB_KEY", "OPENAI_KEY", "LICENSE_KEY", "MASTER_KEY")),
        *((f"{key}={{}} b", f"{key}=(masked) b") for key in ("HMAC_KEY", "dhchap_key", "SLURM_JWT")),
        ("AccountName=a;AccountKey={}==", "AccountName=a;AccountKey=(masked)"),
        *((f"a {key} {{}} b", f"a {key} (masked) b") for key in ("--wandb-key", "-password", "-token", "-apikey")),
        ("a --requirepass {} b", "a --requirepass (masked) b"),
        ("a --password -{} b", "a --password (masked) b"),
        *((f"{key} {{}}", f"{key} (masked)") for key in ("bindpw", "rootpw:", "dbpass:")),
        ('"dbPass": "{}", "b": 1', '"dbPass": "(masked)", "b": 1'),
        ('"rootpw": "{}", "b": 1', '"rootpw": "(masked)", "b": 1'),
        ("<bindpw>{}</bindpw>", "<bindpw>(masked)</bindpw>"),
        ('"password": {"value": "{}"}', '"password": {"value": "(masked)"}'),
        ('"password":\n "{}",\n"b": "c"', '"password":\n "(masked)",\n"b": "c"'),
        ("sshpass -p {} ssh h", "sshpass -p (masked) ssh h"),
        ("sshpass -p 'a {}' ssh h", "sshpass -p '(masked)' ssh h"),
        ("curl -s -u user:{} https://h", "curl -s -u user:(masked) https://h"),
        ('["curl", "-u", "user:{}"]', '["curl", "-u", "user:(masked)"]'),
        ("cryptomount -u 12 -p {} x", "cryptomount -u 12 -p (masked) x"),
    ],
)
def test_value_of_a_secret_key_is_masked_and_nothing_else(text: str, kept: str) -> None:
    text, kept = text.replace("{}", SECRET), kept.replace("{{", "{").replace("}}", "}")
    text = text.replace("{{", "{").replace("}}", "}")
    assert masked(text) == (kept, 1)
    assert masked(kept) == (kept, 0)


@pytest.mark.parametrize(
    "token",
    [
        *("ghp_" + 36 * "a", "github_pat_" + 30 * "a", "glpat-" + 20 * "a", "hf_" + 34 * "a", "nvapi-" + 60 * "a"),
        *("sk-proj-" + 20 * "aB1", "xoxb-" + 20 * "1", "AKIAIOSFODNN7EXAMPLE", JWT, "$6$salt$" + 80 * "a"),
        *("DHHC-1:00:" + 48 * "a" + ":", "NVMeTLSkey-1:01:" + 44 * "a=" + ":", "hvs." + 24 * "a", "npm_" + 36 * "a"),
        *("dckr_pat_" + 27 * "a", "AIza" + 35 * "a", "sk_live_" + 24 * "a", "$7$CU..../....salt$" + 43 * "a"),
        *("$argon2id$v=19$m=65536,t=3,p=4$c2FsdA$" + 43 * "a", "{SSHA}" + 40 * "a"),
    ],
)
def test_token_is_known_by_its_shape(token: str) -> None:
    assert masked(f"found {token} here") == ("found (masked) here", 1)


@pytest.mark.parametrize(
    "text",
    [
        *("AuthType=auth/munge", "iommu.bypass=1", "Result: Pass", "authority: x", "password", "a token bucket"),
        *("no password, thanks", "sk-ssh-ed25519@openssh.com AAAA", "ssh://git@host/x", "http://host:80/a@b"),
        *('"token": null, "secret": true', '"SessionService": {"@odata.id": "/redfish/v1/SessionService"}'),
        *("auth-proxy:4711", "secret-agent:4711", "[secret:88]", "Comm: token:0 Not tainted", "a token:1, Ch"),
        *(
            "tokenizer: a",
            "--tokenizer a",
            "sk-icheon-leaf-row12-rack04",
            "P_Key: 0xffff",
            "pkey=0xffff",
            "M_Key = 0x0",
        ),
        *("q_key=0x1", "m_key: 0x2", "per_mkey=1", "rkey=0x12", "TrackWCKey = no", "public_key=a", "WANDB_KEY: a"),
        *("password for root is x", "tar -p x", "ssh -p 22 h", "curl -u", '"password": {"a": {"value": "b"}}'),
        *('"tokens": [\n],\n"a"', '"password":\n"a": "b"', '"token":\n[1.0] a "b"'),
    ],
)
def test_text_without_a_secret_stays(text: str) -> None:
    assert masked(text) == (text, 0)


def test_text_after_a_private_key_without_an_end_stays() -> None:
    lines = ["2025-01-21T04:41:44+0000 h kernel: a", "[    1.0] INFO: task a:1 blocked", '{"a": 1}', "a: b"]
    for line in lines:
        assert masked(f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n{line}\n") == (f"(masked)\n{line}\n", 1)


def test_json_stays_json_and_xml_stays_xml() -> None:
    data = {"password": 'a"b\\', "n": {"api_key": 12, "tokens": ["x"], "ok": None}, "log": "secret=a\nb token: c"}
    for indent in (None, 1):
        text, count = masked(json.dumps(data, indent=indent))
        found = json.loads(text)
        assert (found["password"], found["n"]["api_key"], found["n"]["ok"]) == ("(masked)", "(masked)", None)
        assert found["n"]["tokens"] == ["(masked)"]
        assert count >= 3
    text, count = masked(json.dumps({"tokens": ["a", "b"], "c": ["d"]}, indent=1))
    assert json.loads(text) == {"tokens": ["(masked)", "(masked)"], "c": ["d"]} and count == 2
    assert masked(text) == (text, 0)
    text, count = masked("<a><b_token>x</b_token><c name='password=y'/></a>")
    assert ET.fromstring(text).findtext("b_token") == "(masked)" and count == 2


@pytest.mark.parametrize(
    "part",
    [
        *("password", "password=", 'password="', "password='", '\\"password\\": \\"', "token:", '"secret": ["'),
        *("-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "eyJ", "eyJaaaaaa.", "://a:", "--token ", "--a", "<password>"),
        *("-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\na\n", "a\\n", "//a:", "iscsi:", "-a", "a_key"),
        *("a_key=", "password=&quot;", "token &quot;a", "&quot;", '"token": {', '"token": [\n', '"token":\n"a",\n'),
        *("sshpass ", "sshpass -p", "curl -u ", "curl -ua", "cryptomount -", "sk-", "kernel: ", "DHHC-1:00:", "a "),
        *("?sig=", "bearer ", "login a password ", "$6$", "hf_", "\\", " ", "a", "pass =", '"tokens": ["a"', "a\n"),
    ],
)
def test_hostile_text_takes_time_in_proportion_to_its_length(part: str) -> None:
    def seconds(size: int) -> float:
        text = part * (size // len(part)) + " password"
        before = time.process_time()
        masked(text)
        return time.process_time() - before

    assert seconds(2**19) < 10 * max(seconds(2**17), 0.02)


# What the kernel says with the name of a program, host or device in it: ``{}``.
FAULTS = (
    ("kernel_crash", "INFO: task {}:4711 blocked for more than 120 seconds."),
    ("kernel_crash", "INFO: task {}:rank0:4711 blocked for more than 120 seconds."),
    ("kernel_crash", "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [{}:4711]"),
    ("kernel_crash", "NMI watchdog: Watchdog detected hard LOCKUP on cpu 3 Comm: {}:0 Not tainted"),
    ("kernel_crash", "Kernel panic - not syncing: {}: Fatal exception"),
    ("kernel_crash", "rcu: INFO: rcu_sched self-detected stall on CPU {}: 1"),
    ("kernel_crash", "{}: INFO: rcu_sched detected stalls on CPUs"),
    ("kernel_crash", "BUG: Bad page state in process {}  pfn:1"),
    ("kernel_crash", "{}: Oops: 0002 [#1] SMP"),
    ("oom_log", "{}: page allocation failure: order:0, mode:0x1"),
    ("oom_log", "Out of memory: Killed process 4711 ({}) total-vm:1kB"),
    ("oom_log", "oom-kill:constraint=CONSTRAINT_NONE,cpuset={},mems_allowed=0,task_memcg=/{},task={},pid=4711"),
    ("program_crash", "{}[4711]: segfault at 0 ip 0 sp 0 error 4 in libcuda.so.570[7f+1]"),
    ("program_crash", "{}::a[4711]: segfault at 0 ip 0 sp 0 error 4 in libcuda.so.570[7f+1]"),
    ("program_crash", "{}: a[4711]: segfault at 0 ip 0 sp 0 error 4 in libcuda.so.570[7f+1]"),
    ("program_crash", "traps: {}[4711] general protection fault ip:7f sp:7f error:0 in libnccl.so.2[7f+1]"),
    ("filesystem_log", "EXT4-fs error (device {}): ext4_find_entry:1455: inode #2: comm {}: reading directory"),
    ("filesystem_log", "{}: I/O error, dev sda, sector 1234 op 0x0:(READ) flags 0x0"),
    ("mount_log", "nfs: server {} not responding, timed out"),
    ("mount_log", "LustreError: 167-0: {}-OST0002-osc-ff11: This client was evicted by {}-OST0002; in progress"),
    ("mount_log", "Lustre: {}-OST0002-osc-ff11: Connection to {}-OST0002 (at 10.0.0.1@tcp) was lost; in progress"),
    ("nic_log", "NETDEV WATCHDOG: {} (mlx5_core): transmit queue 3 timed out"),
    ("nic_log", "mlx5_core 0000:19:00.0 {}: TX timeout detected"),
    ("machine_check", "Memory failure: 0x2df1800: Killing {}:4711 due to hardware memory corruption"),
    ("gpu_log", "NVRM: {}: RmInitAdapter failed! (0x24:0x65:1423)"),
    ("xid", "NVRM: Xid (PCI:0000:1b:00): 79, pid=4711, name={}:rank0, GPU has fallen off the bus."),
    ("xid", "NVRM: Xid (PCI:0000:1b:00): 48, pid=4711, name={}: a, Ch 00000008"),
    ("nvme_log", "{}: blk_update_request: I/O error, dev nvme3n1, sector 0 op 0x0:(READ)"),
    ("pcie_errors", "{} 0000:ab:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer"),
    ("sxid", "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up, {}: a"),
)
STAMPS = (
    "2025-01-21T04:41:44+0000 h kernel: ",
    "Jan 21 04:41:44 h kernel: ",
    "kernel: ",
    "[   12.5] ",
    "<3>[   12.5] ",
)


@pytest.mark.parametrize(("check", "line"), FAULTS)
@pytest.mark.parametrize("name", ["tokenizer", "auth", "secretd", "token-worker", "token", "passwd", "bearer"])
def test_fault_in_the_kernel_log_stays_a_fault(check: str, line: str, name: str, expect: dict[str, Any]) -> None:
    for stamp in STAMPS:
        text = f"{stamp}Linux version 6.1\n{stamp}-----BEGIN PRIVATE KEY-----\n{stamp}{line.format(name, name, name)}\n"
        before, after = (_verdicts(check, each, expect) for each in (text, masked(text)[0]))
        assert after == before and set(before.values()) != {PASS}


def _verdicts(check: str, text: str, expect: dict[str, Any]) -> dict[str, str]:
    messages = kernel_log.parse(Output(text))
    return {found.subject: found.verdict for found in CHECKS[check].decide({"kernel_log": messages}, typed(expect))}


def _value(probe: str, output: Output) -> Any:
    try:
        return parsers([probe])[probe].parse(output)
    except Unreadable as exc:
        return str(exc)


@pytest.mark.parametrize("path", sorted(HEALTHY.iterdir()), ids=lambda path: path.stem)
def test_healthy_output_is_read_as_before(path: Path) -> None:
    assert path.stem in PROBES or path.stem in STRESSES
    text = path.read_text(encoding="utf-8")
    assert _value(path.stem, Output(masked(text)[0])) == _value(path.stem, Output(text))


@pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no recorded outputs at {RECORDED}")
@pytest.mark.parametrize("row", {row.file: row for row in ROWS if row.probe}.values(), ids=lambda row: row.file)
def test_recorded_output_is_read_as_before(row: Row) -> None:
    if not (RECORDED / row.file).exists():
        pytest.skip(f"{row.file} is not among the recorded outputs")
    for probe, output in outputs_of(row, (RECORDED / row.file).read_bytes()).items():
        if probe in PROBES or probe in STRESSES:
            text, _ = masked(output.stdout)
            assert _value(probe, Output(text, output.stderr, output.rc)) == _value(probe, output)


@pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no recorded outputs at {RECORDED}")
def test_nothing_else_is_masked_in_recorded_outputs() -> None:
    found = set()
    for path in sorted(each for each in RECORDED.rglob("*") if each.is_file() and each.suffix != ".md"):
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", errors="replace")
        if masked(text)[1]:
            found.add(path.relative_to(RECORDED).as_posix())
    # JobCredentialPrivateKey and JobCredentialPublicCertificate.
    assert found == {"slurm/scontrol-show-config.txt"}

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
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import PROBES, STRESSES, parsers
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable

from tests.recorded.judged import RECORDED, ROWS, outputs_of
from tests.recorded.row import Row

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
        *("sk-proj-" + 40 * "a", "xoxb-" + 20 * "1", "AKIAIOSFODNN7EXAMPLE", JWT, "$6$salt$" + 80 * "a"),
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
    ],
)
def test_text_without_a_secret_stays(text: str) -> None:
    assert masked(text) == (text, 0)


def test_json_stays_json_and_xml_stays_xml() -> None:
    data = {"password": 'a"b\\', "n": {"api_key": 12, "tokens": ["x"], "ok": None}, "log": "secret=a\nb token: c"}
    for indent in (None, 1):
        text, count = masked(json.dumps(data, indent=indent))
        found = json.loads(text)
        assert (found["password"], found["n"]["api_key"], found["n"]["ok"]) == ("(masked)", "(masked)", None)
        assert count >= 3
    text, count = masked("<a><b_token>x</b_token><c name='password=y'/></a>")
    assert ET.fromstring(text).findtext("b_token") == "(masked)" and count == 2


@pytest.mark.parametrize(
    "part",
    [
        *("password", "password=", 'password="', "password='", '\\"password\\": \\"', "token:", '"secret": ["'),
        *("-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "eyJ", "eyJaaaaaa.", "://a:", "--token ", "--a", "<password>"),
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

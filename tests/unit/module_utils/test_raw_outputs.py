"""What tools printed comes back as it was, or not at all."""

import base64
import json
import zlib

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host import raw_outputs
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.host.raw_outputs import (
    RawError,
    digests_of,
    pack,
    places_in,
    read_outputs,
    unpack,
    write_outputs,
)

OUTPUTS = {
    "dmesg": Output("one\r\ntwo\rthree\n\u2028\udcff\x00", "warning\n", 1),
    "lscpu": Output(rc=None, timed_out=True, error="no answer"),
}


def test_outputs_come_back_as_they_were(tmp_path):
    write_outputs(tmp_path / "raw", OUTPUTS)
    assert read_outputs(tmp_path / "raw") == OUTPUTS
    assert unpack(pack({"raw": OUTPUTS})) == {"raw": OUTPUTS}


@pytest.mark.parametrize(
    "other", [Output("y"), Output("x", "y"), Output("x", rc=1), Output("x", timed_out=True), Output("x", error="y")]
)
def test_digest_tells_everything_that_is_judged(other):
    assert digests_of({"dmesg": other}) != digests_of({"dmesg": Output("x")})
    assert digests_of({"dmesg": other}, "last").keys() == {"last/dmesg"}


def test_largest_outputs_are_left_out_where_all_are_too_large(tmp_path, monkeypatch):
    write_outputs(tmp_path, {"dmesg": Output("of the examination before")})
    monkeypatch.setattr(raw_outputs, "MOST_BYTES", 30)
    write_outputs(tmp_path, {"dmesg": Output("x" * 20), "lscpu": Output("y" * 10), "lspci": Output("", "z" * 15)})
    assert sorted(read_outputs(tmp_path)) == ["lscpu", "lspci"]
    assert not (tmp_path / "dmesg.txt").exists()
    with pytest.raises(RawError, match="expected at most 30"):
        pack({"raw": OUTPUTS})


def _packed(data):
    return base64.b64encode(zlib.compress(json.dumps(data).encode())).decode()


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        "",
        "###",
        "AAAA",
        _packed([]),
        _packed({"raw": 7}),
        _packed({"raw": {"dmesg": {"stdout": 7}}}),
        _packed({"raw": {"dmesg": {"stdout": "x", "rc": "0"}}}),
        _packed({"raw": {"dmesg": {"stdout": "x", "more": 1}}}),
        base64.b64encode(zlib.compress(b"[" * 100_000)).decode(),
        # A small text that unpacks to more than anybody keeps.
        base64.b64encode(zlib.compress(b" " * (raw_outputs.MOST_BYTES + 1))).decode(),
    ],
    ids=range(12),
)
def test_what_is_no_packed_output_is_an_error(text):
    with pytest.raises(RawError):
        unpack(text)


def test_names_of_places_and_probes_lead_nowhere_else():
    assert places_in(["lscpu", "last/lscpu", "last/dmesg"]) == {"raw": ["lscpu"], "last": ["lscpu", "dmesg"]}
    for name in ("../../etc/shadow", "/etc/shadow", "last/../x", "", "a/b/c", "LAST/x", "x/"):
        with pytest.raises(RawError):
            places_in([name])


@pytest.mark.parametrize("text", ["", "[]", '{"dmesg": 7}', '{"dmesg": {"rc": 0, "new": 1}}', '{"lspci": {}}'])
def test_directory_that_is_not_whole_is_an_error(tmp_path, text):
    (tmp_path / "outputs.json").write_text(text)
    (tmp_path / "dmesg.txt").write_text("x")
    with pytest.raises(RawError):
        read_outputs(tmp_path)

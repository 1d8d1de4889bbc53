"""What the program's lines say, and what cannot be taken for it."""

import json
from pathlib import Path

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.stress import gpu_stress
from ansible_collections.muster.cluster.plugins.module_utils.words.expectations import NoSettings

from tests.contracts.table import refuse_unknown
from tests.typed import typed

HEALTHY = Path(__file__).resolve().parents[3] / "healthy" / "gpu_stress.jsonl"


@pytest.fixture
def lines():
    return [json.loads(line) for line in HEALTHY.read_text(encoding="utf-8").splitlines()]


def parsed(lines):
    return gpu_stress.parse(Output("".join(json.dumps(line) + "\n" for line in lines)))


def test_healthy_output(lines):
    loads = parsed(lines)
    assert (loads.device, loads.seconds, len(loads.gpus), loads.missing) == ("cuda", 600, 8, {})
    load = loads.gpus["0000:0b:00.0"]
    assert set(load.products) == {"bf16", "fp8"}
    assert load.products["bf16"].result == "8a3c5d7e9f1b2c4d"
    assert load.memory.bytes > 0.9 * load.memory.total_bytes


def test_collect_names_the_gpus_of_the_class_and_bounds_the_time(expect):
    class Recorder:
        def run(self, argv, timeout_seconds):
            refuse_unknown(argv)
            self.argv, self.timeout = list(argv), timeout_seconds
            return Output()

    host = Recorder()
    gpu_stress.collect(host, typed(expect), 90.5, NoSettings())
    assert host.argv == [
        "/opt/muster/pytorch/bin/python3",
        "/usr/libexec/muster/muster",
        "gpu-stress",
        "--device=cuda",
        "--gpus=0000:1b:00.0,0000:ab:00.0",
        "--seconds=90.5",
    ]
    assert 90.5 + 300 < host.timeout < 90.5 + 900
    expect["pytorch"]["python"] = "/opt/site/bin/python"
    gpu_stress.collect(host, typed(expect), 1, NoSettings())
    assert host.argv[0] == "/opt/site/bin/python"


def test_class_without_gpus_runs_nothing(expect):
    expect["gpu_stress"] = None
    assert "null" in gpu_stress.collect(None, typed(expect), 1, NoSettings()).error


def test_gpu_without_an_end_needs_a_reason(lines):
    kept = [line for line in lines if not (line["event"] == "end" and line["gpu"] == "0000:8b:00.0")]
    with pytest.raises(Unreadable, match="each one's end or the reason"):
        parsed(kept)
    kept[-1]["missing"] = {"0000:8b:00.0": "ended by signal 9"}
    assert parsed(kept).missing == {"0000:8b:00.0": "ended by signal 9"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seconds", None),
        ("seconds", -1),
        ("seconds", True),
        ("gpu", 5),
        ("products", []),
        ("products.bf16", None),
        ("products.bf16.tflops", "fast"),
        ("products.bf16.tflops", float("nan")),
        ("products.bf16.tflops", float("inf")),
        ("products.bf16.checksums", {"a": -1}),
        ("products.fp8.tiles_wrong", 0.5),
        ("memory.wrong_words", None),
        ("memory.patterns", ["0x00"]),
        ("unsupported", None),
    ],
)
def test_field_of_another_kind_is_unreadable(lines, key, value):
    place = next(line for line in lines if line["event"] == "end")
    *parents, last = key.split(".")
    for name in parents:
        place = place[name]
    place[last] = value
    with pytest.raises(Unreadable):
        parsed(lines)


def test_missing_fields_are_unreadable(lines):
    def places(data, path=()):
        for name, value in data.items():
            yield (*path, name)
            # What a counter counts may be absent: the check knows which of them it needs.
            if isinstance(value, dict) and name not in ("patterns", "checksums", "products", "unsupported"):
                yield from places(value, (*path, name))

    end = next(line for line in lines if line["event"] == "end")
    for path in [path for path in places(end) if path != ("memory", "first_wrong")]:
        wrong = json.loads(json.dumps(lines))
        place = next(line for line in wrong if line["event"] == "end")
        for name in path[:-1]:
            place = place[name]
        del place[path[-1]]
        with pytest.raises(Unreadable):
            parsed(wrong)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text[:-20],
        lambda text: "\n".join(text.splitlines()[:-1]),
        lambda text: text + text,
        lambda text: "Killed\n" + text,
        lambda text: text.replace('"format": 1', '"format": 2'),
        lambda text: text.replace('"event": "start"', '"event": "begin"'),
        lambda text: "[]\n" + text,
        lambda text: "\x00\xff" * 50,
    ],
)
def test_damaged_output_is_unreadable(change):
    with pytest.raises(Unreadable):
        gpu_stress.parse(Output(change(HEALTHY.read_text(encoding="utf-8"))))


def test_exit_status_is_told():
    with pytest.raises(Unreadable, match=r"exit status 127: env: .*python3"):
        gpu_stress.parse(Output("", "env: '/usr/bin/python3': No such file or directory\n", 127))

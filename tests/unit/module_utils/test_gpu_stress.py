"""The program that loads GPUs: a real run on the CPU where PyTorch is, and how its supervisor deals with lost GPUs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CHECKS
from ansible_collections.muster.cluster.plugins.module_utils.gpu_load import gpu_stress_program as gpu_stress
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.stress import gpu_stress as stress

from tests.typed import typed

ROOT = Path(__file__).resolve().parents[3]
RUN = f"import sys, {gpu_stress.__name__} as program; sys.exit(program.main())"
ONE, TWO, THREE = "0000:1b:00.0", "0000:ab:00.0", "0000:cd:00.0"


def start(path: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", RUN, "--device=cpu", *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT / 'collections'}:{path}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(path: Path, *arguments: str) -> Output:
    process = start(path, *arguments)
    output, error = process.communicate(timeout=120)
    return Output(output, error, process.returncode)


def judged(output: Output, expect: dict[str, Any], gpus: tuple[str, ...]) -> dict[str, Any]:
    """Return the findings by address, for a class of these GPUs whose numbers a CPU reaches."""
    expect["gpu"]["count"] = len(gpus)
    expect["gpu"]["parts"] = [{"slot": f"SXM{slot}", "address": gpu} for slot, gpu in enumerate(gpus, 1)]
    expect["gpu_stress"].update(
        device="cpu",
        bf16_floor_tflops=1e-9,
        fp8_floor_tflops=1e-9,
        spread_percent=None,
        memory_copy_floor_gb_per_s=1e-9,
    )
    findings = CHECKS["gpu_stress"].decide({"gpu_stress": stress.parse(output)}, typed(expect))
    return {finding.subject.split()[2]: finding for finding in findings}


@pytest.mark.pytorch
def test_sound_gpus_pass_and_agree(torch: Path, expect: dict[str, Any]) -> None:
    found = judged(output_of(torch, f"--gpus={ONE},{TWO}", "--seconds=1"), expect, (ONE, TWO))
    assert {finding.verdict for finding in found.values()} == {"pass"}, found
    assert "100.0 % of memory" in found[ONE].reason


@pytest.mark.pytorch
def test_flipped_bits_and_lost_processes_are_told_of_their_gpus_alone(torch: Path, expect: dict[str, Any]) -> None:
    gpus = tuple(f"0000:{bus:02x}:00.0" for bus in range(1, 6))
    result, memory, crash, hang, sound = gpus
    output = output_of(
        torch,
        f"--gpus={','.join(gpus)}",
        "--seconds=1",
        "--start-seconds=15",
        f"--testing-flip=result={result}",
        f"--testing-flip=memory={memory}",
        f"--testing-fault=crash={crash}",
        f"--testing-fault=hang={hang}",
    )
    found = judged(output, expect, gpus)
    assert {gpu: finding.verdict for gpu, finding in found.items()} == {
        result: "fail",
        memory: "fail",
        crash: "incomplete",
        hang: "incomplete",
        sound: "pass",
    }
    assert (found[result].measured, found[result].unit, found[result].action) == (1, "wrong results", "rma")
    assert (found[memory].measured, found[memory].unit, found[memory].action) == (1, "wrong words", "rma")
    assert "0000000000020000" in found[memory].reason
    assert "ended by signal 9" in found[crash].reason
    assert "not ready within 15 s" in found[hang].reason


@pytest.mark.pytorch
def test_processes_end_with_their_supervisor(torch: Path) -> None:
    process = start(torch, f"--gpus={ONE},{TWO}", "--seconds=60")
    assert process.stdout is not None
    while '"ready"' not in process.stdout.readline():
        pass
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
    assert len(workers) == 2
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    deadline = time.monotonic() + 10
    while any(alive(int(worker)) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(int(worker)) for worker in workers)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").split()[2] != "Z"
    except OSError:
        return False


def test_without_torch_every_gpu_is_missing_with_the_reason(tmp_path: Path, expect: dict[str, Any]) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch on this host')")
    output = output_of(tmp_path, f"--gpus={ONE},{TWO}", "--seconds=1")
    found = judged(output, expect, (ONE, TWO))
    assert {finding.verdict for finding in found.values()} == {"incomplete"}
    assert "ImportError in import of torch: no torch on this host" in found[ONE].reason


@pytest.mark.parametrize(
    "arguments",
    [
        ("--gpus=1b:00.0", "--seconds=1"),
        (f"--gpus={ONE}", "--seconds=0"),
        (f"--gpus={ONE}", "--seconds=nan"),
        (f"--gpus={ONE}", "--seconds=1", f"--testing-flip=result={TWO}"),
        (f"--gpus={ONE}", "--seconds=1", f"--testing-flip=cache={ONE}"),
    ],
)
def test_wrong_arguments_are_refused(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert output_of(tmp_path, *arguments).rc == 2


LISTED = "00000000:1B:00.0, GPU-11111111-2222-3333-4444-555555555555\n"


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        (f"printf '%s' '{LISTED}'", "nvidia-smi does not list it"),
        (
            f"printf '%s' '{LISTED}'; echo 'Unable to determine the device handle for GPU 0000:AB:00.0' >&2; exit 15",
            "nvidia-smi does not list it: Unable to determine the device handle for GPU 0000:AB:00.0",
        ),
    ],
)
def test_gpu_that_the_driver_does_not_list_is_missing(
    printed: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{printed}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found, missing = gpu_stress._identities((ONE, TWO))
    assert found == {ONE: "GPU-11111111-2222-3333-4444-555555555555"}
    assert missing == {TWO: reason}


def test_shape_is_the_best_on_most_gpus() -> None:
    def worker(**rates: float) -> gpu_stress.Worker:
        made = gpu_stress.Worker("x", 0, 0, 0, 0)
        made.ready = {"plain_tflops": {"bf16": {name.replace("_", ""): rate for name, rate in rates.items()}}}
        return made

    workers = [worker(_1x2x3=5.0, _4x5x6=6.0), worker(_1x2x3=9.0, _4x5x6=1.0), worker(_1x2x3=5.0, _4x5x6=6.0)]
    assert gpu_stress._best([*workers, gpu_stress.Worker("dead", 0, 0, 0, 0)]) == {"bf16": [4, 5, 6]}


FILL = """
import json, torch
import {load} as g
device = g.Device(torch, "cpu")
product = g.Product(device, "bf16", (64, 64, 256))
product.multiply()
first = int(product.checksum())
same = int(product.checksum())
tiles = product.wrong_in_tiles()
product.flip_bit()
flipped = int(product.checksum())
product.c.view(torch.int16)[0, 0] ^= 1 << 14
exponent = product.wrong_in_tiles()
product.c[0, 0] = float("nan")
nan = product.wrong_in_tiles()
swapped = product.c.flip(0)
memory = g.Memory(device, g.CPU_SIZES)
found = {{}}
for pattern in g.PATTERNS:
    memory.write(pattern)
    memory.verify()
    good = memory.wrong_words
    memory.write(pattern)
    memory.flip_bit()
    memory.verify()
    found[pattern] = [good, memory.wrong_words]
    memory.wrong_words = 0
memory.write("address")
memory.chunks[0], memory.chunks[1] = memory.chunks[1], memory.chunks[0]
memory.verify()
print(json.dumps({{
    "same": first == same, "flipped": first != flipped, "tiles": tiles[:2], "exponent": exponent[1], "nan": nan[1],
    "patterns": found, "swapped chunks": memory.wrong_words,
    "inputs": g.matrix_rows(torch, device.device, range(3, 5), 4, 7).flatten().tolist()
    == g.matrix_rows(torch, device.device, range(0, 9), 4, 7)[3:5].flatten().tolist(),
}}))
"""


@pytest.mark.pytorch
def test_every_wrong_bit_is_seen(torch: Path) -> None:
    path = f"{ROOT / 'collections'}:{torch}"
    program = FILL.format(load="ansible_collections.muster.cluster.plugins.module_utils.gpu_load.gpu_load")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["same"] and found["flipped"] and found["inputs"]
    assert (found["tiles"], found["exponent"], found["nan"]) == ([192, 0], 1, 1)
    assert set(map(tuple, found["patterns"].values())) == {(0, 1)}
    assert found["swapped chunks"] == 2 * 2**18 // 8

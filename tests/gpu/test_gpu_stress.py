"""The load on a real GPU: rates, memory, and a flipped bit."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import CHECKS
from ansible_collections.muster.cluster.plugins.module_utils.gpu_load import gpu_stress_program as gpu_stress
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.stress import gpu_stress as stress
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.hardware_class import expectations_of

from tests.placed import PLACED
from tests.typed import typed

ROOT = Path(__file__).resolve().parents[2]
RUN = f"import sys, {gpu_stress.__name__} as program; sys.exit(program.main())"


def loaded(python: str, gpus: Mapping[str, str], seconds: float, *arguments: str) -> stress.Loads:
    done = subprocess.run(
        [python, "-c", RUN, f"--gpus={','.join(gpus)}", f"--seconds={seconds:g}", *arguments],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": str(ROOT / "collections")},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds + 500,
    )
    print(done.stdout[-4000:], done.stderr[-2000:])
    return stress.parse(Output(done.stdout, done.stderr, done.returncode))


def judged(loads: stress.Loads, gpus: Mapping[str, str]) -> dict[str, Finding]:
    """Return the findings by address, for a class of exactly these GPUs."""
    model = "hgx_h200" if set(gpus.values()) == {"NVIDIA H200"} else "hgx_h100"
    expect: dict[str, Any] = expectations_of(model, PLACED, "test")
    parts = [{"slot": f"SXM{slot}", "address": gpu} for slot, gpu in enumerate(gpus, 1)]
    expect = {**expect, "gpu": {**expect["gpu"], "count": len(parts), "parts": parts}}
    findings = CHECKS["gpu_stress"].decide({"gpu_stress": loads}, typed(expect))
    return {finding.subject.split()[2]: finding for finding in findings}


@pytest.fixture(scope="module")
def minute(python: str, gpus: dict[str, str]) -> stress.Loads:
    """What 60 seconds gave."""
    return loaded(python, gpus, 60)


def test_every_gpu_gives_a_result_without_a_wrong_bit(minute: stress.Loads, gpus: dict[str, str]) -> None:
    assert minute.missing == {} and set(minute.gpus) == set(gpus)
    for load in minute.gpus.values():
        assert load.memory.wrong_words == 0
        assert load.memory.bytes >= 0.9 * load.memory.total_bytes
        for product in load.products.values():
            assert len(product.checksums) == 1 and product.tiles_wrong == 0 < product.tiles_checked


def test_bf16_is_sustained_near_the_best_plain_product_of_the_run(minute: stress.Loads, sxm: None) -> None:
    for load in minute.gpus.values():
        product = load.products["bf16"]
        assert product.tflops is not None
        # 93 to 95 % on two H100 and one H200: what is sustained at the power cap is hotter than the best of a few.
        assert product.tflops >= 0.9 * product.best_plain_tflops


def test_memory_test_is_nearly_as_fast_as_a_plain_copy(minute: stress.Loads) -> None:
    for load in minute.gpus.values():
        assert load.memory.test_gb_per_s >= 0.85 * load.memory.copy_gb_per_s


def test_sound_gpus_pass_their_class(minute: stress.Loads, gpus: dict[str, str], sxm: None) -> None:
    assert {finding.verdict for finding in judged(minute, gpus).values()} == {"pass"}


@pytest.mark.parametrize(("place", "unit"), [("result", "wrong results"), ("memory", "wrong words")])
def test_flipped_bit_is_caught(python: str, gpus: dict[str, str], place: str, unit: str) -> None:
    bad = next(iter(gpus))
    loads = loaded(python, gpus, 10, f"--testing-flip={place}={bad}")
    finding = judged(loads, gpus)[bad]
    assert (finding.verdict, finding.measured, finding.unit, finding.action) == ("fail", 1, unit, "rma")

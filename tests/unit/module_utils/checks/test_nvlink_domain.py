"""The NVLink domain of a host's GPUs: one, several, none, and not told."""

from dataclasses import replace

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.checks import gpu_fabric, nvlink_domain
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output
from ansible_collections.muster.cluster.plugins.module_utils.judging.nvlink_domain import NO_CLUSTER, domain_of
from ansible_collections.muster.cluster.plugins.module_utils.probes.nvidia_smi import Gpu, Gpus, parse

from tests.typed import typed

ONE, OTHER = "9c6f5af3-53bf-49b5-a436-b66766c413c3", "0a1b2c3d-53bf-49b5-a436-b66766c413c3"
PARTS = [f"000{domain}:01:00.0" for domain in "0123"]


def gpus(*told):
    return Gpus(
        "580",
        tuple(Gpu(address, cluster_uuid=own[0], clique_id=own[1]) for address, own in zip(PARTS, told, strict=False)),
    )


@pytest.fixture
def declared(expect):
    """A class of four GPUs in a domain of 18 hosts."""
    expect["gpu"].update(count=4, parts=[{**expect["gpu"]["parts"][0], "slot": at[:4], "address": at} for at in PARTS])
    expect["nvlink"].update(fabric_manager=False, domain={"hosts": 18, "imex": None})
    return expect


def judged(expect, report):
    (finding,) = nvlink_domain.decide({"nvidia_smi": report}, typed(expect))
    assert (finding.check, finding.subject) == ("nvlink_domain", "host")
    return finding


@pytest.mark.parametrize(
    ("told", "domain"),
    [
        ([(ONE, 7)] * 4, f"{ONE}/7"),
        ([(ONE, 7), (ONE, 7), (OTHER, 7), (ONE, 8)], f"{OTHER}/7,{ONE}/7,{ONE}/8"),
        ([(NO_CLUSTER, 0)] * 4, f"{NO_CLUSTER}/0"),
        ([(ONE, 7), (ONE, None)], None),
        ([(ONE, 7), (None, 7)], None),
        ([], None),
    ],
)
def test_domain_of(told, domain):
    assert domain_of(gpus(*told)) == domain
    # One more that is lost may be in any.
    assert domain_of(replace(gpus(*told), lost=(PARTS[3],))) is None


def test_gpus_of_one_domain_pass(declared):
    finding = judged(declared, gpus(*[(ONE, 7)] * 4))
    assert (finding.verdict, finding.measured, finding.action) == ("pass", f"{ONE}/7", "none")


@pytest.mark.parametrize(
    ("told", "verdict", "why"),
    [
        ([(ONE, 7), (ONE, 7), (OTHER, 7), (ONE, 7)], "fail", "most GPUs: gpu 0002 0002:01:00.0"),
        ([(ONE, 7), (ONE, 7), (ONE, 8), (ONE, 7)], "fail", "most GPUs: gpu 0002 0002:01:00.0"),
        ([(ONE, 7), (ONE, 7), (ONE, 8), (ONE, 8)], "fail", "in 2 NVLink domains"),
        ([(NO_CLUSTER, 0)] * 4, "fail", "in no NVLink domain: gpu 0000 0000:01:00.0, gpu 0001 0001:01:00.0"),
        ([(ONE, 7), (NO_CLUSTER, 0), (ONE, 7), (ONE, 7)], "fail", "in no NVLink domain: gpu 0001 0001:01:00.0"),
        ([(ONE, 7), (None, None), (OTHER, 7), (ONE, 7)], "fail", "in 2 NVLink domains"),
        ([(ONE, 7), (ONE, None), (ONE, 7), (ONE, 7)], "incomplete", "could not be read"),
        ([(ONE, 7), (None, 7), (ONE, 7), (ONE, 7)], "incomplete", "gpu 0001 0001:01:00.0"),
        ([(ONE, 7)] * 3, "incomplete", "gpu 0003 0003:01:00.0"),
        ([], "incomplete", "could not be read"),
    ],
)
def test_gpus_that_differ_or_do_not_tell(told, verdict, why, declared):
    finding = judged(declared, gpus(*told))
    assert (finding.verdict, finding.action) == (verdict, "investigate")
    assert why in finding.reason


def test_gpu_that_the_class_does_not_have_is_judged_too(declared):
    report = gpus(*[(ONE, 7)] * 4)
    extra = Gpu("0009:01:00.0", cluster_uuid=OTHER, clique_id=7)
    finding = judged(declared, replace(report, gpus=(*report.gpus, extra)))
    assert finding.verdict == "fail" and "gpu 0009:01:00.0" in finding.reason


def test_owed_by_a_class_with_a_domain(declared):
    assert nvlink_domain.subjects(typed(declared)) == ["host"]
    declared["nvlink"]["domain"] = None
    assert nvlink_domain.subjects(typed(declared)) == []
    declared["nvlink"] = None
    assert nvlink_domain.subjects(typed(declared)) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("", "", (NO_CLUSTER, 0)),
        ("<cliqueId>0<", "<cliqueId>4026 [Deprecated; see field Cliques]<", (NO_CLUSTER, 4026)),
        ("<cliqueId>0<", "<cliqueId>N/A<", (NO_CLUSTER, None)),
        ("<cliqueId>0<", "<cliqueId>-1<", (NO_CLUSTER, None)),
        (NO_CLUSTER, ONE.upper(), (ONE, 0)),
        (NO_CLUSTER, ONE[:-1], (None, 0)),
        (NO_CLUSTER, "N/A", (None, 0)),
    ],
)
def test_xml(old, new, told, make_gpu_xml):
    text = make_gpu_xml(["00000000:1B:00.0"])
    (gpu,) = parse(Output(text.replace(old, new) if old else text)).gpus
    assert (gpu.cluster_uuid, gpu.clique_id) == told


TEXT = f"""Attached GPUs : 1
GPU 00000008:01:00.0
    Fabric
        State : Completed
        Status : Success
        CliqueId : 4026
        ClusterUUID : {ONE}
        Health
            Summary : Not Supported
            Bandwidth : Not Supported
            Route Recovery in progress : Not Supported
            Route Unhealthy : Not Supported
            Access Timeout Recovery : Not Supported
            Incorrect Configuration : Not Supported
"""


def test_text_of_a_host_whose_driver_tells_no_health_passes(declared):
    declared["gpu"].update(count=1, parts=[{**declared["gpu"]["parts"][0], "address": "0008:01:00.0"}])
    report = parse(Output(TEXT))
    assert domain_of(report) == f"{ONE}/4026"
    (finding,) = gpu_fabric.decide({"nvidia_smi": report}, typed(declared))
    assert (finding.verdict, finding.reason) == ("pass", "")


@pytest.mark.parametrize(
    ("word", "value", "verdict"),
    [
        ("Summary", "Healthy", "pass"),
        ("Summary", "Limited Capacity", "fail"),
        ("Summary", "Unhealthy", "fail"),
        ("Bandwidth", "Full", "pass"),
        ("Bandwidth", "Degraded", "fail"),
        ("Route Unhealthy", "False", "pass"),
        ("Route Unhealthy", "True", "fail"),
        ("Incorrect Configuration", "None", "pass"),
        ("Incorrect Configuration", "Incorrect SystemGUID", "fail"),
    ],
)
def test_health_of_the_fabric(word, value, verdict, declared):
    declared["gpu"].update(count=1, parts=[{**declared["gpu"]["parts"][0], "address": "0008:01:00.0"}])
    report = parse(Output(TEXT.replace(f"{word} : Not Supported", f"{word} : {value}")))
    (finding,) = gpu_fabric.decide({"nvidia_smi": report}, typed(declared))
    assert finding.verdict == verdict


def test_gpu_of_a_domain_waits_for_the_racks_fabric_manager(declared):
    declared["gpu"].update(count=1, parts=[{**declared["gpu"]["parts"][0], "address": "0008:01:00.0"}])
    report = parse(Output(TEXT.replace("Completed", "In Progress")))
    (finding,) = gpu_fabric.decide({"nvidia_smi": report}, typed(declared))
    assert "the fabric manager of the rack's NVSwitches has not registered" in finding.reason

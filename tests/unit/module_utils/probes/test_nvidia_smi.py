"""nvidia-smi -q -x."""

import re

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.host.host import Output, Unreadable
from ansible_collections.muster.cluster.plugins.module_utils.probes import nvidia_smi

TWO = ["00000000:1B:00.0", "00000000:AB:00.0"]


def test_recorded_eight_h100(recorded):
    report = nvidia_smi.parse(Output(recorded("nvidia-smi/qx-h100x8-570.86.15.xml")))
    assert report.driver == "570.86.15"
    assert [gpu.address for gpu in report.gpus][:3] == ["0000:04:00.0", "0000:05:00.0", "0000:0b:00.0"]
    assert {(gpu.model, gpu.memory_mib, gpu.vbios) for gpu in report.gpus} == {
        ("NVIDIA H100 80GB HBM3", 81559, "96.00.A5.00.01")
    }
    assert [gpu.module_id for gpu in report.gpus] == list("42138657")
    assert report.gpus[0].serial == "1652923034028"


def test_recorded_older_layout(recorded):
    (gpu,) = nvidia_smi.parse(Output(recorded("nvidia-smi/qx-a10g.xml"))).gpus
    assert (gpu.address, gpu.memory_mib, gpu.module_id) == ("0000:00:1e.0", 23028, "0")


def test_recorded_list_shorter_than_its_own_count_is_unreadable(recorded):
    with pytest.raises(Unreadable, match="says 4 of attached GPUs and describes 1") as caught:
        nvidia_smi.parse(Output(recorded("nvidia-smi/qx-a100-sxm4-v12.xml")))
    # What it says of the one stands; of the others it says nothing.
    assert (len(caught.value.read.gpus), caught.value.read.stopped) == (1, True)


@pytest.mark.parametrize("missing", ["N/A", "ERR!", "[Unknown Error]", "", "GPU requires reset"])
def test_field_that_could_not_be_read_is_none(make_gpu_xml, missing):
    report = nvidia_smi.parse(Output(make_gpu_xml(TWO, model=missing, memory=missing, serial=missing)))
    assert {(gpu.model, gpu.memory_mib, gpu.serial) for gpu in report.gpus} == {(None, None, None)}


@pytest.mark.parametrize(
    "change",
    [
        lambda xml: "",
        lambda xml: "No devices were found\n",
        lambda xml: xml.replace("nvidia_smi_log>", "log>"),
        lambda xml: xml.replace("<attached_gpus>2</attached_gpus>", ""),
        lambda xml: xml.replace("<attached_gpus>2", "<attached_gpus>8"),
        lambda xml: xml.replace("00000000:1B:00.0", "00000000:AB:00.0"),
        lambda xml: xml.replace("00000000:1B:00.0", "ERR!"),
    ],
)
def test_wrong_report_is_unreadable(make_gpu_xml, change):
    with pytest.raises(Unreadable):
        nvidia_smi.parse(Output(change(make_gpu_xml(TWO))))


def test_truncated_anywhere_is_unreadable(make_gpu_xml):
    xml = make_gpu_xml(TWO)
    # Before, inside and behind each tag and each text: what is cut inside a token reads alike wherever it is cut.
    tokens = [token.span() for token in re.finditer(r"<[^>]*>|[^<]+", xml)]
    for length in sorted({cut for start, end in tokens for cut in (start, (start + end) // 2, end)} - {len(xml)}):
        with pytest.raises(Unreadable):
            nvidia_smi.parse(Output(xml[:length]))


def test_failed_tool_is_unreadable_whatever_it_printed(make_gpu_xml):
    with pytest.raises(Unreadable, match="exit status 9"):
        nvidia_smi.parse(Output(make_gpu_xml(TWO), "NVIDIA-SMI has failed", 9))


@pytest.mark.parametrize(
    "gpu",
    [
        "GPU 0000:AB:00.0: GPU is lost.  Reboot the system to recover this GPU",
        "GPU0000:AB:00.0: GPU is lost. Reboot the system to recover this GPU",
        "GPU0000:AB:00.0: Unknown Error",
        "GPU1: 0000:AB:00.0: Unknown Error",
    ],
)
def test_lost_gpu_is_named(gpu):
    report = nvidia_smi.parse(Output("", f"Unable to determine the device handle for {gpu}\n", 15))
    assert report.lost == ("0000:ab:00.0",) and report.gpus == () and report.stopped


NO_HANDLE = (
    "Unable to determine the device handle for GPU1: 0000:AB:00.0: GPU is lost.  Reboot the system to recover\n\n\n"
)
FIRST, SECOND = "0000:1b:00.0", "0000:ab:00.0"


def of_second(xml, *changes):
    """Return the report with these changes in the part that describes the second GPU."""
    before, second = xml.split('<gpu id="00000000:AB:00.0">')
    for old, new in changes:
        assert old in second
        second = second.replace(old, new)
    return f'{before}<gpu id="00000000:AB:00.0">{second}'


def told(report):
    return [gpu.address for gpu in report.gpus], report.lost, report.nameless, report.stopped


@pytest.mark.parametrize("words", ["GPU is lost", "[GPU is lost]"])
@pytest.mark.parametrize("fields", [("32 C",), ("<serial>1652", "32 C", "Enabled", "None", "Completed", "0 %")])
def test_listed_gpu_of_which_any_value_says_that_it_is_lost_is_lost(make_gpu_xml, words, fields):
    xml = of_second(
        make_gpu_xml(TWO), *((field, field.split(">")[0] + ">" + words if ">" in field else words) for field in fields)
    )
    report = nvidia_smi.parse(Output(xml))
    assert told(report) == ([FIRST], (SECOND,), 0, False) and not report.whole
    assert report.driver == "570.86.15"


def test_text_of_a_listed_lost_gpu_is_read_alike(make_gpu_xml):
    text = """Driver Version : 550.163.01
Attached GPUs                             : 2
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
GPU 00000000:AB:00.0
    Product Name                          : GPU is lost
    GPU Reset Status
        Reset Required                    : GPU is lost
    Temperature
        GPU T.Limit Temp                  : 32766 C
    Processes                             : None
"""
    assert told(nvidia_smi.parse(Output(text))) == ([FIRST], (SECOND,), 0, False)


def test_name_of_a_users_process_loses_no_gpu(make_gpu_xml):
    named = "<processes><process_info><process_name>GPU is lost</process_name></process_info>"
    assert nvidia_smi.parse(Output(of_second(make_gpu_xml(TWO), ("<processes>", named)))).whole


# As nvidia-smi prints the name of a process that has several lines.
NAMES = [
    "Unable to determine the PCI bus id for the target device: GPU is lost",
    "a\nUnable to determine the PCI bus id for the target device: GPU is lost\n",
    "a\nUnable to determine the device handle for GPU0000:1B:00.0: GPU is lost\n",
    "a\nUnable to determine the device handle for GPU0: 0000:1B:00.0: A GPU reset must occur\n.\n",
]


@pytest.mark.parametrize("name", NAMES)
def test_name_of_a_users_process_is_no_word_of_the_driver(make_gpu_xml, name):
    named = f"<processes><process_info><process_name>{name}</process_name></process_info>"
    xml = of_second(make_gpu_xml(TWO), ("<processes>", named))
    assert told(nvidia_smi.parse(Output(xml))) == ([FIRST, SECOND], (), 0, False)
    with pytest.raises(Unreadable, match="exit status 15"):
        nvidia_smi.parse(Output(xml, rc=15))


@pytest.mark.parametrize("name", ["a\x00b", "\x1b[1ma", "a\uffff"])
def test_name_of_a_users_process_makes_no_report_unreadable(make_gpu_xml, name):
    named = f"<processes><process_info><process_name>{name}</process_name></process_info>"
    report = nvidia_smi.parse(Output(of_second(make_gpu_xml(TWO), ("<processes>", named))))
    assert report.whole and len(report.gpus[1].processes) == 1
    with pytest.raises(Unreadable):
        nvidia_smi.parse(Output(make_gpu_xml(TWO, model=name)))


@pytest.mark.parametrize("name", NAMES[2:])
def test_name_of_a_users_process_is_no_word_of_the_driver_in_a_saved_text_either(name):
    text = f"""Attached GPUs                             : 1
GPU 00000000:1B:00.0
    GPU Reset Status
        Reset Required                    : No
    Processes
        Process ID                        : 42
            Name                          : {name}
            Used GPU Memory               : 512 MiB
"""
    report = nvidia_smi.parse(Output(text))
    assert told(report) == ([FIRST], (), 0, False) and report.gpus[0].recovery_action == "None"


def test_gpu_lost_within_a_saved_text_is_counted():
    text = """Attached GPUs                             : 2
Unable to determine the PCI bus id for the target device: GPU is lost

GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
"""
    assert told(nvidia_smi.parse(Output(text, rc=15))) == ([FIRST], (), 1, False)


@pytest.mark.parametrize("stream", ["stderr", "before", "behind"])
def test_gpus_beside_one_without_a_handle_are_described(make_gpu_xml, stream):
    xml = make_gpu_xml(TWO[:1], attached=2)
    # nvidia-smi 580 prints to both, and a file may hold both.
    outputs = {"stderr": (xml, NO_HANDLE), "before": (NO_HANDLE + xml, ""), "behind": (f"{xml}\n{NO_HANDLE}", "")}
    report = nvidia_smi.parse(Output(*outputs[stream]))
    assert told(report) == ([FIRST], (SECOND,), 0, False) and report.driver == "570.86.15"


@pytest.mark.parametrize(
    "change", [lambda xml: xml[:-30], lambda xml: xml.replace("<attached_gpus>2", "<attached_gpus>3"), lambda xml: ""]
)
def test_report_that_is_not_whole_beside_a_lost_gpu_says_nothing_of_the_others(make_gpu_xml, change):
    report = nvidia_smi.parse(Output(change(make_gpu_xml(TWO[:1], attached=2)), NO_HANDLE))
    assert told(report) == ([], (SECOND,), 0, True) and report.driver is None


def test_gpu_that_was_described_and_then_gave_no_handle_is_lost(make_gpu_xml):
    assert told(nvidia_smi.parse(Output(make_gpu_xml(TWO), NO_HANDLE))) == ([FIRST], (SECOND,), 0, False)


def test_gpu_that_is_lost_and_has_to_be_reset_is_lost(make_gpu_xml):
    line = "Unable to determine the device handle for GPU1: 0000:AB:00.0: A GPU reset must occur before\n"
    for output in (
        Output(of_second(make_gpu_xml(TWO), ("32 C", "GPU is lost")), line),
        Output(make_gpu_xml(TWO), line + NO_HANDLE),
        Output(make_gpu_xml(TWO), NO_HANDLE + line),
    ):
        assert told(nvidia_smi.parse(output)) == ([FIRST], (SECOND,), 0, False)


def test_count_of_the_report_hides_no_lost_gpu(make_gpu_xml):
    xml = of_second(make_gpu_xml(TWO, attached=1), ("32 C", "GPU is lost"))
    assert told(nvidia_smi.parse(Output(xml))) == ([], (SECOND,), 0, True)


def test_lost_gpu_without_an_address_is_counted(make_gpu_xml):
    line = "<error_string>Unable to determine the PCI bus id for the target device: GPU is lost</error_string>"
    xml = make_gpu_xml(TWO[:1], attached=2).replace("</nvidia_smi_log>", f"{line}</nvidia_smi_log>")
    assert told(nvidia_smi.parse(Output(xml, rc=15))) == ([FIRST], (), 1, False)
    with pytest.raises(Unreadable, match="exit status 15"):
        nvidia_smi.parse(Output(make_gpu_xml(TWO), rc=15))


@pytest.mark.parametrize("stopped", [True, False])
def test_gpu_that_gives_no_handle_before_a_reset_asks_for_one(make_gpu_xml, stopped):
    line = (
        "Unable to determine the device handle for {}0000:AB:00.0: A GPU reset must occur before this GPU can be used"
    )
    said = f"{line.format('GPU' if stopped else 'GPU1: ')} again.\n\n.\n"
    output = Output(said, rc=15) if stopped else Output(make_gpu_xml(TWO[:1], attached=2), said)
    report = nvidia_smi.parse(output)
    assert told(report) == ([SECOND] if stopped else [FIRST, SECOND], (), 0, stopped)
    assert (report.gpus[-1].recovery_action, report.gpus[-1].model) == ("Reset", None)


@pytest.mark.parametrize(
    ("changes", "action"),
    [
        ((), "None"),
        ((("<gpu_recovery_action>None", "<gpu_recovery_action>Reboot"), ("32 C", "GPU requires reset")), "Reboot"),
        ((("32 C", "GPU requires reset"),), "Reset"),
        ((("<gpu_recovery_action>None", "<gpu_recovery_action>N/A"), ("32 C", "[GPU requires reset]")), "Reset"),
    ],
)
def test_value_that_says_reset_asks_for_one_whatever_stands_elsewhere(make_gpu_xml, changes, action):
    assert nvidia_smi.parse(Output(of_second(make_gpu_xml(TWO), *changes))).gpus[1].recovery_action == action


@pytest.mark.parametrize(
    ("required", "recommended", "action"),
    [
        ("No", "No", "None"),
        ("No", "N/A", "None"),
        ("Yes", "No", "Reset"),
        ("No", "Yes", "Drain and Reset"),
        ("N/A", "Yes", "Drain and Reset"),
        ("N/A", "No", None),
        ("Unknown Error", "N/A", None),
    ],
)
def test_drivers_before_570_tell_of_resets_without_naming_an_action(required, recommended, action):
    text = f"""Attached GPUs                             : 1
GPU 00000000:1B:00.0
    GPU Reset Status
        Reset Required                    : {required}
        Drain and Reset Recommended       : {recommended}
"""
    assert nvidia_smi.parse(Output(text)).gpus[0].recovery_action == action


@pytest.mark.parametrize("words", ["Function Not Found", "Corrupted infoROM", "[Insufficient Permissions]"])
def test_words_of_an_nvml_error_are_no_serial_number(make_gpu_xml, words):
    assert nvidia_smi.parse(Output(make_gpu_xml(TWO, serial=words))).gpus[0].serial is None


QUERY = """index, name, pci.bus_id, uuid, memory.total [MiB], temperature.gpu, power.draw [W], ecc.mode.current, count
0, NVIDIA H100 80GB HBM3, 00000000:1B:00.0, GPU-1, 81559 MiB, 41, 69.62 W, Enabled, 2
1, NVIDIA H100 80GB HBM3, 00000000:AB:00.0, GPU-2, 81559 MiB, [Unknown Error], [N/A], Disabled, 2
"""


@pytest.mark.parametrize("text", [QUERY, QUERY.replace(" MiB,", ",").replace(" W,", ",")])
def test_query_saved_as_csv_is_read_with_and_without_units(text):
    first, second = nvidia_smi.parse(Output(text)).gpus
    assert (first.memory_mib, first.heat.gpu, first.power_watts, first.ecc) == (81559, 41, 69.62, True)
    assert (second.address, second.heat.gpu, second.ecc) == ("0000:ab:00.0", None, False)
    assert second.sensor_errors == {"temperature": "[Unknown Error]"}


def test_query_tells_flags_and_reasons_as_numbers_too():
    text = (
        "gpu_bus_id, remapped_rows.pending, remapped_rows.failure, clocks_event_reasons.active, "
        "ecc.errors.uncorrected.volatile.total\n"
        "00000000:1B:00.0, 0, 1, 0x0000000000000048, 4\n00000000:AB:00.0, 1, No, 0x0000000000000001, [N/A]\n"
    )
    first, second = nvidia_smi.parse(Output(text)).gpus
    assert [(gpu.remapped_rows.pending, gpu.remapped_rows.failure) for gpu in (first, second)] == [
        (False, True),
        (True, False),
    ]
    assert {name for name, holds in first.throttle.items() if holds} == {"hw_slowdown", "hw_thermal_slowdown"}
    assert {name for name, holds in second.throttle.items() if holds} == {"idle"}
    assert (first.volatile.uncorrectable, second.volatile.uncorrectable) == (4, None)


def test_query_that_names_gpus_by_index_alone_is_unreadable():
    with pytest.raises(Unreadable, match=r"pci\.bus_id"):
        nvidia_smi.parse(Output("index, remapped_rows.pending\n0, No\n"))


@pytest.mark.parametrize(
    "text",
    [
        QUERY.replace(", 2\n", ", 3\n"),
        QUERY.splitlines(keepends=True)[0],
        "".join(QUERY.splitlines(keepends=True)[:2]),
        QUERY.rstrip("\n"),
        QUERY.replace("GPU-2, ", ""),
        QUERY.replace("1B:00.0", "AB:00.0"),
        QUERY.replace("00000000:1B:00.0", "[N/A]"),
    ],
)
def test_query_that_lacks_a_gpu_or_a_cell_is_unreadable(text):
    with pytest.raises(Unreadable):
        nvidia_smi.parse(Output(text))

"""The page on burn-in names its loads and leads to the checks, and its example is a profile."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_plan import steps_of
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import STRESSES
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.fleet import Fleet
from ansible_collections.muster.cluster.plugins.plugin_utils.ramp.ramp_plan import Drawing, planned

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "burn_in.md").read_text(encoding="utf-8")


def example_with(word: str, page: str = PAGE) -> Any:
    (example,) = [text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if word in text]
    return yaml.safe_load(example)


def test_every_stress_is_named_and_checks_are_a_link_away():
    assert [name for name in STRESSES if f"`{name}`" not in PAGE] == []
    # test_checks.py holds that page to the registry.
    assert "(checks.md)" in PAGE


def test_the_example_is_a_profile_that_can_be_run():
    (profile,) = example_with("burn_in_profiles")["policy"]["burn_in_profiles"].values()
    assert [step.name for step in steps_of(profile["steps"])][-2:] == ["warm reboot", "examine"]


def test_the_example_of_power_starts_as_many_nodes_as_the_page_says():
    guide = (DOCS / "getting_started.md").read_text(encoding="utf-8")
    data = {**example_with("cluster: mysite", guide), **example_with("kilowatts:")}
    fleet = Fleet.from_data(data, "mysite.fleet.yml")
    turns = planned(fleet, list(fleet.compute), Drawing())
    (many,) = re.findall(r"Each of these feeds starts (\d+) nodes in the first run", PAGE)
    started = Counter(turn.feed for turn in turns.values() if not turn.waits)
    assert started == {"feed feed-1": int(many), "feed feed-2": int(many)}

"""The page on burn-in names its loads and leads to the checks, and its example is a profile."""

import re
from pathlib import Path

import yaml
from ansible_collections.muster.cluster.plugins.module_utils.burn_in.burn_in_plan import steps_of
from ansible_collections.muster.cluster.plugins.module_utils.examination.registry import STRESSES

PAGE = Path(__file__).parents[3].joinpath("docs/burn_in.md").read_text(encoding="utf-8")


def test_every_stress_is_named_and_checks_are_a_link_away():
    assert [name for name in STRESSES if f"`{name}`" not in PAGE] == []
    # test_checks.py holds that page to the registry.
    assert "(checks.md)" in PAGE


def test_the_example_is_a_profile_that_can_be_run():
    (example,) = [text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "burn_in_profiles" in text]
    (profile,) = yaml.safe_load(example)["policy"]["burn_in_profiles"].values()
    assert [step.name for step in steps_of(profile["steps"])][-2:] == ["warm reboot", "examine"]

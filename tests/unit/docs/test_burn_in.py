"""The page on burn-in names all that burn-in does, and its example is a profile."""

import re
from pathlib import Path

import yaml
from ansible_collections.muster.cluster.plugins.module_utils.burn_in_plan import steps_of
from ansible_collections.muster.cluster.plugins.module_utils.registry import STAGE_CHECKS, STRESSES

PAGE = Path(__file__).parents[3].joinpath("docs/burn_in.md").read_text(encoding="utf-8")


def test_every_check_and_every_stress_of_burn_in_is_named():
    assert [name for name in (*STAGE_CHECKS["burn_in"], *STRESSES) if f"`{name}`" not in PAGE] == []


def test_the_example_is_a_profile_that_can_be_run():
    (example,) = [text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "burn_in_profiles" in text]
    (profile,) = yaml.safe_load(example)["policy"]["burn_in_profiles"].values()
    assert [step.name for step in steps_of(profile["steps"])][-2:] == ["warm reboot", "examine"]

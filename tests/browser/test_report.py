"""The report as a browser shows it: opened from disk, small and large, light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.muster.cluster.plugins.module_utils.words.evidence import Evidence
from ansible_collections.muster.cluster.plugins.module_utils.words.finding import Finding
from ansible_collections.muster.cluster.plugins.plugin_utils.fleet.latency import LatencyProfile
from ansible_collections.muster.cluster.plugins.plugin_utils.report.acceptance_shown import Recorded
from ansible_collections.muster.cluster.plugins.plugin_utils.report.measured import measured
from ansible_collections.muster.cluster.plugins.plugin_utils.report.page import About, report_page
from ansible_collections.muster.cluster.plugins.plugin_utils.report.verdict_rows import Verdict

from .observed import START, Sick, Site, rounds

SICK = Sick({"gpu-0007": 1.12}, {("gpu-0011", 3): 1.6}, {("gpu-0005", "gpu-0020"): 1.5})
# By name the fleet, how many permutations were walked, what is wrong.
PAGES = {
    "few": (Site(3), 3, Sick({"gpu-0003": 1.3})),
    "small": (Site(32, rack=4, pod=16), 31, SICK),
    "large": (Site(3072, rack=2, pod=384), 60, SICK),
}
PROFILE = LatencyProfile("mini_cluster", "all_reduce", (65536, 262144, 1048576), {16: 60.0, 32: 60.0, 64: 60.0})
# What a text may stand out of its plot, in CSS pixels: the browser's font is not the one that was laid out with.
SLACK = 2
LAID_OUT = """
() => [...document.querySelectorAll('figure svg')].map(svg => {
  const whole = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')].map(text => {
    const box = text.getBoundingClientRect();
    return {text: text.textContent, left: box.left, right: box.right, top: box.top, bottom: box.bottom};
  });
  return {
    title: svg.closest('figure').querySelector('h3').textContent,
    left: whole.left, right: whole.right, top: whole.top, bottom: whole.bottom, texts,
  };
})
"""
CONTRAST = """
() => {
  const numbers = colour => colour.match(/[0-9.]+/g).slice(0, 3).map(Number);
  const light = colour => {
    const linear = part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = numbers(colour).map(part => linear(part / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const texts = 'figure svg text, figcaption, .campaign td, .campaign p, .campaign th';
  return [...document.querySelectorAll(texts)].map(one => {
    const style = getComputedStyle(one);
    const ink = light(one instanceof SVGElement ? style.fill : style.color);
    const card = one.closest('figure, .panel') ?? document.body;
    const paper = light(getComputedStyle(card).backgroundColor);
    return {text: one.textContent.slice(0, 40), ratio: (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05)};
  });
}
"""


def page_of(site: Site, permutations: int, faults: Sick) -> str:
    stored = rounds(site, permutations, faults)
    bad = {*faults.nodes, *(node for node, _ in faults.rails)}
    told = {1: "1 node slow with everybody, 1 rail, 1 pair", 2: "every boundary good"}
    one = Recorded("c0ffee-1", "hgx_h100", tuple(stored), measured(stored), told, PROFILE)
    verdicts, evidence = [], {}
    for name in site.names:
        sick = name in bad
        finding = Finding(
            "pair_bandwidth", "network", "fail" if sick else "pass", 42.0, 47.0, "GB/s", "measured", "none"
        )
        verdicts.append(Verdict(name, "rejected" if sick else "admitted", "acceptance", (finding,)))
        record: dict[str, Any] = {"id": f"{name}-1", "node": name, "stage": "acceptance", "started": START}
        record |= {"finished": START + 400, "boot_id": "b", "fingerprint": {}, "expect_digest": "ab"}
        evidence[name] = [Evidence(**record, findings=(finding,), detail={"campaign": "c0ffee-1"})]
    about = About(START + 500, "east", "0.1.0", "5b0c8a4e", recorded=(one,))
    return report_page(verdicts, evidence, about, site.places)


@pytest.fixture(scope="module", params=PAGES)
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / f"{request.param}.html"
    path.write_text(page_of(*PAGES[request.param]), encoding="utf-8")
    return path


Open = Callable[..., Any]


@pytest.fixture
def opened(browser: Any, file: Path) -> Iterator[Open]:
    """Return what opens the page; whatever it complains of or asks for beside itself fails the test at its end."""
    contexts, complaints = [], []

    def open_page(scheme: str = "light", width: int = 1280) -> Any:
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(f"console: {said.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on(
            "request",
            lambda asked: (
                None
                if asked.url.startswith(("data:image/png", file.as_uri()))
                else complaints.append(f"asks for {asked.url}")
            ),
        )
        page.set_default_timeout(20_000)
        page.goto(file.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def test_heat_map_has_its_size_and_is_drawn(opened: Open, file: Path) -> None:
    page = opened()
    image = page.locator("figure.wide image").first
    box, plot = image.bounding_box(), page.locator("figure.wide svg").bounding_box()
    assert box["width"] == pytest.approx(box["height"], rel=0.02), "as many rows as columns"
    assert box["width"] > 0.6 * plot["width"] > 300
    # A blocked or broken image would be nothing but the card behind it.
    colours = page.evaluate(
        """async () => {
          const source = document.querySelector('figure.wide image').getAttribute('href');
          const picture = new Image(); picture.src = source; await picture.decode();
          const canvas = document.createElement('canvas');
          canvas.width = picture.naturalWidth; canvas.height = picture.naturalHeight;
          const drawn = canvas.getContext('2d'); drawn.drawImage(picture, 0, 0);
          const dots = drawn.getImageData(0, 0, canvas.width, canvas.height).data;
          const seen = new Set(); for (let at = 0; at < dots.length; at += 4) seen.add(dots.slice(at, at + 4).join());
          return [canvas.width, canvas.height, seen.size];
        }"""
    )
    nodes = PAGES[file.stem][0].nodes
    assert colours[0] == colours[1] and min(nodes, 32) <= colours[0] <= 256 and colours[2] > min(nodes, 10)


def test_links_lead_to_their_evidence_and_open_it(opened: Open, file: Path) -> None:
    page = opened()
    broken = page.evaluate(
        """() => [...document.querySelectorAll('a[href]')].map(link => link.getAttribute('href'))
          .filter(to => !to.startsWith('#') || !document.getElementById(to.slice(1)))"""
    )
    assert broken == []
    # Of a rejected node, which is open or near the top, and of an admitted one behind its folded heading.
    for name in (*PAGES[file.stem][2].nodes, "gpu-0001"):
        # Selectors by text take minutes among the elements of 3,000 nodes.
        to = page.evaluate(
            """name => {
              const link = [...document.querySelectorAll('.campaign a')].find(one => one.textContent === name);
              link.click();
              return link.getAttribute('href').slice(1);
            }""",
            name,
        )
        page.wait_for_function(
            """id => { const box = document.getElementById(id).getBoundingClientRect();
                       return box.height > 20 && box.top >= -1 && box.top < innerHeight; }""",
            arg=to,
            timeout=10_000,
        )
        assert page.evaluate("[location.hash, document.querySelector(location.hash + ' .name').textContent]") == [
            f"#{to}",
            name,
        ]
    told = page.evaluate(
        """id => { const card = document.getElementById(id); card.open = true;
                   card.querySelector('a[href*=round]').click();
                   return document.querySelector('tr:target').textContent; }""",
        to,
    )
    assert told.startswith("1 walk")


@pytest.mark.parametrize("width", [375, 1280])
def test_no_page_is_wider_than_its_screen(opened: Open, width: int) -> None:
    page = opened(width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [375, 1280])
def test_no_text_of_a_plot_is_cut_or_lies_on_another(opened: Open, width: int) -> None:
    for plot in opened(width=width).evaluate(LAID_OUT):
        for text in plot["texts"]:
            cut = (
                text["left"] < plot["left"] - SLACK
                or text["right"] > plot["right"] + SLACK
                or text["top"] < plot["top"] - SLACK
                or text["bottom"] > plot["bottom"] + SLACK
            )
            assert not cut, f"{plot['title']}: {text['text']} is cut"
        texts = plot["texts"]
        for at, one in enumerate(texts):
            for other in texts[at + 1 :]:
                apart = (
                    one["right"] <= other["left"] + 1
                    or other["right"] <= one["left"] + 1
                    or one["bottom"] <= other["top"] + SLACK
                    or other["bottom"] <= one["top"] + SLACK
                )
                assert apart, f"{plot['title']}: {one['text']} lies on {other['text']}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_is_readable_in_light_and_dark(opened: Open, scheme: str, pictures: Path, file: Path) -> None:
    page = opened(scheme)
    pale = [f"{one['text']}: {one['ratio']:.1f}" for one in page.evaluate(CONTRAST) if one["ratio"] < 4.5]
    assert pale == [], "less than WCAG's AA"
    page.locator(".campaign").screenshot(path=pictures / f"{file.stem}-{scheme}.png")


def test_nothing_else_could_be_loaded_or_run(browser: Any, file: Path) -> None:
    page = browser.new_page()
    page.goto(file.as_uri())
    blocked = page.evaluate(
        """() => new Promise(done => {
          const found = [];
          document.addEventListener('securitypolicyviolation', event => {
            found.push(event.effectiveDirective);
            if (found.length === 3) done(found.sort());
          });
          const image = document.createElement('img'); image.src = 'http://127.0.0.1:9/x.png';
          const program = document.createElement('script'); program.src = 'x.js';
          const style = document.createElement('link'); style.rel = 'stylesheet'; style.href = 'x.css';
          document.head.append(image, program, style);
          setTimeout(() => done(found.sort()), 3000);
        })"""
    )
    page.close()
    assert blocked == ["img-src", "script-src-elem", "style-src-elem"]

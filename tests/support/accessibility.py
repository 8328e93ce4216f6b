"""Accessibility check of pages by axe-core."""

from __future__ import annotations

from importlib.resources import files

from playwright.sync_api import Page

AXE = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
RUN = """async options => {
  const {violations} = await axe.run(document,
    {...options, iframes: false, resultTypes: ['violations']});
  return violations.map(({id, nodes}) =>
    `${id}: ${nodes.length}, first ${nodes[0].target}: ${nodes[0].failureSummary}`);
}"""
# Texts whose contrast is below the 4.5 to 1 of WCAG 2.
CONTRAST = """() => {
  const luminance = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] === 1) { return c; }
    }
    return [255, 255, 255];
  };
  const failing = [];
  const texts = 'p,li,dt,dd,td,th,h2,h3,a,figcaption,caption,summary';
  for (const e of document.querySelectorAll(texts)) {
    if (!e.textContent.trim() || e.closest('.hero,.sr,.skip')) { continue; }
    const [one, two] = [rgb(getComputedStyle(e).color), behind(e)].map(luminance);
    const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    if (ratio < 4.5) { failing.push(`${ratio.toFixed(2)} ${e.tagName} ${e.className}`); }
  }
  return [...new Set(failing)];
}"""
SCREENS = ((1366, "light"), (390, "dark"))


def violations(page: Page, *, contrast: bool = True) -> list[str]:
    """Return each violated rule with the number of nodes and the first of them."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    options = {} if contrast else {"rules": {"color-contrast": {"enabled": False}}}
    broken_rules: list[str] = page.evaluate(RUN, options)
    return broken_rules


def violations_on_screens(page: Page) -> list[str]:
    """Return the violations on a desktop in light mode and on a phone in dark mode."""
    broken_rules = []
    for width, scheme in SCREENS:
        page.set_viewport_size({"width": width, "height": 768})
        page.emulate_media(color_scheme=scheme)
        broken_rules += [f"{width} px, {scheme}: {rule}" for rule in violations(page)]
    return broken_rules

"use strict";
(function () {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const choices = ["auto", "light", "dark"];
  function remembered() {
    try { return localStorage.getItem("storlab-theme") || "auto"; } catch { return "auto"; }
  }
  function show(choice) {
    if (choice === "auto") { root.removeAttribute("data-theme"); }
    else { root.setAttribute("data-theme", choice); }
    button.textContent = "Theme: " + choice;
  }
  let choice = choices.includes(remembered()) ? remembered() : "auto";
  show(choice);
  button.hidden = false;
  button.addEventListener("click", function () {
    choice = choices[(choices.indexOf(choice) + 1) % choices.length];
    show(choice);
    try { localStorage.setItem("storlab-theme", choice); } catch { /* private windows may refuse to store the choice */ }
  });

  /* Open a collapsed part that a link leads into. */
  function unfold() {
    let place;
    try { place = document.getElementById(decodeURIComponent(location.hash.slice(1))); } catch { return; }
    if (!place) { return; }
    const wanted = place;
    let folded = false;
    for (; place; place = place.parentElement) {
      if (place.tagName === "DETAILS" && !place.open) { place.open = true; folded = true; }
    }
    if (folded) { wanted.scrollIntoView({ behavior: "instant" }); }
  }
  window.addEventListener("hashchange", unfold);
  unfold();

  /* While a table scrolls sideways its first heading stays visible by CSS; the others only if all
     headings of a row take less than half the width. */
  const pins = new ResizeObserver(function (seen) {
    for (const { target: box } of seen) {
      const heads = [...box.querySelectorAll("thead .pin")];
      let left = 0;
      for (const [number, head] of heads.entries()) {
        for (const cell of box.querySelectorAll(".pin.k" + number)) {
          cell.style.setProperty("--left", left + "px");
        }
        left += head.getBoundingClientRect().width;
      }
      box.classList.toggle("pinned", heads.length > 1 && left < box.clientWidth / 2);
    }
  });
  for (const table of document.querySelectorAll("table.data:has(.pin)")) {
    pins.observe(table.parentElement);
  }

  /* Close a menu of the navigation after a choice, a click elsewhere, or Escape. */
  const menus = document.querySelectorAll(".menu");
  document.addEventListener("click", function (event) {
    for (const menu of menus) {
      if (event.target.closest("a") || !menu.contains(event.target)) { menu.open = false; }
    }
  });
  document.addEventListener("keydown", function (event) {
    for (const menu of menus) {
      if (event.key !== "Escape" || !menu.open) { continue; }
      if (menu.contains(document.activeElement)) { menu.firstElementChild.focus(); }
      menu.open = false;
    }
  });

  /* Replace static figures by interactive ones that show values on hover, once they come into view. */
  async function enliven(plot) {
    const figure = plot.closest("figure");
    /* The interactive figure reuses the hatch patterns of the static one, so their ids must match. */
    const still = plot.querySelector("svg");
    const own = "url(#" + figure.id.slice("fig-".length) + "-hatch";
    const spec = JSON.parse(
      figure.querySelector("script.spec").textContent.replaceAll("url(#hatch", own));
    const live = document.createElement("div");
    live.className = "live";
    try {
      await window.vegaEmbed(live, spec, { renderer: "svg", actions: false });
    } catch { return; /* keep the static figure */ }
    const svg = live.querySelector("svg");
    const hatches = still.querySelectorAll("pattern");
    if (hatches.length) {
      const defs = document.createElementNS("http://www.w3.org/2000/svg", "defs");
      hatches.forEach(function (hatch) { defs.append(hatch); });
      svg.prepend(defs);
    }
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", plot.dataset.alt);
    /* Vega gives graphics ARIA roles without names, so hide them: the figure has a label and a table. */
    for (const part of svg.children) { part.setAttribute("aria-hidden", "true"); }
    /* Keep the size of the static figure, so that the page does not move if fonts differ. */
    const width = still.getAttribute("width"), height = still.getAttribute("height");
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    svg.style.aspectRatio = width + " / " + height;
    plot.replaceChildren(live);
    plot.dataset.live = "yes";
  }
  if (window.vegaEmbed) {
    const begun = new WeakSet();
    function begin(plot) {
      if (begun.has(plot)) { return; }
      begun.add(plot);
      enliven(plot);
    }
    const seen = new IntersectionObserver(function (entries) {
      for (const entry of entries) {
        if (entry.isIntersecting) { begin(entry.target); }
      }
    }, { rootMargin: "200px" });
    for (const plot of document.querySelectorAll(".plot")) {
      seen.observe(plot);
      /* On a busy machine Chromium may not report that a figure came into view. */
      plot.addEventListener("pointerenter", function () { begin(plot); });
    }
  }
})();

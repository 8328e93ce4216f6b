"use strict";
/* Draws what /events tells. Names of targets and studies are only ever text, never markup. */
(function () {
  const SVG = "http://www.w3.org/2000/svg";
  const MOST_MOMENTS = 1800, MOST_RUNS = 200, MOST_NOTES = 30;
  const LEFT = 64, RIGHT = 12, LANE = 96, HEAT = 142, STRIP = 26, FOOT = 22, FLAG = 18;
  const $ = (id) => document.getElementById(id);
  let state = null;
  let pointed = null; /* a moment's time, while one is pointed at */

  /* ---- words ---- */
  const digits = (value) => {
    const kept = Math.abs(value) >= 100 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 };
    return value.toLocaleString("en-US", kept);
  };
  const latency = (ns) => ns >= 1e9 ? digits(ns / 1e9) + " s" : ns >= 1e6 ? digits(ns / 1e6) + " ms"
    : ns >= 1e3 ? digits(ns / 1e3) + " µs" : digits(ns) + " ns";
  const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });
  function duration(s) {
    const whole = Math.round(s), h = Math.floor(whole / 3600), m = Math.floor(whole % 3600 / 60);
    return h ? h + " h " + m + " min" : m ? m + " min " + whole % 60 + " s" : whole + " s";
  }
  const rate = (v) => [digits(v / 1e6), "MB/s"];
  const unit = (name) => (v) => [digits(v), name];
  /* As in the brief, from top to bottom: a heat map, and lanes of one or two lines. */
  const LANES = [
    { title: "Latency", axis: "log; shade: share", heat: true, lines: [{ field: "heat", title: "Latency" }] },
    { title: "Throughput", axis: "MB/s", scale: 1e-6, lines: [
      { field: "bytes_s", title: "Throughput", colour: "--s1", text: rate }] },
    { title: "p99 latency", axis: "log; dashed: flushes", scale: 1, tick: latency, lines: [
      { field: "p99_ns", title: "p99 latency", colour: "--s2", text: (v) => latency(v).split(" ") },
      { field: "flush_p99_ns", title: "p99 of flushes", colour: "--s5",
        text: (v) => latency(v).split(" ") }] },
    { title: "Device", axis: "MB/s; dashed: written", scale: 1e-6, lines: [
      { field: "device_read_s", title: "Device read", colour: "--s3", text: rate },
      { field: "device_written_s", title: "Device written", colour: "--s5", text: rate }] },
    { title: "Client CPU", axis: "% of a core", scale: 1, lines: [
      { field: "cpu_percent", title: "Client CPU", colour: "--s3", text: unit("% of a core") }] },
    { title: "Power", axis: "W", scale: 1, lines: [
      { field: "power_w", title: "Power", colour: "--s4", text: unit("W") }] },
    { title: "Temperature", axis: "°C", scale: 1, lines: [
      { field: "celsius", title: "Temperature", colour: "--s6", text: unit("°C") }] },
  ];
  const LINES = LANES.filter((lane) => !lane.heat).flatMap((lane) => lane.lines);
  const tall = (lane) => lane.heat ? HEAT : LANE;
  const at = (moment, field) => moment[state.fields.indexOf(field)];

  function put(parent, name, text, className) {
    const made = document.createElement(name);
    if (text !== undefined) { made.textContent = text; }
    if (className) { made.className = className; }
    parent.append(made);
    return made;
  }
  function draw(parent, name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) { made.setAttribute(key, value); }
    if (text !== undefined) { made.textContent = text; }
    parent.append(made);
    return made;
  }
  function say(id, text) { if ($(id).textContent !== text) { $(id).textContent = text; } }

  /* ---- head and figures ---- */
  function head() {
    say("study", state.study);
    document.title = state.done + " of " + state.planned + " – " + state.study + " – storlab live";
    const run = state.run, words = {
      begins: "The campaign begins.", prepares: "Preparing the targets.",
      runs: "Between two runs.", concludes: "All is measured; the brief is being written.",
    };
    say("now", state.over ? state.over.text
      : run ? "Run " + (run.number + 1) + ": " + run.target + ", " + run.name : words[state.stage]);
    const counts = [state.done + " of " + state.planned + " runs"];
    if (state.earlier) { counts.push(state.earlier + " of them before this session"); }
    if (state.failed) { counts.push(state.failed + " failed"); }
    if (!state.over && state.left_s > 0) { counts.push("about " + duration(state.left_s) + " left"); }
    say("counts", counts.join(", "));
    const last = state.moments.at(-1);
    let part = 0;
    if (run && last) { part = Math.min(1, (at(last, "at_ms") - run.at_ms) / 1000 / run.expected_s); }
    $("progress").value = Math.max(0, state.done + part) / Math.max(1, state.planned);
    const step = state.step;
    $("step").hidden = !step;
    if (step) {
      say("step-text", step.text);
      if (step.total) { $("step-bar").value = Math.min(1, step.done / step.total); }
      else { $("step-bar").removeAttribute("value"); }
    }
  }
  function figures() {
    $("figures-section").hidden = Boolean(state.over); /* nothing is measured any more */
    const last = state.moments.at(-1);
    const tiles = [["Phase", state.phase || "–", ""]];
    for (const line of LINES) {
      if (!known(line)) { continue; }
      const value = last ? at(last, line.field) : null;
      tiles.push([line.title, ...(value === null ? ["–", ""] : line.text(value))]);
      const rate = last ? at(last, "operations_s") : null;
      if (line.field === "bytes_s") {
        const unit = state.run ? state.run.unit : "";
        tiles.push(["Rate", ...(rate === null ? ["–", ""] : [digits(rate), unit])]);
      }
    }
    $("figures").replaceChildren();
    for (const [title, value, unit] of tiles) {
      const tile = put($("figures"), "div");
      put(tile, "dt", title);
      const shown = put(tile, "dd", value);
      if (unit) { shown.append(" "); put(shown, "small", unit); }
    }
  }
  function known(line) {
    return line.field === "bytes_s" || state.moments.some((m) => at(m, line.field) !== null);
  }

  /* ---- the course ---- */
  function nice(most) {
    const power = 10 ** Math.floor(Math.log10(most || 1));
    return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= most) || most;
  }
  function shown() {
    const last = state.moments.length ? at(state.moments.at(-1), "at_ms") : Date.now();
    const wanted = last - 1000 * Number($("span").value);
    const moments = state.moments.filter((m) => at(m, "at_ms") >= wanted);
    const from = moments.length ? at(moments[0], "at_ms") : last;
    return { moments, last, from, end: Math.max(last, from + 60000) };
  }
  function course() {
    const width = Math.max(280, $("course").clientWidth), { moments, from, end } = shown();
    const lanes = LANES.filter((lane) => lane.lines.some(known)), marks = flagged(moments);
    const low = lanes.reduce((sum, lane) => sum + tall(lane), STRIP), height = low + marks.size * FLAG + FOOT;
    const x = (ms) => LEFT + (width - LEFT - RIGHT) * (ms - from) / Math.max(1, end - from);
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", "0 0 " + width + " " + height);
    svg.setAttribute("height", height);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", spoken(moments, marks));
    strip(svg, moments, x);
    shade(svg, moments, x, low);
    dips(svg, from, x, low);
    lanes.reduce((top, lane) => {
      (lane.heat ? heat : one)(svg, lane, moments, x, top, width);
      return top + tall(lane);
    }, STRIP);
    flags(svg, marks, x, low);
    ticks(svg, from, end, x, height);
    if (pointed !== null && pointed >= from) {
      draw(svg, "line", { class: "cross", x1: x(pointed), x2: x(pointed), y1: STRIP, y2: height - FOOT });
    }
    $("course").replaceChildren(svg);
  }
  function spoken(moments, marks) {
    const last = moments.at(-1);
    const now = last ? LINES.filter((l) => at(last, l.field) !== null)
      .map((l) => l.title + " " + l.text(at(last, l.field)).join(" ")) : [];
    return "Course over time. " + (now.length ? "Last: " + now.join(", ") : "Nothing is measured now.")
      + (marks.size ? " Flags: " + [...marks.keys()].join(", ") : "");
  }
  function stretches(moments, field) {
    const found = [];
    for (const moment of moments) {
      const value = at(moment, field), last = found.at(-1), ms = at(moment, "at_ms");
      if (last && last.value === value) { last.to = ms; }
      else { if (last) { last.to = ms; } found.push({ value, from: ms, to: ms }); }
    }
    return found;
  }
  function strip(svg, moments, x) {
    for (const part of stretches(moments, "run")) {
      if (part.value === null) { continue; }
      const row = state.runs.find((r) => r.number === part.value);
      const run = row || (state.run && state.run.number === part.value ? state.run : null);
      const wide = Math.max(1, x(part.to) - x(part.from)), flagged = row && row.flags.length > 0;
      draw(svg, "rect", { class: flagged ? "strip flagged" : "strip", x: x(part.from), y: 3, width: wide, height: STRIP - 8, rx: 3 });
      const room = Math.floor((wide - 8) / 6.6), number = String(part.value + 1);
      const text = (flagged ? "⚑ " : "") + number + (run ? " " + run.target + ", " + run.name : "");
      if (room >= number.length) {
        draw(svg, "text", { x: x(part.from) + 4, y: STRIP - 9 },
          text.length <= room ? text : room > 12 ? text.slice(0, room - 1) + "…" : number);
      }
    }
  }
  function shade(svg, moments, x, low) {
    for (const part of stretches(moments, "phase")) {
      if (part.value === "measure" || part.to === part.from) { continue; }
      draw(svg, "rect", { class: "shade", x: x(part.from), y: STRIP, width: x(part.to) - x(part.from), height: low - STRIP });
    }
  }
  /* What the brief's rule finds in each run's window. */
  function dips(svg, from, x, low) {
    for (const [start, end] of state.dips.filter((dip) => dip[1] > from)) {
      const left = x(Math.max(start, from));
      draw(svg, "rect", { class: "dip", x: left, y: STRIP, width: x(end) - left, height: low - STRIP });
    }
  }
  /* By kind of flag when it held in the runs that have it; the whole run where nobody knows when. */
  function flagged(moments) {
    const found = new Map(), own = new Map(state.runs.map((run) => [run.number, run.flags]));
    for (const part of stretches(moments, "run")) {
      const held = state.held[part.value] || {};
      for (const { kind } of part.value === null ? [] : own.get(part.value) || []) {
        const spans = held[kind] === undefined ? [{ ...part, whole: true }]
          : held[kind].filter((span) => span[1] >= part.from)
            .map(([from, to]) => ({ from: Math.max(from, part.from), to }));
        if (spans.length) { found.set(kind, [...found.get(kind) || [], ...spans]); }
      }
    }
    return found;
  }
  function flags(svg, marks, x, low) {
    [...marks].forEach(([kind, parts], row) => {
      const top = low + row * FLAG;
      for (const part of parts) {
        draw(svg, "rect", { class: part.whole ? "mark whole" : "mark", x: x(part.from), y: top + 1, width: Math.max(2, x(part.to) - x(part.from)), height: FLAG - 3 });
      }
      const first = x(parts[0].from), late = first > svg.viewBox.baseVal.width / 2;
      draw(svg, "text", { class: "word", x: late ? x(parts.at(-1).to) - 4 : first + 4, y: top + FLAG - 5,
        "text-anchor": late ? "end" : "start" }, "⚑ " + kind.replaceAll("-", " "));
    });
  }
  /* One path for each shade: thousands of cells are nine elements. Moments that would be narrower
     than two pixels share a column, which has the darkest of their shades. */
  function heat(svg, lane, moments, x, top, width) {
    const columns = new Map();
    let least = Infinity, most = -Infinity;
    moments.forEach((moment, i) => {
      const cells = at(moment, "heat");
      if (cells === null || !i) { return; } /* the first one's interval lies before the axis */
      const to = at(moment, "at_ms"), from = Math.max(at(moments[i - 1], "at_ms"), to - 1500);
      const place = Math.floor(x(from) / 2), [first, shades] = cells;
      const column = columns.get(place) || { from: x(from), bins: new Map() };
      column.to = Math.max(column.from + 1, x(to));
      [...shades].forEach((shade, bin) => {
        column.bins.set(first + bin, Math.max(Number(shade), column.bins.get(first + bin) || 0));
      });
      columns.set(place, column);
      least = Math.min(least, first);
      most = Math.max(most, first + shades.length);
    });
    const low = top + HEAT - 8, room = HEAT - 34, bins = Math.max(1, most - least);
    const y = (bin) => low - room * (bin - least) / bins;
    draw(svg, "text", { class: "title", x: LEFT, y: top + 14 }, lane.title + " (" + lane.axis + ")");
    const paths = Array(10).fill("");
    for (const { from, to, bins: own } of columns.values()) {
      for (const [bin, shade] of own) {
        paths[shade] += "M" + from.toFixed(1) + " " + y(bin).toFixed(1) + "H" + to.toFixed(1)
          + "V" + y(bin + 1).toFixed(1) + "H" + from.toFixed(1) + "Z";
      }
    }
    paths.forEach((d, shade) => {
      if (shade && d) { draw(svg, "path", { class: "heat", d }).style.fillOpacity = shade / 9; }
    });
    if (!columns.size) { return; }
    for (let power = 0, before = Infinity; power <= 13; power += 1) {
      const bin = 2 * Math.log2(10 ** power), place = y(bin);
      if (bin < least || bin > most || before - place < 14) { continue; }
      before = place;
      draw(svg, "line", { class: "grid", x1: LEFT - 4, x2: LEFT, y1: place, y2: place });
      draw(svg, "text", { x: LEFT - 6, y: place + 4, "text-anchor": "end" }, latency(10 ** power));
    }
  }
  /* From values to heights 0..1, and the ticks: linear from 0, of latencies by powers of ten. */
  function scaled(lane, values) {
    if (lane.axis !== "log") {
      const most = nice(Math.max(0, ...values) * lane.scale);
      return { part: (v) => v * lane.scale / most, ticks: [0, most / 2, most] };
    }
    const positive = values.filter((v) => v > 0);
    const low = Math.floor(Math.log10(Math.min(1e6, ...positive)));
    const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(1, ...positive))));
    const every = Math.ceil((high - low) / 3), ticks = [];
    for (let power = low; power <= high; power += every) { ticks.push(10 ** power); }
    return { part: (v) => (Math.log10(Math.max(v, 10 ** low)) - low) / (high - low), ticks };
  }
  function one(svg, lane, moments, x, top, width) {
    const courses = lane.lines.map((line) => moments.map((m) => at(m, line.field)));
    const { part, ticks } = scaled(lane, courses.flat().filter((v) => v !== null));
    const low = top + LANE - 8, room = LANE - 34;
    const y = (v) => low - room * part(v);
    draw(svg, "text", { class: "title", x: LEFT, y: top + 14 }, lane.title + " (" + lane.axis + ")");
    for (const tick of ticks) {
      const place = y(tick / lane.scale);
      draw(svg, "line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: place, y2: place });
      draw(svg, "text", { x: LEFT - 6, y: place + 4, "text-anchor": "end" }, (lane.tick || digits)(tick));
    }
    lane.lines.forEach((line, place) => {
      trace(svg, line.colour, place > 0, moments, courses[place], x, y);
    });
  }
  function trace(svg, colour, dashed, moments, values, x, y) {
    let path = "", before = null;
    const alone = [];
    moments.forEach((moment, i) => {
      const value = values[i], ms = at(moment, "at_ms");
      if (value !== null) {
        const joined = before !== null && ms - before < 3500;
        path += (joined ? "L" : "M") + x(ms).toFixed(1) + " " + y(value).toFixed(1);
        if (!joined && (values[i + 1] === null || values[i + 1] === undefined)) { alone.push([x(ms), y(value)]); }
        before = ms;
      } else { before = null; }
    });
    const drawn = draw(svg, "path", { class: dashed ? "line dashed" : "line", d: path });
    drawn.style.stroke = "var(" + colour + ")";
    for (const [cx, cy] of alone) {
      draw(svg, "circle", { class: "dot", cx, cy, r: 2 }).style.fill = "var(" + colour + ")";
    }
  }
  function ticks(svg, from, end, x, height) {
    const wanted = (x(end) - LEFT) / 110;
    const step = [5, 10, 15, 30, 60, 120, 300, 600].map((s) => 1000 * s)
      .find((s) => (end - from) / s <= wanted) || 900000;
    for (let ms = Math.ceil(from / step) * step; ms <= end; ms += step) {
      if (x(ms) > x(end) - 20 || x(ms) < LEFT + 14) { continue; }
      draw(svg, "text", { x: x(ms), y: height - 6, "text-anchor": "middle" }, clock(ms));
    }
  }
  function readout() {
    const { moments } = shown();
    if (pointed === null || !moments.length) { return; }
    const distance = (m) => Math.abs(at(m, "at_ms") - pointed);
    const nearest = moments.reduce((a, b) => distance(b) < distance(a) ? b : a);
    pointed = at(nearest, "at_ms");
    const values = LINES.filter((l) => at(nearest, l.field) !== null)
      .map((l) => l.title + " " + l.text(at(nearest, l.field)).join(" "));
    const number = at(nearest, "run");
    say("readout", [clock(pointed), number === null ? "between runs" : "run " + (number + 1),
      at(nearest, "phase"), ...values].filter(Boolean).join(", "));
  }
  function point(event) {
    const box = $("course").getBoundingClientRect(), { from, end } = shown();
    const part = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    pointed = from + Math.min(1, Math.max(0, part)) * (end - from);
    readout();
    course();
  }

  /* ---- tables ---- */
  function runs() {
    $("runs").replaceChildren();
    for (const run of [...state.runs].reverse()) {
      const row = put($("runs"), "tr");
      put(row, "th", (run.number === null ? "" : run.number + 1 + ". ") + run.name).scope = "row";
      put(row, "td", run.target);
      if (run.failure !== null) {
        const why = put(row, "td", run.status + ": " + run.failure, "failed");
        why.colSpan = 4;
        continue;
      }
      put(row, "td", run.mb_s === null ? "–" : digits(run.mb_s), "num");
      put(row, "td", run.rate === null ? "–" : digits(run.rate) + " " + run.unit, "num");
      const flush = run.flush_p99_ns == null ? "" : " (flush " + latency(run.flush_p99_ns) + ")";
      put(row, "td", run.p99_ns === null ? "–" : latency(run.p99_ns) + flush, "num");
      const flags = put(row, "td");
      if (run.provenance !== "measured") { put(flags, "span", run.provenance, "flag"); }
      for (const flag of run.flags) { put(flags, "span", flag.kind, "flag").title = flag.message; }
    }
    const count = state.runs.length;
    say("runs-hint", !count ? "None has ended yet." : count < state.done
      ? "The last " + count + " of " + state.done + ", the newest first." : "The newest first.");
  }
  function notes() {
    $("notes-section").hidden = !state.notes.length;
    $("notes").replaceChildren();
    for (const text of state.notes) { put($("notes"), "li", text); }
  }
  function over() {
    $("over").hidden = !state.over;
    if (!state.over) { return; }
    say("over-text", state.over.text);
    $("sentences").replaceChildren();
    for (const text of state.over.sentences) { put($("sentences"), "li", text); }
    const brief = state.over.brief;
    $("brief-place").replaceChildren();
    if (brief === null || $("brief").firstChild) { return; }
    $("brief-place").append("The brief stands below, and as a file at ");
    put($("brief-place"), "code", brief);
    /* Loaded now, since the program ends: the frame keeps it as long as this page is open. */
    const frame = put($("brief"), "iframe");
    frame.title = "The brief";
    frame.setAttribute("sandbox", "allow-scripts allow-popups allow-modals");
    frame.src = "brief";
    $("brief-section").hidden = false;
  }
  function all() { head(); figures(); course(); runs(); notes(); over(); }
  function moving() { head(); figures(); readout(); course(); }

  /* ---- what is told ---- */
  function link(text, good) {
    say("link", text);
    $("link").classList.toggle("good", good);
  }
  function keep(list, value, most) {
    list.push(value);
    if (list.length > most) { list.splice(0, list.length - most); }
  }
  const events = new EventSource("events?page");
  function on(kind, told) {
    events.addEventListener(kind, function (event) { told(JSON.parse(event.data)); });
  }
  on("state", function (value) { state = value; link("live", true); all(); if (state.over) { end(); } });
  on("moment", function ({ moment, ...news }) {
    keep(state.moments, moment, MOST_MOMENTS);
    Object.assign(state, news);
    moving();
  });
  on("news", function (news) {
    Object.assign(state, news);
    all();
    if (state.over) { end(); }
  });
  on("run", function ({ row, ...news }) {
    keep(state.runs, row, MOST_RUNS);
    Object.assign(state, news);
    all();
  });
  on("note", function ({ text }) { keep(state.notes, text, MOST_NOTES); notes(); });
  on("dropped", function ({ why }) { link(why, false); });
  events.onerror = function () { link("connection lost, trying again", false); };
  function end() { events.close(); link("ended", true); }

  $("span").addEventListener("change", course);
  $("course").addEventListener("pointermove", point);
  $("course").addEventListener("pointerdown", point);
  $("course").addEventListener("pointerleave", function () { pointed = null; course(); });
  $("course").addEventListener("keydown", function (event) {
    const step = { ArrowLeft: -1000, ArrowRight: 1000 }[event.key], { moments, last } = shown();
    if (!step || !moments.length) { return; }
    event.preventDefault();
    pointed = (pointed === null ? last : pointed) + step;
    readout();
    course();
  });
  window.addEventListener("resize", function () { if (state) { course(); } });
})();

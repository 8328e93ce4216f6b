"use strict";
(function () {
  /* The table of points: sorted by a column, and only the rows that have what is searched for. */
  const table = document.getElementById("table");
  if (table) {
    const body = table.tBodies[0];
    const rows = [...body.rows].filter(function (row) { return row.cells.length > 1; });
    const heads = [...table.tHead.rows[0].cells];
    function value(row, column, kind) {
      const cell = row.cells[column];
      return kind === "text" ? cell.textContent.trim() : Number(cell.dataset.value);
    }
    function sort(column, kind, direction) {
      const sorted = [...rows].sort(function (one, other) {
        const a = value(one, column, kind), b = value(other, column, kind);
        const order = kind === "text" ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
        return direction * order;
      });
      body.append(...sorted);
      for (const head of heads) { head.removeAttribute("aria-sort"); }
      heads[column].setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    }
    heads.forEach(function (head, column) {
      const label = head.querySelector(".sorts");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label.textContent;
      label.replaceChildren(button);
      button.addEventListener("click", function () {
        const kind = label.dataset.kind;
        const now = head.getAttribute("aria-sort");
        const first = kind === "text" ? "ascending" : "descending";
        const next = !now ? first : now === "ascending" ? "descending" : "ascending";
        sort(column, kind, next === "ascending" ? 1 : -1);
      });
    });
    const search = document.getElementById("search");
    const found = document.getElementById("found");
    search.closest(".tools").hidden = rows.length === 0;
    search.addEventListener("input", function () {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        const fits = words.every(function (word) { return text.includes(word); });
        row.hidden = !fits;
        shown += fits ? 1 : 0;
      }
      found.textContent = words.length ? shown + " of " + rows.length : "";
    });
  }

  /* Drawings are complete without this: it tells the result under the pointer, from the table. */
  function numbers(text) { return text.split(" ").map(Number); }
  function follow(figure, plot) {
    const xs = numbers(plot.dataset.x), places = numbers(figure.dataset.places);
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.setAttribute("aria-hidden", "true");
    function leave() { tip.remove(); }
    plot.addEventListener("pointerleave", leave);
    plot.addEventListener("pointermove", function (event) {
      const box = plot.querySelector("svg").getBoundingClientRect();
      const at = (event.clientX - box.left) / box.width;
      let best = 0;
      for (let i = 1; i < xs.length; i += 1) {
        if (Math.abs(xs[i] - at) < Math.abs(xs[best] - at)) { best = i; }
      }
      const row = document.getElementById("result-" + places[best]);
      if (!row) { leave(); return; }
      const cell = row.cells[Number(figure.dataset.column)];
      tip.textContent = row.cells[0].textContent + ": " + cell.firstChild.textContent;
      plot.append(tip);
      const own = plot.getBoundingClientRect();
      const left = event.clientX - own.left - tip.offsetWidth / 2;
      tip.style.left = Math.max(0, Math.min(left, own.width - tip.offsetWidth)) + "px";
    });
  }
  for (const figure of document.querySelectorAll("figure[data-places]")) {
    for (const plot of figure.querySelectorAll(".plot")) { follow(figure, plot); }
  }
})();

// Shows time and value under the pointer on a chart.
(() => {
  "use strict";
  const width = 89; // steps of the time axis
  const tip = document.createElement("output");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);

  // values returns the points of a chart's line by their step: "M12 34" is absolute, and
  // "l1-3 1 0" relative.
  function values(chart) {
    const points = new Map(), top = chart.viewBox.baseVal.height;
    let x = 0, y = 0;
    for (const [, sign, rest] of chart.lastElementChild.getAttribute("d").matchAll(/([Ml])([-\d ]+)/g)) {
      const n = rest.match(/-?\d+/g).map(Number);
      for (let i = 0; i + 1 < n.length; i += 2) {
        [x, y] = sign === "M" ? [n[i], n[i + 1]] : [x + n[i], y + n[i + 1]];
        points.set(x, top - y);
      }
    }
    return points;
  }

  // nearest returns the known step nearest to x.
  function nearest(points, x) {
    let best;
    for (const step of points.keys()) if (best === undefined || Math.abs(step - x) < Math.abs(best - x)) best = step;
    return best;
  }

  function move(event) {
    const chart = event.target.closest && event.target.closest("#gpus svg");
    const axis = document.getElementById("gpus").dataset;
    tip.hidden = !chart || !axis.last;
    if (tip.hidden) return;
    const name = chart.querySelector("title");
    if (name) { // the browser would show it beside the tip
      chart.setAttribute("aria-label", name.textContent);
      name.remove();
    }
    const at = chart.getBoundingClientRect(), points = values(chart);
    const step = nearest(points, Math.round(width * (event.clientX - at.x) / at.width));
    const digits = Number(chart.dataset.digits || 0);
    const time = new Date(1000 * (axis.last - (width - step) * axis.every)).toISOString().slice(11, 19);
    tip.textContent = (points.get(step) / 10 ** digits).toFixed(digits) + " " + chart.dataset.unit + " at " + time + " UTC";
    const room = document.documentElement.clientWidth - tip.offsetWidth - 4;
    tip.style.left = Math.max(4, Math.min(room, at.x + at.width * step / width - tip.offsetWidth / 2)) + "px";
    tip.style.top = Math.max(4, at.y - tip.offsetHeight - 6) + "px";
  }
  document.addEventListener("pointermove", move);
  document.addEventListener("pointerdown", move);
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
})();

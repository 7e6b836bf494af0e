(() => {
  "use strict";
  const every = 15000, patience = 14000; // milliseconds
  const find = (id) => document.getElementById(id);
  let charts = [];

  // draw draws each chart into its figure. The caption has its range in words.
  function draw() {
    for (const c of charts) c.destroy();
    const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name).trim();
    charts = [...document.querySelectorAll("figure[data-chart]")].map((figure) => {
      const { last, every, values, max, unit, title } = JSON.parse(figure.dataset.chart);
      const times = values.map((_, i) => last - (values.length - 1 - i) * every);
      const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
      const chart = new uPlot({
        tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "UTC"), width: figure.clientWidth, height: 130, legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } },
        scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max(max || high || 1, 1)] } },
        axes: [{ ...axis, size: 24, values: "{HH}:{mm}", space: 60 }, { ...axis, size: 46, incrs: [1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000, 2000, 5000], values: (_, all) => all.map((v) => v + (unit && " " + unit)), space: 26 }],
        series: [{}, { label: title, stroke: colour("--bar"), width: 1.5, fill: colour("--bar") + "22", spanGaps: false, points: { show: false } }],
        hooks: { setCursor: [(u) => say(figure, u, times, values, unit)] },
      }, [times, values], figure);
      chart.root.setAttribute("aria-hidden", "true");
      return chart;
    });
  }

  // say shows the value under the pointer in place of the range.
  function say(figure, chart, times, values, unit) {
    const caption = figure.querySelector("figcaption"), i = chart.cursor.idx;
    caption.dataset.range ||= caption.textContent;
    const at = i == null || values[i] == null ? null : new Date(times[i] * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false, timeZone: "UTC" });
    caption.textContent = at ? caption.dataset.range.split(":")[0] + " at " + at + ": " + values[i] + (unit && " " + unit) : caption.dataset.range;
  }

  // show replaces the page's content with fresh content, unfolded as it is.
  function show(fresh) {
    const sources = (page) => [...page.querySelectorAll("script")].map((s) => s.getAttribute("src")).join();
    if (sources(fresh) !== sources(document)) {
      location.reload(); // another version of the exporter
      return;
    }
    const open = [...document.querySelectorAll("details[open]")].map((d) => d.id);
    const links = [...document.querySelectorAll("#fleet a, #fleet summary")], focus = links.indexOf(document.activeElement);
    document.title = fresh.title;
    find("fleet").replaceWith(fresh.getElementById("fleet"));
    for (const id of open) if (find(id)) find(id).open = true;
    const again = document.querySelectorAll("#fleet a, #fleet summary")[focus];
    if (again) again.focus({ preventScroll: true });
    draw();
  }

  function tell(text, late) {
    find("live").textContent = text;
    find("live").classList.toggle("late", late);
  }

  const clock = (page) => page.querySelector("#live time").textContent;
  let read = clock(document); // the server's clock, as all times here
  async function update() {
    const stop = new AbortController(), timer = setTimeout(() => stop.abort(), patience);
    try {
      const answer = await fetch(location.pathname, { signal: stop.signal, cache: "no-store" });
      if (!answer.ok) throw new Error("status " + answer.status);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      show(fresh);
      read = clock(fresh);
      tell("Live: read at " + read + ".", false);
    } catch (e) {
      tell("Not live: no answer since " + read + ". The values are of then.", true);
    } finally {
      clearTimeout(timer);
    }
  }

  async function loop() {
    if (!document.hidden) await update();
    setTimeout(loop, every);
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden) update(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  let resized;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(draw, 200); });
  draw();
  loop();
})();

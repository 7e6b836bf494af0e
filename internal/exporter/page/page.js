
(() => {
  "use strict";
  const every = 10000, patience = 9000; // milliseconds
  const marks = { healthy: "✓", warning: "!", critical: "✕", unknown: "?" };
  const find = (id) => document.getElementById(id);
  const copy = (id) => find(id).content.firstElementChild.cloneNode(true);
  const known = (v) => typeof v === "number";

  const gib = (v) => (v / 1073741824).toFixed(1) + " GiB";
  const rows = [
    { label: "Temperature", value: "temperature_celsius", max: "temperature_limit_celsius", unit: (v) => v.toFixed(0) + " °C", note: "temperature_sensor" },
    { label: "Power", value: "power_watts", max: "power_cap_watts", unit: (v) => v.toFixed(0) + " W" },
    { label: "Memory", value: "memory_used_bytes", max: "memory_total_bytes", unit: gib },
    { label: "Activity", value: "activity_ratio", full: 1, unit: (v) => (v * 100).toFixed(0) + " %" },
  ];

  // points draws the newest at the right end; what is not known is a gap.
  function points(values, top) {
    let d = "", open = false;
    values.forEach((v, i) => {
      if (!known(v)) { open = false; return; }
      const at = (89 - (values.length - 1 - i)) + " " + (23 - 22 * Math.min(1, Math.max(0, v / top))).toFixed(1);
      d += open ? "L" + at : "M" + at + "h0";
      open = true;
    });
    return d;
  }

  function row(gpu, r) {
    const value = gpu[r.value], limit = r.full || gpu[r.max], out = copy("row");
    const [label, text, meter, svg, range] = out.children;
    label.textContent = r.label;
    if (!known(value)) text.textContent = gpu.suspended ? "asleep" : "not known";
    else {
      text.textContent = r.unit(value) + (known(limit) && !r.full ? " of " + r.unit(limit) : "") + (gpu[r.note] ? " (" + gpu[r.note] + ")" : "");
    }
    if (known(value) && limit > 0) {
      meter.max = limit;
      meter.value = value;
      meter.setAttribute("aria-label", r.label + " " + text.textContent);
    } else meter.classList.add("none");
    const past = (gpu.history && gpu.history[r.value]) || [], seen = past.filter(known);
    if (seen.length > 1) {
      const least = Math.min(...seen), most = Math.max(...seen);
      svg.firstElementChild.setAttribute("d", points(past, Math.max(limit || 0, most) || 1));
      const minutes = past.length * gpu.history.interval_seconds / 60;
      range.textContent = r.unit(least) + " to " + r.unit(most) + " in the last " +
        (minutes < 1.5 ? "minute" : minutes.toFixed(0) + " minutes");
      svg.setAttribute("aria-label", r.label + ": " + range.textContent);
    } else svg.classList.add("none");
    return out;
  }

  // order has what wants looking at first.
  const order = ["critical", "warning", "unknown", "healthy"];
  const stateOf = (gpu) => (gpu.health && marks[gpu.health.state] ? gpu.health.state : "unknown");

  function card(gpu, unit) {
    const out = copy("card"), health = gpu.health || {}, state = stateOf(gpu);
    const part = (selector) => out.querySelector(selector);
    out.classList.add(state);
    part("h2").textContent = "GPU " + gpu.index + ": " + (gpu.name || "unnamed");
    part(".where").textContent = [gpu.pci_bus_id, gpu.gfx, gpu.uuid === gpu.pci_bus_id ? "" : gpu.uuid].filter(Boolean).join(", ");
    part("strong").textContent = marks[state] + " " + state + (known(health.score) ? ", " + health.score.toFixed(0) + " of 100" : "");
    part(".reason").textContent = health.reason || "";
    for (const e of gpu.explained || []) {
      const item = document.createElement("li"), name = document.createElement("b"), code = document.createElement("code");
      name.textContent = e.name + ".";
      code.textContent = (unit ? "juju run " + unit + " explain-error code=" : "dispatch explain ") + e.code;
      item.append(name, " " + e.text + " More: ", code);
      part(".explained").append(item);
    }
    if (gpu.partition > 0) {
      const shared = document.createElement("p");
      shared.className = "where";
      shared.textContent = "Partition " + gpu.partition + ": the GPU's first partition shows the readings.";
      part(".rows").append(shared);
    }
    for (const r of rows) {
      if (!(gpu.partition > 0) || known(gpu[r.value])) part(".rows").append(row(gpu, r));
    }
    return out;
  }

  function summary(gpus) {
    const states = order.map((s) => {
      const n = gpus.filter((g) => stateOf(g) === s).length;
      return n ? n + " " + s : "";
    });
    return (gpus.length === 1 ? "1 GPU: " : gpus.length + " GPUs: ") + states.filter(Boolean).join(", ");
  }

  function say(text, late) {
    find("live").textContent = text;
    find("live").classList.toggle("late", late);
  }

  let since = "this page was loaded";
  async function update() {
    const stop = new AbortController(), timer = setTimeout(() => stop.abort(), patience);
    try {
      const answer = await fetch("api/v1/gpus", { signal: stop.signal, cache: "no-store" });
      if (!answer.ok) throw new Error("status " + answer.status);
      const report = await answer.json(), gpus = report.gpus;
      gpus.sort((a, b) => order.indexOf(stateOf(a)) - order.indexOf(stateOf(b)));
      const critical = gpus.filter((g) => stateOf(g) === "critical").length;
      document.title = (critical ? "(" + critical + " critical) " : "") + document.querySelector("h1").textContent;
      const cards = document.createElement("div");
      cards.className = "cards";
      cards.append(...gpus.map((g) => card(g, report.unit)));
      if (gpus.length) {
        find("gpus").replaceChildren(cards);
        find("summary").textContent = summary(gpus);
      } else {
        find("gpus").textContent = "The exporter finds no AMD GPU that it can read.";
        find("summary").textContent = "No GPU";
      }
      since = new Date().toLocaleTimeString();
      say("Live: read at " + since + ", every 10 s.", false);
    } catch (e) {
      say("Not live: no answer from the exporter since " + since + ". The values are of then.", true);
    } finally {
      clearTimeout(timer);
    }
  }

  async function loop() {
    if (!document.hidden) await update();
    setTimeout(loop, every);
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden) update(); });
  loop();
})();

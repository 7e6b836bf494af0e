// Replaces the GPUs by those of a fresh page, every 10 seconds.
(() => {
  "use strict";
  const every = 10000, patience = 9000; // milliseconds
  const find = (id) => document.getElementById(id);

  // show replaces what is shown, and keeps what is unfolded and the focus.
  function show(fresh) {
    if (fresh.querySelector("script").textContent !== document.querySelector("script").textContent) {
      location.reload(); // another version of the exporter
      return;
    }
    const folds = [...document.querySelectorAll("details[id]")].map((d) => [d.id, d.open]);
    const focus = document.activeElement.closest("details[id]");
    document.title = fresh.title;
    document.body.className = fresh.body.className;
    for (const id of ["gpus", "summary"]) find(id).replaceWith(fresh.getElementById(id));
    for (const [id, open] of folds) if (find(id)) find(id).open = open;
    if (focus && find(focus.id)) find(focus.id).firstElementChild.focus({ preventScroll: true });
    document.dispatchEvent(new Event("shown"));
  }

  function say(text, late) {
    find("live").textContent = text;
    find("live").classList.toggle("late", late);
  }

  let read = document.querySelector("time").textContent; // the server's clock, as all times here
  async function update() {
    const stop = new AbortController(), timer = setTimeout(() => stop.abort(), patience);
    try {
      const answer = await fetch(location.pathname + location.search, { signal: stop.signal, cache: "no-store" });
      if (!answer.ok) throw new Error("status " + answer.status);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      show(fresh);
      read = fresh.querySelector("time").textContent;
      say("Live: read at " + read + ", every 10 s.", false);
    } catch (e) {
      say("Not live: no answer from the exporter since " + read + ". The values are of then.", true);
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

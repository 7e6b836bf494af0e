
(() => {
  "use strict";
  const every = 10000, patience = 9000; // milliseconds
  const find = (id) => document.getElementById(id);

  // show puts what the server shows now in the place of what is shown, unfolded as it is.
  function show(fresh) {
    if (fresh.querySelector("script").textContent !== document.querySelector("script").textContent) {
      location.reload(); // another version of the exporter
      return;
    }
    const open = [...document.querySelectorAll("details[open]")].map((d) => d.id);
    const focus = document.activeElement.closest("details");
    document.title = fresh.title;
    for (const id of ["gpus", "summary"]) find(id).replaceWith(fresh.getElementById(id));
    for (const id of open) if (find(id)) find(id).open = true;
    if (focus && find(focus.id)) find(focus.id).firstElementChild.focus({ preventScroll: true });
  }

  function say(text, late) {
    find("live").textContent = text;
    find("live").classList.toggle("late", late);
  }

  let since = "this page was loaded";
  async function update() {
    const stop = new AbortController(), timer = setTimeout(() => stop.abort(), patience);
    try {
      const answer = await fetch(location.pathname, { signal: stop.signal, cache: "no-store" });
      if (!answer.ok) throw new Error("status " + answer.status);
      show(new DOMParser().parseFromString(await answer.text(), "text/html"));
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

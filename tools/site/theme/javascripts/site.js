// What is wider than the screen scrolls by keyboard too: code, pictures, and the tables that the
// theme wraps when it has started.
const wide = '.md-typeset pre > code, .md-typeset__scrollwrap, .md-typeset p:has(> img[src$=".svg"])';

function stop() {
  for (const e of document.querySelectorAll(wide)) {
    if (e.scrollWidth > e.clientWidth && !e.hasAttribute("tabindex")) e.tabIndex = 0;
  }
}

new MutationObserver(stop).observe(document.body, { childList: true, subtree: true, attributeFilter: ["tabindex"] });
addEventListener("resize", stop);
addEventListener("load", stop);
stop();

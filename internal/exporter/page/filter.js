// Shows only the lines of a table that have all words of the filter.
(() => {
  "use strict";
  const field = document.getElementById("filter");
  if (!field) return;
  function apply() {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const gpu of document.querySelectorAll("#gpus > .gpu")) {
      const text = gpu.textContent.toLowerCase();
      gpu.hidden = !words.every((word) => text.includes(word));
    }
  }
  field.hidden = false;
  field.addEventListener("input", apply);
  document.addEventListener("shown", apply);
})();

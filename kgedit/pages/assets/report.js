"use strict";
// Which group and preset the page shows.
(() => {
  const select = document.getElementById("view");
  const views = [...document.querySelectorAll("[data-view]")];
  const keys = [...new Set(views.map((view) => view.dataset.view))];
  const show = (key) => {
    const group = key.split(".")[0];
    for (const view of views) {
      const [own] = view.dataset.view.split(".");
      // The comparison shows every group; the other groups keep their first preset there.
      const first = keys.find((other) => other.split(".")[0] === own);
      view.hidden = view.dataset.view !== (view.hasAttribute("data-every-group") && own !== group ? first : key);
    }
    page.view = key;
  };
  const wanted = page.state.get("view");
  const start = keys.includes(wanted) ? wanted : select ? select.value : keys[0];
  if (select) {
    select.closest(".pick").hidden = false;
    select.value = start;
    select.addEventListener("change", () => {
      show(select.value);
      page.remember({ view: select.value });
    });
  }
  if (start) show(start);
})();

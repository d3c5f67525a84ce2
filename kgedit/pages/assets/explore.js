"use strict";
// The live view: two dates, and the parts that follow them.
(async () => {
  const $ = (id) => document.getElementById(id);
  const { element } = page;
  const older = $("older"), newer = $("newer");
  let snapshots = [], answer = null, changes = null;

  try {
    explore.overview = await explore.ask("api/overview");
  } catch (error) {
    $("lead").textContent = error.message;
    return;
  }
  snapshots = explore.overview.snapshots;
  const last = snapshots.length - 1;
  $("home").title = explore.overview.home;
  $("home").textContent = explore.overview.home.split(/[\\/]/).pop() + " · " + snapshots.length + (last ? " snapshots" : " snapshot");

  const drawDates = () => {
    const [from, to] = [Number(older.value), Number(newer.value)];
    for (const thumb of [older, newer]) thumb.setAttribute("aria-valuetext", snapshots[thumb.value].name);
    $("span").style.left = (100 * from) / last + "%";
    $("span").style.width = (100 * (to - from)) / last + "%";
    $("ticks").replaceChildren(...snapshots.map((one, index) => {
      const tick = element("li", { class: index === from || index === to ? "chosen" : "" }, one.name);
      tick.style.left = (100 * index) / Math.max(1, last) + "%";
      return tick;
    }));
  };
  const drawLead = () => {
    const count = element("b", { class: "role-free" }, explore.number(answer.total) + (answer.total === 1 ? " change" : " changes"));
    $("lead").replaceChildren(count, " from " + explore.day(answer.from) + " to " + explore.day(answer.to) + ".");
  };
  const dates = {
    older: () => snapshots[older.value].date,
    newer: () => snapshots[newer.value].date,
    query: () => answer && answer.query,
    told: (found) => { answer = found; drawLead(); },
  };
  const selection = explore.selection(dates, () => changes.filters(), () => changes && changes.redraw());
  const items = explore.items(dates, selection);
  const openLinked = () => page.state.get("item") && items.open(page.state.get("item"));
  selection.draw();
  selection.refresh();

  if (last < 1) {
    $("slider").hidden = true;
    $("lead").textContent = "One snapshot is loaded. Load a second one to see what changed.";
    $("counted").textContent = "Nothing to compare.";
  } else {
    const index = (name, otherwise) => {
      const found = snapshots.findIndex((one) => String(one.date) === page.state.get(name));
      return found < 0 ? otherwise : found;
    };
    older.max = newer.max = last;
    newer.value = Math.max(1, index("to", last));
    older.value = Math.min(index("from", Math.max(0, newer.value - 1)), newer.value - 1);
    drawDates();
    changes = explore.changes(dates, selection, items.open);
    const moved = page.debounced(150, () => {
      page.remember({ from: dates.older(), to: dates.newer() });
      changes.update({});
    });
    // The thumbs never meet: a dates has two dates.
    older.addEventListener("input", () => { older.value = Math.min(older.value, newer.value - 1); drawDates(); moved(); });
    newer.addEventListener("input", () => { newer.value = Math.max(newer.value, Number(older.value) + 1); drawDates(); moved(); });
    await changes.update({});
  }
  await openLinked();
  addEventListener("hashchange", () => {
    const given = new URLSearchParams(location.hash.slice(1)).get("item");
    if (given && given !== page.state.get("item")) items.open(given);
  });
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();

"use strict";
// What was selected, and the timesteps made of it.

explore.selection = (dates, chosenFilters, redraw) => {
  const $ = (id) => document.getElementById(id);
  const { element } = page;
  const picked = new Map();
  let found = null, timer = 0;
  const key = (subject, property) => (subject || "") + ":" + (property || "");

  const draw = () => {
    $("selected").replaceChildren(...[...picked].map(([name, one]) => {
      const chip = element("button", { class: "chip", type: "button", "aria-label": "Take " + one.said + " out" }, one.said, element("b", {}, "✕"));
      chip.addEventListener("click", () => { picked.delete(name); changed(); });
      return chip;
    }));
    const what = $("what"), before = what.value;
    what.replaceChildren(element("option", { value: "picked", disabled: !picked.size }, "the selection (" + picked.size + ")"), element("option", { value: "found", disabled: !found || !found.found }, "all changes found above (" + explore.number(found ? found.found : 0) + ")"));
    what.value = picked.size && before !== "found" ? "picked" : "found";
  };
  const changed = () => { draw(); redraw(); };

  const said = (text, wrong = false) => {
    $("said").textContent = text;
    $("said").classList.toggle("wrong", wrong);
  };
  const task = (one) => {
    const id = "command-" + one.number;
    return element("div", { class: "task" },
      element("p", {}, element("b", {}, { waiting: "Waiting", running: "Being made …", done: "Made", failed: "Failed" }[one.state]), " " + one.older + " to " + one.newer + ", " + explore.number(one.selected) + " selected, profile " + one.profile),
      one.message ? element("p", { class: one.state === "failed" ? "wrong" : "" }, one.message) : null,
      element("p", { class: "meta" }, "Timestep: ", one.out), element("p", { class: "meta" }, "Selection: ", one.only),
      element("div", { class: "command" }, element("pre", { id }, one.command), explore.button("Copy", (button) => page.copy(one.command, button))));
  };
  const refresh = async () => {
    clearTimeout(timer);
    try {
      const { exports } = await explore.ask("api/exports");
      $("tasks").replaceChildren(...exports.map(task));
      if (exports.some((one) => one.state === "waiting" || one.state === "running")) timer = setTimeout(refresh, 1000);
      else if (exports.length && $("said").textContent === "Being made …") said("");
    } catch (error) {
      said(error.message, true);
    }
  };
  $("export").addEventListener("submit", async (event) => {
    event.preventDefault();
    const what = $("what").value === "found" ? chosenFilters() : { selection: [...picked.values()].map((one) => [one.subject, one.property]) };
    try {
      await explore.post("api/exports", { from: dates.older(), to: dates.newer(), name: $("name").value.trim(), profile: $("profile").value, ...what });
      said("Being made …");
      refresh();
    } catch (error) {
      said(error.message, true);
    }
  });
  return {
    refresh,
    draw,
    has: (subject, property) => picked.has(key(subject, property)) || picked.has(key(subject, null)),
    // Taking one change out of an item that was selected as a whole leaves its other changes in the list selected.
    set: (subject, property, label, on, others = []) => {
      if (on) picked.set(key(subject, property), { subject, property, said: label });
      else {
        if (picked.delete(key(subject, null))) for (const one of others) picked.set(key(one.subject, one.property), one);
        picked.delete(key(subject, property));
      }
      changed();
    },
    found: (answer) => { found = answer; draw(); },
  };
};

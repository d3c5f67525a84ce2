"use strict";
// The answer browser: every question, before and after.
(async () => {
  const $ = (id) => document.getElementById(id);
  const search = $("search"), runPick = $("run"), presetPick = $("preset"), axisPick = $("axis");
  const chipsBox = $("chips"), counted = $("counted"), detail = $("detail"), box = $("list");
  const { element, fold } = page;
  let data;
  try {
    data = await page.unpack("answers-data");
  } catch (error) {
    counted.textContent = "This browser cannot unpack the answers (" + error + "). Firefox 113, Chrome 80, Safari 16.4 and later can.";
    return;
  }
  const { strings, lists, cases, flags: FLAG } = data;
  const rows = Object.fromEntries(Object.entries(data.rows).map(([name, values]) => [name, Int32Array.from(values)]));
  const size = rows.run.length;
  const text = (index) => (index < 0 ? null : strings[index]);
  const texts = (index) => (index < 0 ? [] : lists[index].map((one) => strings[one]));

  const CHIPS = [
    ["all", "All", 0], ["right", "Right", FLAG.right], ["forced", "Right only under teacher forcing", FLAG["forced only"]],
    ["broken", "Broken by the edit", FLAG.broken], ["old", "Old answer persists", FLAG.old],
    ["empty", "Empty", FLAG.empty], ["inexact", "Said, but not exactly", FLAG.inexact],
    ["kept", "Unrelated, kept", FLAG.kept], ["changed", "Unrelated, changed", FLAG.changed],
    ["unjudged", "Not judged", FLAG["not judged"]],
  ];
  const state = {
    q: page.state.get("q") || "", f: page.state.get("f") || "all", run: page.state.get("run") || "",
    preset: page.state.get("preset") || "", axis: page.state.get("axis") || "", a: page.state.get("a") || "",
  };

  const option = (value, label) => element("option", { value }, label);
  const several = new Set(data.runs.map((run) => run.group)).size > 1;
  runPick.append(option("", "All runs"), ...data.runs.map((run) => option(run.key, several ? run.group + ": " + run.name : run.name)));
  presetPick.append(option("", "All presets"), ...data.presets.map((name) => option(name, name)));
  presetPick.hidden = data.presets.length < 2;
  const asked = new Set(rows.axis);
  axisPick.append(option("", "All axes"), ...data.axes.filter((_, index) => asked.has(index)).map((name) => option(name, name)));

  const find = page.finder(strings);
  const matching = (query) => {
    const hit = find(query);
    const listHit = Uint8Array.from(lists, () => 2);
    const caseHit = Uint8Array.from(cases.id, (_, index) =>
      hit[cases.id[index]] || (cases.subject[index] >= 0 && hit[cases.subject[index]]) ||
      (cases.relation[index] >= 0 && hit[cases.relation[index]]) || (cases.target[index] >= 0 && hit[cases.target[index]]) ? 1 : 0);
    const inList = (index) => {
      if (index < 0) return 0;
      if (listHit[index] === 2) listHit[index] = lists[index].some((one) => hit[one]) ? 1 : 0;
      return listHit[index];
    };
    return (row) =>
      hit[rows.question[row]] || caseHit[rows.case[row]] || (rows.after[row] >= 0 && hit[rows.after[row]]) ||
      (rows.before[row] >= 0 && hit[rows.before[row]]) || inList(rows.answers[row]);
  };

  let shown = new Int32Array(0), cachedQuery = null, cachedMatch = null;
  const filter = () => {
    const run = data.runs.findIndex((one) => one.key === state.run), preset = data.presets.indexOf(state.preset);
    const axis = data.axes.indexOf(state.axis), query = fold(state.q.trim());
    if (query !== cachedQuery) {
      const matches = query ? matching(query) : null;
      cachedMatch = matches ? Uint8Array.from({ length: size }, (_, row) => (matches(row) ? 1 : 0)) : null;
      cachedQuery = query;
    }
    const wanted = (CHIPS.find(([key]) => key === state.f) || CHIPS[0])[2];
    const counts = new Int32Array(CHIPS.length), found = new Int32Array(size);
    let n = 0;
    for (let row = 0; row < size; row++) {
      if (run >= 0 && rows.run[row] !== run) continue;
      if (preset >= 0 && rows.preset[row] !== preset) continue;
      if (axis >= 0 && rows.axis[row] !== axis) continue;
      if (cachedMatch && !cachedMatch[row]) continue;
      const flags = rows.flags[row];
      for (let chip = 0; chip < CHIPS.length; chip++) if (!CHIPS[chip][2] || flags & CHIPS[chip][2]) counts[chip]++;
      if (!wanted || flags & wanted) found[n++] = row;
    }
    shown = found.subarray(0, n);
    drawChips(counts);
    counted.textContent = n ? n.toLocaleString("en") + " of " + size.toLocaleString("en") + " answers" : none();
  };
  const none = () => "No answer fits " + [state.q && "the search", state.f !== "all" && "this outcome", (state.run || state.axis || state.preset) && "these choices"].filter(Boolean).join(", ") + ".";

  const chips = CHIPS.map(([key, label]) => {
    const chip = element("button", { class: "chip", type: "button" }, label, element("b"));
    chip.addEventListener("click", () => update({ f: state.f === key ? "all" : key }));
    chipsBox.append(chip);
    return chip;
  });
  const drawChips = (counts) => chips.forEach((chip, index) => {
    const pressed = state.f === CHIPS[index][0];
    chip.setAttribute("aria-pressed", pressed);
    chip.disabled = !counts[index] && !pressed;
    chip.lastChild.textContent = counts[index].toLocaleString("en");
  });

  const outcome = (row) => {
    const flags = rows.flags[row];
    if (flags & FLAG.kept) return ["= kept", "good"];
    if (flags & FLAG.changed) return flags & FLAG.broken ? ["✕ broken", "bad"] : ["≠ changed", "bad"];
    if (flags & FLAG.right) return ["✓ right", "good"];
    if (flags & FLAG.broken) return ["✕ broken", "bad"];
    if (flags & FLAG["forced only"]) return ["◐ forced only", "forced"];
    if (rows.after[row] < 0 && rows.forcedAfter[row] < 0) return ["not asked after", "muted"];
    if (flags & FLAG["not judged"]) return ["not judged", "muted"];
    if (rows.error[row] >= 0) return ["✕ " + data.errors[rows.error[row]], flags & FLAG.inexact ? "muted" : "bad"];
    return ["✕ wrong", "bad"];
  };
  const badge = (row) => {
    const [said, role] = outcome(row);
    return element("span", { class: "outcome role-" + role }, said);
  };
  const saying = (row) => text(rows.after[row] >= 0 ? rows.after[row] : rows.forcedAfter[row]);
  const key = (row) => [data.runs[rows.run[row]].key, data.presets[rows.preset[row]], data.axes[rows.axis[row]],
    data.timesteps[cases.timestep[rows.case[row]]], strings[cases.id[rows.case[row]]], rows.turn[row]].join("|");

  const list = page.longList(box, {
    height: 64,
    draw: (index) => {
      const row = shown[index], said = saying(row);
      return element("div", { class: "row" },
        element("p", {}, text(rows.question[row])),
        element("p", { class: "under" },
          element("span", {}, badge(row), said && said.trim() ? " " + said.trim().slice(0, 120) : ""),
          element("span", {}, [data.runs[rows.run[row]].name, data.axes[rows.axis[row]], data.presets.length > 1 && !state.preset ? data.presets[rows.preset[row]] : null].filter(Boolean).join(" · "))));
    },
    chosen: (index) => open(shown[index]),
  });

  const quoted = (index, share) => {
    const said = text(index);
    const words = said === null ? "not asked" : said.trim() ? said : "(empty)";
    return element("td", {}, element("span", { class: said && said.trim() ? "" : "blank" }, words),
      share >= 0 ? element("small", {}, share + " % of the tokens") : null);
  };
  const prompt = (row, column) => rows[column][row] < 0 ? null : texts(rows[column][row]).join("\n").replaceAll("\u0001", () => text(rows.question[row]));
  const entity = (id, label) => /^[QP]\d+$/.test(id || "")
    ? element("a", { href: "https://www.wikidata.org/wiki/" + (id[0] === "P" ? "Property:" : "") + id, rel: "noreferrer" }, label || id)
    : label || id || "";
  const fact = (index) => {
    const subject = text(cases.subject[index]);
    return subject === null ? strings[cases.id[index]] : subject + " · " + text(cases.relation[index]) + ": " + text(cases.target[index]);
  };

  let openRow = -1;
  const open = (row, scroll = true) => {
    openRow = row;
    state.a = key(row);
    page.remember({ a: state.a });
    const index = rows.case[row], free = rows.before[row] >= 0 || rows.after[row] >= 0;
    const forced = rows.forcedBefore[row] >= 0 || rows.forcedAfter[row] >= 0;
    const old = texts(cases.old[index]), accepted = texts(rows.answers[row]), asFree = prompt(row, "prompt"), asForced = prompt(row, "forcedPrompt");
    const parts = [
      element("button", { class: "btn back", type: "button", onclick: () => box.scrollIntoView({ block: "center" }) }, "Back to the list"),
      element("h3", {}, text(rows.question[row])),
      element("p", { class: "meta" }, badge(row), " · " + data.runs[rows.run[row]].name + " · " + data.axes[rows.axis[row]] + " · " + data.presets[rows.preset[row]],
        text(cases.subject[index]) === null ? null : [" · ", entity(text(cases.subjectId[index]), text(cases.subject[index])), " · ", entity(text(cases.relationId[index]), text(cases.relation[index]))]),
      element("table", { class: "said" },
        element("thead", {}, element("tr", {}, element("th"), element("th", { scope: "col" }, "before any edit"), element("th", { scope: "col" }, "after the edit"))),
        element("tbody", {},
          free ? element("tr", {}, element("th", { scope: "row" }, "answers freely"), quoted(rows.before[row], -1), quoted(rows.after[row], -1)) : null,
          forced ? element("tr", {}, element("th", { scope: "row" }, "teacher forcing"), quoted(rows.forcedBefore[row], rows.tokensBefore[row]), quoted(rows.forcedAfter[row], rows.tokensAfter[row])) : null)),
      element("dl", { class: "facts" },
        element("dt", {}, data.axes[rows.axis[row]] === "update" ? "target" : "accepted"), element("dd", {}, element("b", {}, accepted[0] || ""), accepted.length > 1 ? " also " + accepted.slice(1).join(", ") : ""),
        element("dt", {}, "the edit"), element("dd", {}, fact(index)),
        element("dt", {}, "old answer"), element("dd", {}, old.length ? old.join(", ") : text(cases.subject[index]) === null ? "not in the run folder" : "none: there was no value")),
    ];
    if (rows.retrieved[row] >= 0) parts.push(element("h4", {}, "Retrieved facts"), element("ol", { class: "found" }, lists[rows.retrieved[row]].map((one) =>
      element("li", {}, one === index ? element("span", { class: "outcome role-good" }, "✓ this case ") : null, fact(one)))));
    if (asFree !== null) parts.push(element("h4", {}, "Prompt as sent, free decoding"), block("prompt-free", asFree));
    if (asForced !== null) parts.push(element("h4", {}, "Prompt as sent, teacher forcing"), block("prompt-forced", asForced));
    const others = same(row);
    if (others.length > 1) parts.push(element("h4", {}, "The same question, every run and preset"), element("table", { class: "others" }, element("tbody", {}, others.map((other) => element("tr", {},
      element("td", {}, other === row ? element("b", {}, name(other)) : element("button", { class: "linklike", type: "button", onclick: () => go(other) }, name(other))),
      element("td", {}, (saying(other) || "").trim() || element("span", { class: "blank" }, "(empty)")), element("td", {}, badge(other)))))));
    const link = element("button", { class: "btn", type: "button" }, "Copy link");
    link.addEventListener("click", () => page.copy(location.href, link));
    parts.push(element("div", { class: "acts" }, link));
    detail.replaceChildren(...parts.filter(Boolean));
    detail.scrollTop = 0;
    if (scroll && matchMedia("(max-width:760px)").matches) detail.scrollIntoView({ block: "start" });
  };
  const name = (row) => data.runs[rows.run[row]].name + (data.presets.length > 1 ? ", " + data.presets[rows.preset[row]] : "");
  const block = (id, said) => {
    const button = element("button", { class: "btn", type: "button" }, "Copy");
    button.addEventListener("click", () => page.copy(said, button));
    return element("div", { class: "command" }, element("pre", { id }, said), button);
  };
  const same = (row) => {
    const found = [];
    for (let other = 0; other < size && found.length < 40; other++)
      if (rows.case[other] === rows.case[row] && rows.axis[other] === rows.axis[row] && rows.question[other] === rows.question[row]) found.push(other);
    return found;
  };
  const rowOf = (wanted) => {
    for (let row = 0; row < size; row++) if (key(row) === wanted) return row;
    return -1;
  };
  const go = (row) => {
    let at = shown.indexOf(row);
    if (at < 0) {
      update({ q: "", f: "all", run: "", preset: "", axis: "" });
      at = shown.indexOf(row);
    }
    list.choose(at);
  };

  const update = (changes) => {
    Object.assign(state, changes);
    page.remember({ q: state.q, f: state.f === "all" ? "" : state.f, run: state.run, preset: state.preset, axis: state.axis });
    if (search.value.trim() !== state.q.trim()) search.value = state.q;
    [runPick.value, presetPick.value, axisPick.value] = [state.run, state.preset, state.axis];
    filter();
    list.fill(shown.length, openRow < 0 ? -1 : shown.indexOf(openRow));
  };

  search.addEventListener("input", page.debounced(60, () => update({ q: search.value })));
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") update({ q: "" });
    if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); box.focus(); list.choose(Math.max(0, list.at)); }
  });
  runPick.addEventListener("change", () => update({ run: runPick.value }));
  presetPick.addEventListener("change", () => update({ preset: presetPick.value }));
  axisPick.addEventListener("change", () => update({ axis: axisPick.value }));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(input|select|textarea)$/i.test(document.activeElement.tagName)) { event.preventDefault(); search.focus(); }
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") search.focus();
    if (event.key === "Enter") { detail.setAttribute("tabindex", "-1"); detail.focus(); }
  });
  addEventListener("hashchange", () => {
    const given = new URLSearchParams(location.hash.slice(1));
    if (given.get("a") && given.get("a") !== state.a) { const row = rowOf(given.get("a")); if (row >= 0) go(row); }
  });

  const linked = state.a ? rowOf(state.a) : -1;
  search.value = state.q;
  update({});
  if (linked >= 0) {
    if (!shown.includes(linked)) update({ q: "", f: "all", run: "", preset: "", axis: "" });
    list.choose(shown.indexOf(linked));
    document.getElementById("answers").scrollIntoView({ behavior: "instant" });
  } else if (state.a) {
    detail.replaceChildren(element("p", { class: "empty-state" }, "No answer of this page has the address " + state.a + "."));
  } else if (shown.length) {
    open(shown[0], false);
    list.fill(shown.length, 0);
    page.remember({ a: "" }); // nobody has chosen it yet
  }
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
  page.answers = { update, size, shown: () => shown.length };
})();

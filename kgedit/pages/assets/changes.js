"use strict";
// Cards of cases with facets, and the changes that are no case.
(async () => {
  const $ = (id) => document.getElementById(id);
  const { element, fold } = page;
  let data;
  try {
    data = await page.unpack("cards-data");
  } catch (error) {
    $("counted").textContent = "This browser cannot unpack the cases (" + error + "). Firefox 113, Chrome 80, Safari 16.4 and later can.";
    return;
  }
  const { strings, lists } = data, cards = data.cards, size = cards.id.length;
  const text = (index) => (index < 0 ? null : strings[index]);
  const texts = (index) => lists[index].map((one) => strings[one]);
  const STEP = 30;
  const find = page.finder(strings);
  const hitter = (query) => {
    const hit = find(query);
    const known = new Map();
    const inList = (index) => {
      if (!known.has(index)) known.set(index, lists[index].some((one) => hit[one]));
      return known.get(index);
    };
    return { one: (index) => index >= 0 && hit[index] === 1, list: inList };
  };

  const sure = (row) => (cards.confidence[row] < 0 ? null : cards.confidence[row] >= 90 ? "high" : cards.confidence[row] >= 70 ? "medium" : "low");
  const FACETS = [
    ["relation", "Relation", (row) => text(cards.relation[row])],
    ["tag", "Case", (row) => ({ update: "replaced a value", new: "new: no value before" })[text(cards.tag[row])] || text(cards.tag[row])],
    ["year", "Holds since", (row) => text(cards.year[row]) || "no date"],
    ["kind", "Kind of change", (row) => text(cards.kind[row])],
    ["sure", "Confidence of the kind", sure],
    ["scenario", "Scenario", (row) => text(cards.scenario[row])],
    ["topic", "Topic (class of the subject)", (row) => text(cards.topic[row])],
    ["probes", "Probes", (row) => [lists[cards.near[row]].length ? "locality" : null, lists[cards.hops[row]].length ? "two hops" : null].filter(Boolean).join(" and ") || "own questions only"],
  ];
  const values = FACETS.map(([, , of]) => Array.from({ length: size }, (_, row) => of(row)));
  const distinct = values.map((own) => new Set(own).size);
  $("facetbox").open = !matchMedia("(max-width:860px)").matches;
  const state = { q: page.state.get("q") || "", order: page.state.get("order") || "probes", c: page.state.get("c") || "", why: page.state.get("why") || "", reason: page.state.get("reason") || "" };
  const chosen = FACETS.map(([key]) => new Set((page.state.get(key) || "").split("|").filter(Boolean)));
  const unfolded = new Set();
  let found = [], showing = STEP, cachedQuery = null, cachedHits = null;

  const filter = () => {
    const query = fold(state.q.trim());
    if (query !== cachedQuery) {
      const hits = query ? hitter(query) : null;
      cachedHits = hits ? Uint8Array.from({ length: size }, (_, row) => (["id", "subject", "relation", "target"].some((name) => hits.one(cards[name][row])) || hits.list(cards.old[row]) || hits.list(cards.questions[row]) ? 1 : 0)) : null;
      cachedQuery = query;
    }
    const counts = FACETS.map(() => new Map());
    found = [];
    for (let row = 0; row < size; row++) {
      if (cachedHits && !cachedHits[row]) continue;
      let failed = -1, fails = 0;
      for (let facet = 0; facet < FACETS.length && fails < 2; facet++)
        if (chosen[facet].size && !chosen[facet].has(values[facet][row])) { failed = facet; fails++; }
      // The counts of a facet follow the other filters.
      if (fails === 0) {
        found.push(row);
        for (let facet = 0; facet < FACETS.length; facet++) count(counts[facet], values[facet][row]);
      } else if (fails === 1) count(counts[failed], values[failed][row]);
    }
    const by = {
      new: (row) => -Number((text(cards.start[row]) || "0").replace(/\D/g, "").padEnd(8, "0").slice(0, 8)),
      probes: (row) => -(lists[cards.questions[row]].length + lists[cards.near[row]].length + lists[cards.hops[row]].length),
      sure: (row) => (cards.confidence[row] < 0 ? 1000 : cards.confidence[row]),
    }[state.order];
    if (by) found.sort((one, other) => by(one) - by(other) || one - other);
    return counts;
  };
  const count = (counts, value) => value && counts.set(value, (counts.get(value) || 0) + 1);

  const drawFacets = (counts) => {
    const held = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.value : null;
    $("facets").replaceChildren(...FACETS.map(([key, title], facet) => {
      for (const value of chosen[facet]) if (!counts[facet].has(value)) counts[facet].set(value, 0);
      const ordered = [...counts[facet]].sort((one, other) => (key === "year" ? (one[0] < other[0] ? 1 : -1) : other[1] - one[1] || (one[0] < other[0] ? -1 : 1)));
      if (distinct[facet] < 2 || !ordered.length) return null;
      const most = Math.max(1, ...ordered.map(([, number]) => number));
      const shown = unfolded.has(key) ? ordered : ordered.slice(0, 7);
      const rest = ordered.length - shown.length;
      return element("div", { class: "facet", role: "group", "aria-label": title }, element("h3", {}, title),
        shown.map(([value, number]) => {
          const bar = element("div", { class: "bar" });
          bar.style.width = (100 * number) / most + "%";
          const button = element("button", { type: "button", "aria-pressed": String(chosen[facet].has(value)), class: number ? "" : "none" },
            element("span", { class: "line" }, element("span", {}, value), element("span", {}, number.toLocaleString("en"))), bar);
          button.dataset.value = key + "|" + value;
          button.addEventListener("click", () => {
            chosen[facet].has(value) ? chosen[facet].delete(value) : chosen[facet].add(value);
            update({});
          });
          return button;
        }),
        rest > 0 || unfolded.has(key) ? element("button", { type: "button", class: "fewer", onclick: () => { unfolded.has(key) ? unfolded.delete(key) : unfolded.add(key); update({}); } }, rest > 0 ? rest + " more" : "fewer") : null);
    }).filter(Boolean));
    if (held) for (const button of $("facets").querySelectorAll("button")) if (button.dataset.value === held) button.focus();
  };

  const entity = (id, label) => /^[QP]\d+$/.test(id || "")
    ? element("a", { href: "https://www.wikidata.org/wiki/" + (id[0] === "P" ? "Property:" : "") + id, rel: "noreferrer" }, label || id)
    : label || id || "";
  const dots = (row) => {
    const level = { high: 3, medium: 2, low: 1 }[sure(row)] || 0;
    return level ? element("span", { class: "dots", "aria-hidden": "true" }, "●".repeat(level), element("i", {}, "●".repeat(3 - level))) : null;
  };
  const since = (row) => (text(cards.start[row]) ? "since " + text(cards.start[row]) : text(cards.point[row]) ? "in " + text(cards.point[row]) : "no date");
  const card = (row, open) => {
    const olds = texts(cards.old[row]);
    const kind = text(cards.kind[row]);
    const made = element("details", { class: "card" },
      element("summary", {},
        element("span", { class: "what" }, element("b", {}, text(cards.subject[row])), " · " + text(cards.relation[row])),
        element("span", { class: "since" }, since(row)),
        element("span", { class: "flow" }, element("span", { class: olds.length ? "" : "blank" }, olds.join(", ") || "no value"), element("span", { class: "arrow" }, "→"), element("b", {}, text(cards.target[row]))),
        element("span", { class: "tags" }, dots(row), [kind ? kind + (sure(row) ? ", " + sure(row) + " confidence" : "") : null, text(cards.scenario[row]), lists[cards.hops[row]].length ? "two-hop chain" : null, lists[cards.near[row]].length ? "locality probe" : "no locality probe"].filter(Boolean).join(" · "))));
    const fill = () => made.children.length < 2 && made.append(inside(row));
    made.addEventListener("toggle", () => {
      if (!made.open) return;
      fill();
      state.c = text(cards.id[row]);
      page.remember({ c: state.c });
    });
    made.dataset.card = text(cards.id[row]);
    if (open) { fill(); made.open = true; }
    return made;
  };
  const line = (name, said, answer) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, said, answer ? element("b", {}, " " + answer) : null));
  const grouped = (flat, width) => Array.from({ length: flat.length / width }, (_, index) => flat.slice(index * width, (index + 1) * width));
  const inside = (row) => {
    const parts = [], subject = text(cards.subject[row]), target = text(cards.target[row]), olds = texts(cards.old[row]);
    parts.push(element("h4", {}, "Questions"), element("table", { class: "asked" }, element("tbody", {}, grouped(texts(cards.questions[row]), 3).map(([axis, question]) => line(axis, question, null)), line("answer", "", target))));
    const edge = (label, gone) => element("span", { class: "edge" + (gone ? " gone" : "") }, label);
    const node = (label, kind) => element("span", { class: "node " + kind }, label);
    const hops = grouped(texts(cards.hops[row]), 4);
    if (hops.length) {
      parts.push(element("h4", {}, "Two-hop chain"));
      for (const [question, answer, relation, second] of hops) {
        parts.push(element("div", { class: "chain" }, node(subject, ""), edge(text(cards.relation[row])), node(target, "new"), edge(relation), node(answer, second ? "new" : "")),
          olds.length ? element("div", { class: "chain" }, node(subject, ""), edge("before", true), node(olds.join(", "), "old")) : null,
          element("table", { class: "asked" }, element("tbody", {}, line("asked", question, answer), second ? element("tr", {}, element("th", { scope: "row" }, "second fact"), element("td", {}, "is a case too: ", second)) : null)));
      }
    } else parts.push(element("h4", {}, "The change"), element("div", { class: "chain" }, olds.length ? [node(olds.join(", "), "old"), edge("was", true)] : null, node(subject, ""), edge(text(cards.relation[row])), node(target, "new")));
    const near = grouped(texts(cards.near[row]), 4);
    if (near.length) parts.push(element("h4", {}, "Locality probe: must not change"), element("table", { class: "asked" }, element("tbody", {}, near.map(([question, answer, label, id]) => element("tr", {}, element("th", { scope: "row" }, entity(id, label)), element("td", {}, question, element("b", {}, " " + answer)))),
      text(cards.basis[row]) ? line("found by", text(cards.basis[row]) + (cards.similarity[row] >= 0 ? ", similarity " + (cards.similarity[row] / 100).toFixed(2) : ""), null) : null)));
    const signals = texts(cards.signals[row]);
    if (signals.length) parts.push(element("h4", {}, "Why this kind"), element("p", { class: "meta" }, text(cards.kind[row]) + " at " + (cards.confidence[row] / 100).toFixed(2) + ": " + signals.join(", ").replaceAll("_", " ")));
    const copyLink = element("button", { class: "btn", type: "button" }, "Copy link");
    copyLink.addEventListener("click", () => { page.remember({ c: text(cards.id[row]) }); page.copy(location.href, copyLink); });
    const acts = [element("span", {}, entity(text(cards.subjectId[row]), subject), " on Wikidata"), element("span", {}, entity(text(cards.targetId[row]), target), " on Wikidata")];
    if (data.query && /^Q\d+$/.test(text(cards.subjectId[row]))) {
      const cypher = data.query.replaceAll("'" + data.item + "'", "'" + text(cards.subjectId[row]) + "'");
      const address = data.browser + (data.browser.includes("?") ? "&" : "?") + "cmd=edit&arg=" + encodeURIComponent(cypher);
      const copyCypher = element("button", { class: "btn", type: "button" }, "Copy Cypher");
      copyCypher.addEventListener("click", () => page.copy(cypher, copyCypher));
      acts.push(element("a", { href: address, rel: "noreferrer" }, "Open in Neo4j Browser"), copyCypher);
    }
    parts.push(element("div", { class: "acts" }, acts, copyLink));
    return element("div", { class: "inside" }, parts);
  };

  const drawCards = () => {
    $("cards").replaceChildren(...found.slice(0, showing).map((row) => card(row, text(cards.id[row]) === state.c)));
    const left = found.length - showing;
    $("more").hidden = left <= 0;
    $("more").textContent = "Show " + Math.min(STEP, left) + " more of " + Math.max(0, left).toLocaleString("en");
    $("counted").textContent = found.length ? found.length.toLocaleString("en") + " of " + size.toLocaleString("en") + " cases"
      : !size ? "There is no case." : "No case fits " + [state.q && "the search", chosen.some((set) => set.size) && "these filters"].filter(Boolean).join(" and ") + "." + ($("why") && state.q ? " It may have been dropped: see below why." : "");
  };
  $("more").addEventListener("click", () => { showing += STEP; drawCards(); });
  const update = (changes) => {
    Object.assign(state, changes);
    showing = STEP;
    page.remember({ q: state.q, order: state.order === "probes" ? "" : state.order, ...Object.fromEntries(FACETS.map(([key], facet) => [key, [...chosen[facet]].join("|")])) });
    drawFacets(filter());
    drawCards();
  };
  const search = $("search"), order = $("order");
  search.value = state.q;
  order.value = state.order;
  search.addEventListener("input", page.debounced(60, () => update({ q: search.value })));
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { search.value = ""; update({ q: "" }); }
    if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); const first = $("cards").querySelector("summary"); if (first) first.focus(); }
  });
  order.addEventListener("change", () => update({ order: order.value }));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(input|select|textarea)$/i.test(document.activeElement.tagName)) { event.preventDefault(); search.focus(); return; }
    const on = document.activeElement && document.activeElement.closest ? document.activeElement.closest("summary") : null;
    if (on && ["ArrowDown", "ArrowUp", "j", "k"].includes(event.key) && $("cards").contains(on)) {
      const all = [...$("cards").querySelectorAll("summary")], to = all[all.indexOf(on) + (["ArrowDown", "j"].includes(event.key) ? 1 : -1)];
      if (to) { event.preventDefault(); to.focus(); }
    }
    if (on && event.key === "Escape") search.focus();
  });

  // A linked case is shown whatever the filters say.
  const showLinked = () => {
    let at = found.findIndex((row) => text(cards.id[row]) === state.c);
    if (at < 0) {
      for (const set of chosen) set.clear();
      search.value = "";
      update({ q: "" });
      at = found.findIndex((row) => text(cards.id[row]) === state.c);
    }
    if (at < 0) { $("counted").textContent = "No case of this page has the id " + state.c + "."; return; }
    showing = Math.max(showing, at + 1);
    drawCards();
    [...$("cards").children].find((one) => one.dataset.card === state.c).scrollIntoView({ block: "start", behavior: "instant" });
  };

  const why = $("why");
  const dropped = data.dropped, drops = dropped.reason.length;
  let whyFound = [], whyShowing = STEP;
  const updateWhy = (changes) => {
    if (!why) return;
    Object.assign(state, changes);
    whyShowing = changes.keep ? whyShowing : STEP;
    page.remember({ why: state.why, reason: state.reason });
    const query = fold(state.why.trim()), hits = query ? hitter(query) : null, counts = new Map();
    whyFound = [];
    for (let row = 0; row < drops; row++) {
      if (hits && !(["subject", "subjectId", "relation", "relationId"].some((name) => hits.one(dropped[name][row])) || hits.list(dropped.old[row]) || hits.list(dropped.new[row]))) continue;
      count(counts, text(dropped.reason[row]));
      if (!state.reason || text(dropped.reason[row]) === state.reason) whyFound.push(row);
    }
    $("reasons").replaceChildren(...[...counts].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1)).map(([reason, number]) => {
      const chip = element("button", { class: "chip", type: "button", "aria-pressed": String(state.reason === reason) }, reason, element("b", {}, number.toLocaleString("en")));
      chip.addEventListener("click", () => updateWhy({ reason: state.reason === reason ? "" : reason }));
      return chip;
    }));
    drawWhy();
  };
  const drawWhy = () => {
    const inCases = state.why && !whyFound.length ? "No dropped change fits. Either it is a case (search above), or nothing changed there." : "";
    $("why-counted").textContent = inCases || whyFound.length.toLocaleString("en") + " of " + drops.toLocaleString("en") + " dropped changes";
    $("why-rows").replaceChildren(...whyFound.slice(0, whyShowing).map((row) => element("div", { class: "drop" },
      element("div", {}, element("p", { class: "what" }, element("b", {}, entity(text(dropped.subjectId[row]), text(dropped.subject[row]))), " · " + text(dropped.relation[row])),
        element("p", {}, texts(dropped.old[row]).join(", ") || "no value", " → ", element("b", {}, texts(dropped.new[row]).join(", ") || "no value"))),
      element("p", { class: "role-bad outcome" }, "✕ " + text(dropped.reason[row])))));
    const left = whyFound.length - whyShowing;
    $("why-more").hidden = left <= 0;
    $("why-more").textContent = "Show " + Math.min(STEP, left) + " more of " + Math.max(0, left).toLocaleString("en");
  };
  if (why) {
    why.value = state.why;
    why.addEventListener("input", page.debounced(60, () => updateWhy({ why: why.value })));
    why.addEventListener("keydown", (event) => { if (event.key === "Escape") { why.value = ""; updateWhy({ why: "" }); } });
    $("why-more").addEventListener("click", () => { whyShowing += STEP; drawWhy(); });
    updateWhy({});
  }
  update({});
  if (state.c) showLinked();
  addEventListener("hashchange", () => {
    const given = new URLSearchParams(location.hash.slice(1)).get("c");
    if (given && given !== state.c) { state.c = given; showLinked(); }
  });
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();

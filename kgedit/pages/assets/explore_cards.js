"use strict";
// The list of changes between the two dates: filters with counts, cards, more of them on demand.

explore.changes = (dates, selection, openItem) => {
  const $ = (id) => document.getElementById(id);
  const { element } = page;
  const STEP = 30, MOST = 200; // rows of one answer of the server
  const ACTS = { replaced: "replaced", added: "value added", first: "first value", removed: "value removed", none: "no value left" };
  const FACETS = [["relation", "Relation"], ["act", "What happened"], ["kind", "Kind of change"], ["year", "Date of the new value"], ["value", "Values"], ["subject", "Subject in the snapshots"]];
  const ask = explore.latest(), askKinds = explore.latest();
  const chosen = new Map(FACETS.map(([key]) => [key, new Set((page.state.get(key) || "").split("|").filter(Boolean))]));
  const state = { q: page.state.get("q") || "", order: page.state.get("order") || "popular", c: page.state.get("c") || "" };
  const unfolded = new Set();
  let answer = null, rows = [], wanted = STEP, timer = 0;
  $("facetbox").open = !matchMedia("(max-width:860px)").matches;

  const asked = (offset, limit) => {
    const query = new URLSearchParams({ from: dates.older(), to: dates.newer(), order: state.order, offset, limit });
    if (state.q.trim()) query.set("q", state.q.trim());
    for (const [key, values] of chosen) for (const value of values) query.append(key, value);
    return "api/changes?" + query;
  };

  const said = (facet, value, label) => (facet === "act" ? ACTS[value] || value : facet === "relation" ? label || value : value);

  const drawFacets = () => {
    const held = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.value : null;
    $("facets").replaceChildren(...FACETS.map(([key, title]) => {
      const counted = [...answer.facets[key]];
      for (const value of chosen.get(key)) if (!counted.some(([one]) => one === value)) counted.push([value, null, 0]);
      if (key === "year") counted.sort((one, other) => Number(other[0]) - Number(one[0]));
      if (counted.length < 2 && !chosen.get(key).size) return null;
      const most = Math.max(1, ...counted.map(([, , count]) => count));
      const shown = unfolded.has(key) ? counted : counted.slice(0, 8);
      const rest = counted.length - shown.length;
      return element("div", { class: "facet", role: "group", "aria-label": title }, element("h3", {}, title),
        shown.map(([value, label, count]) => {
          const bar = element("div", { class: "bar" });
          bar.style.width = (100 * count) / most + "%";
          const button = element("button", { type: "button", "aria-pressed": String(chosen.get(key).has(value)), class: count ? "" : "none" },
            element("span", { class: "line" }, element("span", {}, said(key, value, label)), element("span", {}, explore.number(count))), bar);
          button.dataset.value = key + "|" + value;
          button.addEventListener("click", () => {
            chosen.get(key).has(value) ? chosen.get(key).delete(value) : chosen.get(key).add(value);
            update({});
          });
          return button;
        }),
        rest > 0 || unfolded.has(key) ? element("button", { type: "button", class: "fewer", onclick: () => { unfolded.has(key) ? unfolded.delete(key) : unfolded.add(key); drawFacets(); } }, rest > 0 ? rest + " more" : "fewer") : null);
    }).filter(Boolean), kindsAct());
    if (held) for (const button of $("facets").querySelectorAll("button")) if (button.dataset.value === held) button.focus();
  };

  const kindsAct = () => {
    if (answer.kinds === "done" || !answer.total) return "";
    if (answer.kinds === "running") {
      clearTimeout(timer);
      timer = setTimeout(follow, 1500);
      return element("p", { class: "meta" }, "Working out the kinds of change …");
    }
    const ask = explore.button("Work out the kinds", async () => {
      try {
        answer.kinds = (await explore.post("api/kinds", { from: dates.older(), to: dates.newer() })).kinds;
        drawFacets();
      } catch (error) {
        fail(error);
      }
    });
    return element("div", { class: "facet" }, element("h3", {}, "Kind of change"), answer.kinds === "none" ? null : element("p", { class: "meta wrong" }, answer.kinds), ask);
  };

  const side = (row, name, others, className) => row[name + "_objects"].map((id, index) => ({
    id, label: row[name + "_labels"][index], time: row[name + "_times"][index], class: others.includes(id) ? "" : className,
  }));
  const named = (value) => value.label || (explore.isEntity(value.id) ? value.id : "a value");
  const few = (values) => {
    const shown = values.slice(0, 4).flatMap((value, index) => [index ? ", " : "", value.class === "come" ? element("b", {}, named(value)) : named(value)]);
    return [...shown, values.length > 4 ? " and " + (values.length - 4) + " more" : null];
  };
  const list = (title, values) => element("div", {}, element("h4", {}, title), element("ul", {}, values.length
    ? values.map((value) => element("li", { class: value.class }, explore.entity(value.id, named(value)), value.time ? element("small", {}, value.time) : null))
    : element("li", { class: "meta" }, "no value")));

  const keyOf = (row) => row.subject + ":" + row.property;
  const nameOf = (row) => (row.subject_label || row.subject) + " · " + (row.property_label || row.property);
  const tags = (row) => [
    ACTS[row.act], row.kind ? row.kind + " at " + row.confidence.toFixed(2) : null,
    row.presence === "in both" ? null : "subject " + (row.presence === "new" ? "new" : row.presence === "gone" ? "gone or merged" : row.presence),
    explore.number(row.popularity) + " facts",
  ].filter(Boolean).join(" · ");
  const card = (row) => {
    const key = keyOf(row);
    const olds = side(row, "old", row.new_objects, "gone"), news = side(row, "new", row.old_objects, "come");
    const subject = row.subject_label || row.subject, relation = row.property_label || row.property;
    const dated = news.filter((value) => value.class === "come" && value.time).map((value) => value.time).sort().pop();
    const made = element("details", { class: "card" },
      element("summary", {},
        element("span", { class: "what" }, element("b", {}, subject), " · " + relation),
        element("span", { class: "since" }, dated ? "dated " + dated : ""),
        element("span", { class: "flow" }, olds.length ? few(olds) : "no value", element("span", { class: "arrow" }, "→"), news.length ? few(news) : "no value"),
        element("span", { class: "tags" }, tags(row))));
    made.dataset.card = key;
    const fill = () => made.children.length < 2 && made.append(element("div", { class: "inside" },
      element("div", { class: "sides" }, list(explore.day(dates.older()), olds), list(explore.day(dates.newer()), news)),
      element("div", { class: "acts" }, explore.button("History of " + subject, () => openItem(row.subject)),
        element("span", {}, explore.entity(row.subject, subject), " on Wikidata"), explore.queryActs(answer.query, row.subject))));
    made.addEventListener("toggle", () => {
      if (!made.open) return;
      fill();
      state.c = key;
      page.remember({ c: key });
    });
    if (key === state.c) { fill(); made.open = true; }
    const box = element("input", { type: "checkbox", "aria-label": "Select " + subject + ", " + relation, checked: selection.has(row.subject, row.property) });
    box.addEventListener("change", () => selection.set(row.subject, row.property, nameOf(row), box.checked, rows
      .filter((one) => one.subject === row.subject && one.property !== row.property)
      .map((one) => ({ subject: one.subject, property: one.property, said: nameOf(one) }))));
    return element("div", { class: "picked" }, box, made);
  };

  const draw = () => {
    const left = answer.found - rows.length;
    $("more").hidden = left <= 0;
    $("more").textContent = "Show " + Math.min(STEP, left) + " more of " + explore.number(Math.max(0, left));
    $("counted").classList.remove("wrong");
    $("counted").textContent = answer.found ? explore.number(answer.found) + " of " + explore.number(answer.total) + " changes"
      : !answer.total ? "Nothing changed between these snapshots." : "No change fits " + [state.q && "the search", [...chosen.values()].some((set) => set.size) && "these filters"].filter(Boolean).join(" and ") + ".";
  };
  const fail = (error) => {
    $("counted").textContent = error.message;
    $("counted").classList.add("wrong");
  };
  // Cards on the page are kept, open or focused, and get new tags.
  const retag = () => {
    const there = [...$("cards").children], known = new Map(there.map((one) => [one.querySelector(".card").dataset.card, one]));
    const cards = rows.map((row) => {
      const one = known.get(keyOf(row));
      if (one) one.querySelector(".tags").textContent = tags(row);
      return one || card(row);
    });
    if (cards.length === there.length && cards.every((one, index) => one === there[index])) return;
    const held = document.activeElement;
    $("cards").replaceChildren(...cards);
    if ($("cards").contains(held)) held.focus({ preventScroll: true });
  };
  const load = async (again = false) => {
    clearTimeout(timer);
    if (!again) wanted = STEP;
    try {
      const found = await ask(asked(0, Math.min(wanted, MOST)));
      if (!found) return;
      const all = found.rows;
      while (all.length < Math.min(wanted, found.found)) {
        const next = await ask(asked(all.length, Math.min(wanted - all.length, MOST)));
        if (!next) return;
        if (!next.rows.length) break;
        all.push(...next.rows);
      }
      answer = found;
      rows = all;
      drawFacets();
      again ? retag() : $("cards").replaceChildren(...rows.map(card));
      draw();
      dates.told(found);
      selection.found(found);
    } catch (error) {
      fail(error);
    }
  };
  // While kinds are worked out only the filters are refreshed, so that the cards can be read.
  const follow = async () => {
    const address = asked(0, 1);
    try {
      const found = await askKinds(address);
      if (!found || address !== asked(0, 1)) return;
      if (found.kinds === "done") return await load(true);
      Object.assign(answer, { facets: found.facets, kinds: found.kinds });
      drawFacets();
    } catch (error) {
      fail(error);
    }
  };
  $("more").addEventListener("click", async () => {
    try {
      wanted = rows.length + STEP;
      const found = await ask(asked(rows.length, STEP));
      if (!found) return;
      rows = rows.concat(found.rows);
      $("cards").append(...found.rows.map(card));
      draw();
      if (answer.kinds === "running") drawFacets(); // restarts the timer if this aborted a reload
    } catch (error) {
      fail(error);
    }
  });
  const update = (changes) => {
    Object.assign(state, changes);
    page.remember({ q: state.q, order: state.order === "popular" ? "" : state.order, ...Object.fromEntries([...chosen].map(([key, values]) => [key, [...values].join("|")])) });
    return load();
  };

  const search = $("search"), order = $("order");
  search.value = state.q;
  order.value = state.order;
  search.addEventListener("input", page.debounced(120, () => update({ q: search.value })));
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { search.value = ""; update({ q: "" }); }
    if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); const first = $("cards").querySelector("summary"); if (first) first.focus(); }
  });
  order.addEventListener("change", () => update({ order: order.value }));
  document.addEventListener("keydown", (event) => {
    const on = document.activeElement && document.activeElement.closest ? document.activeElement.closest("summary") : null;
    if (!on || !$("cards").contains(on)) return;
    if (["ArrowDown", "ArrowUp", "j", "k"].includes(event.key)) {
      const all = [...$("cards").querySelectorAll("summary")], to = all[all.indexOf(on) + (["ArrowDown", "j"].includes(event.key) ? 1 : -1)];
      if (to) { event.preventDefault(); to.focus(); }
    }
    if (event.key === "Escape") search.focus();
  });
  return {
    update,
    filters: () => ({ q: state.q.trim(), filters: Object.fromEntries([...chosen].filter(([, values]) => values.size).map(([key, values]) => [key, [...values]])) }),
    redraw: () => answer && $("cards").querySelectorAll(".picked").forEach((one, index) => (one.firstChild.checked = selection.has(rows[index].subject, rows[index].property))),
  };
};

"use strict";
// An item: found by name, and its statements over all snapshots.

explore.items = (dates, selection) => {
  const $ = (id) => document.getElementById(id);
  const { element } = page;
  const names = $("names"), box = $("found");
  const askNames = explore.latest(), askItem = explore.latest();
  let results = [], at = -1, onlyChanged = false;

  const show = (shown) => {
    box.hidden = !shown;
    names.setAttribute("aria-expanded", String(shown));
    if (!shown) names.removeAttribute("aria-activedescendant");
  };
  const mark = (index) => {
    at = index;
    [...box.children].forEach((one, number) => one.setAttribute("aria-selected", String(number === at)));
    if (at >= 0) {
      names.setAttribute("aria-activedescendant", box.children[at].id);
      box.children[at].scrollIntoView({ block: "nearest" });
    } else names.removeAttribute("aria-activedescendant");
  };
  const choose = (index) => {
    if (!results[index]) return;
    show(false);
    open(results[index].id);
  };
  const option = (one, index) => {
    const made = element("div", { role: "option", id: "found-" + index, "aria-selected": "false" },
      element("b", {}, one.label || one.id), " ", element("span", { class: "id" }, one.id), " ",
      element("small", {}, [one.description, one.merged_into ? "merged into " + one.merged_into : null, explore.number(one.popularity) + " facts", one.match === "alias" ? "by alias" : null].filter(Boolean).join(" · ")));
    made.addEventListener("mousedown", (event) => { event.preventDefault(); choose(index); });
    return made;
  };
  const search = async () => {
    const query = names.value.trim();
    if (!query) {
      results = [];
      $("names-counted").textContent = "";
      show(false);
      return;
    }
    try {
      const found = await askNames("api/search?" + new URLSearchParams({ q: query, limit: 20 }));
      if (!found) return;
      results = found.results;
      box.replaceChildren(...results.map(option));
      $("names-counted").textContent = results.length ? "" : "No loaded snapshot has an item or property of this name.";
      show(results.length > 0);
      mark(results.length ? 0 : -1);
    } catch (error) {
      $("names-counted").textContent = error.message;
    }
  };
  names.addEventListener("input", page.debounced(100, search));
  names.addEventListener("focus", () => results.length && names.value && show(true));
  names.addEventListener("blur", () => show(false));
  names.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { box.hidden ? (names.value = "") : show(false); }
    if (event.key === "Enter") { event.preventDefault(); box.hidden ? search() : choose(Math.max(0, at)); }
    if (["ArrowDown", "ArrowUp"].includes(event.key) && results.length) {
      event.preventDefault();
      show(true);
      mark((at + (event.key === "ArrowDown" ? 1 : -1) + results.length) % results.length);
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || /^(input|select|textarea)$/i.test(document.activeElement.tagName)) return;
    event.preventDefault();
    names.focus();
  });

  const SNAKS = { somevalue: "unknown value", novalue: "no value" };
  const TIMES = { start: "since", end: "until", point: "as of" };
  const label = (history, id) => (history.terms[id] && history.terms[id].label) || id;
  const value = (history, version) => {
    if (version.snak !== "value") return element("i", {}, SNAKS[version.snak]);
    if (version.object) return explore.entity(version.object, label(history, version.object));
    return element("span", {}, version.value, version.unit && version.unit !== "1" ? " " + label(history, version.unit) : "");
  };
  const about = (history, version) => {
    const times = Object.entries(TIMES).filter(([name]) => version.times[name]).map(([name, word]) => word + " " + (version.times[name] === "?" ? "an unknown date" : version.times[name]));
    const others = version.qualifiers.filter((id) => !["P580", "P582", "P585"].includes(id)).map((id) => label(history, id));
    return [version.rank === "normal" ? null : version.rank + " rank", ...times, version.restricted ? "holds for a part only" : null, others.length ? "qualifiers: " + others.join(", ") : null].filter(Boolean).join(" · ");
  };
  const marks = (history, statement, version) => history.presence.map((one) => {
    const fact = version.current.includes(one.date), there = version.dates.includes(one.date);
    const otherwise = statement.versions.some((other) => other.dates.includes(one.date));
    const said = fact ? "fact" : there ? "not current" : otherwise ? "another version" : one.state === "there" ? "absent" : one.state;
    return element("td", { class: "mark" }, element("b", { class: fact ? "is-fact" : there ? "is-there" : "is-not", "aria-hidden": "true" }, fact ? "●" : there ? "○" : otherwise ? "" : one.state === "there" ? "–" : "·"), " ", element("span", { class: "sr" }, said));
  });
  const place = (history, statement) => (/^[QPL]\d+\$[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$/i.test(statement.id) ? explore.link(explore.wikidata(history.id) + "#" + encodeURIComponent(statement.id), "statement") : null);
  const rows = (history, statement) => statement.versions.map((version, index) => {
    const shown = value(history, version), said = about(history, version), before = statement.versions[index - 1];
    const alike = before && about(history, before) === said && value(history, before).textContent === shown.textContent;
    const beside = [said || null, alike ? "another value of a qualifier, or other bounds" : null, index ? null : place(history, statement)].filter(Boolean);
    return element("tr", { class: index ? "later" : "" },
      element("td", {}, shown, beside.length ? element("span", { class: "said" }, beside.flatMap((one, number) => [number ? " · " : "", one])) : null), marks(history, statement, version));
  });
  const there = (history) => history.presence.filter((one) => one.state === "there").length;
  const changed = (history, statement) => statement.versions.length > 1 || statement.versions[0].dates.length < there(history);
  const heading = (one) => element("th", { scope: "col" }, explore.day(one.date), element("small", {},
    one.state === "merged" ? ["merged into ", explore.entity(one.merged_into, null)] : one.state === "missing" ? "not in it"
      : one.revision ? explore.link("https://www.wikidata.org/w/index.php?oldid=" + encodeURIComponent(one.revision), "revision") : explore.number(one.statements) + " statements"));

  const table = (history) => {
    const groups = new Map();
    for (const statement of history.statements) if (!onlyChanged || changed(history, statement)) groups.set(statement.property, [...(groups.get(statement.property) || []), statement]);
    const ordered = [...groups].sort(([, one], [, other]) => other.some((each) => changed(history, each)) - one.some((each) => changed(history, each)));
    if (!ordered.length) return element("p", { class: "empty-state" }, history.statements.length ? "All its statements are the same in all snapshots that have it." : "It has no statement in any loaded snapshot.");
    return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Statements" }, element("table", { class: "history" },
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Statement"), history.presence.map(heading))),
      ordered.map(([relation, statements]) => element("tbody", {},
        element("tr", {}, element("th", { scope: "rowgroup", colSpan: history.presence.length + 1 }, explore.entity(relation, label(history, relation)), " ", element("span", { class: "id" }, relation))),
        statements.flatMap((statement) => rows(history, statement))))));
  };
  const draw = (history) => {
    const known = history.terms[history.id], name = known ? known.label || history.id : history.id;
    const labels = [...new Set(history.presence.map((one) => one.label).filter((one) => one && one !== name))];
    const filter = element("input", { type: "checkbox", checked: onlyChanged });
    filter.addEventListener("change", () => { onlyChanged = filter.checked; draw(history); });
    const query = dates.query() || explore.overview.query;
    $("item").replaceChildren(
      element("div", { class: "item-top" }, element("h3", {}, name), element("span", { class: "id meta" }, history.id), element("span", { class: "meta" }, known ? known.description : "")),
      element("p", { class: "meta" }, [known && known.aliases.length ? "also " + known.aliases.slice(0, 8).join(", ") : null, labels.length ? "earlier label: " + labels.join(", ") : null].filter(Boolean).join(" · ")),
      element("div", { class: "acts noprint" }, element("label", {}, filter, " Only what changed"), explore.link(explore.wikidata(history.id), "Wikidata"),
        explore.link("https://www.wikidata.org/w/index.php?action=history&title=" + encodeURIComponent((history.id[0] === "P" ? "Property:" : "") + history.id), "Its edits"),
        explore.queryActs(query, history.id), explore.button("Select its changes", () => selection.set(history.id, null, name, true)), explore.button("Copy link", (button) => page.copy(location.href, button))),
      element("p", { class: "key marks" }, element("span", {}, "● a fact on that date"), element("span", {}, "○ there, but ended, not begun, or outranked"), element("span", {}, "– absent"), element("span", {}, "The store keeps no references: see the statement on Wikidata.")),
      table(history));
  };
  const open = async (id) => {
    page.remember({ item: id });
    try {
      const history = await askItem("api/items/" + encodeURIComponent(id));
      if (!history) return;
      $("names-counted").textContent = "";
      draw(history);
      $("find").scrollIntoView();
      $("item").focus({ preventScroll: true });
    } catch (error) {
      $("item").replaceChildren(element("p", { class: "empty-state" }, error.message));
    }
  };
  return { open };
};

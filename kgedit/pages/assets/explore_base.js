"use strict";
// What all parts of the live view share: asking the server, links to entities, and the queries for Neo4j Browser.
// Labels come from outside: page.element makes text nodes of them.

const explore = { overview: null };

explore.ask = async (path, options = {}) => {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("kgedit explore does not answer. If it was stopped, start it again and open the address it prints.");
  }
  const said = await response.json().catch(() => null);
  if (!response.ok) throw new Error((said && said.error) || "The server answered with status " + response.status + ".");
  return said;
};

explore.post = (path, asked) => explore.ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(asked) });

// Of several questions of one kind only the last one counts.
explore.latest = () => {
  let running = null;
  return async (path) => {
    if (running) running.abort();
    const own = (running = new AbortController());
    try {
      return await explore.ask(path, { signal: own.signal });
    } catch (error) {
      if (error.name === "AbortError") return null;
      throw error;
    }
  };
};

explore.day = (date) => {
  const found = explore.overview.snapshots.find((one) => one.date === Number(date));
  return found ? found.name : String(date);
};

explore.number = (value) => Number(value).toLocaleString("en");

explore.isEntity = (id) => /^[QP][1-9]\d*$/.test(id || "");

explore.wikidata = (id) => "https://www.wikidata.org/wiki/" + (id[0] === "P" ? "Property:" : "") + id;

explore.link = (address, said) => page.element("a", { href: address, rel: "noreferrer", target: "_blank" }, said);

explore.entity = (id, label) => (explore.isEntity(id) ? explore.link(explore.wikidata(id), label || id) : label || "a value");

explore.button = (said, act) => {
  const made = page.element("button", { class: "btn", type: "button" }, said);
  made.addEventListener("click", () => act(made));
  return made;
};

// A query comes from the server with a stand-in for the item's id.
explore.queryActs = (query, item) => {
  if (!/^Q\d+$/.test(item)) return [];
  const { browser, item: standIn } = explore.overview;
  const cypher = query.replaceAll("'" + standIn + "'", "'" + item + "'");
  const copy = explore.button("Copy Cypher", (button) => page.copy(cypher, button));
  if (!browser) return [copy];
  const address = browser + (browser.includes("?") ? "&" : "?") + "cmd=edit&arg=" + encodeURIComponent(cypher);
  return [explore.link(address, "Open in Neo4j Browser"), copy];
};

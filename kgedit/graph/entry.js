// Connects Neo4j Browser without a password to paste: saves the connection where Browser looks for one, then opens it.
// What to save is in the address's fragment, which a browser sends to no server.
"use strict";

/** Whether the server accepts the password. Without this check, a link on any page could make Browser run a query. */
async function isAccepted({ user, password }) {
  const answer = await fetch("/db/neo4j/tx/commit", {
    method: "POST",
    credentials: "omit",
    headers: { Authorization: `Basic ${btoa(`${user}:${password}`)}`, "Content-Type": "application/json" },
    body: JSON.stringify({ statements: [] }),
  });
  return answer.ok;
}

function save(name, values) {
  const key = `neo4j.${name}`;
  const saved = JSON.parse(localStorage.getItem(key) || "{}");
  localStorage.setItem(key, JSON.stringify({ ...saved, ...values }));
}

async function open() {
  const { bolt, user, password, settings, style, search } = JSON.parse(decodeURIComponent(location.hash.slice(1)));
  if (!(await isAccepted({ user, password }))) {
    throw new Error("the server does not accept the password");
  }
  const id = "$$discovery"; // the only connection that Browser opens by itself
  const connection = { id, name: id, type: "bolt", host: bolt, username: user, password, authenticationMethod: "NATIVE" };
  save("connections", { allConnectionIds: [id], connectionsById: { [id]: connection } });
  save("settings", settings);
  save("grass", style);
  location.replace(`./${search}`); // leaves no entry with the fragment in this window's history
}

open().catch((error) => {
  document.getElementById("entry").textContent = `Neo4j Browser cannot be opened: ${error.message}. Try: kgedit browse`;
});

"use strict";
// Shared by the pages: theme, what is shown of several views and figures, the address, copying, unpacking, long lists.
// Labels and answers come from outside: they become text nodes, never markup.

const page = {};

page.element = (tag, properties = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") made.className = value;
    else if (name in made && name !== "list") made[name] = value;
    else made.setAttribute(name, value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) made.append(child);
  return made;
};

page.unpack = async (id) => {
  const written = document.getElementById(id).textContent.trim();
  const bytes = Uint8Array.from(atob(written), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
};

// The address holds the state as "#name=value&...": every view is a link. "#section" stays an ordinary anchor.
page.state = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");

page.remember = (changes) => {
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") page.state.delete(name);
    else page.state.set(name, value);
  }
  const said = page.state.toString();
  history.replaceState(null, "", said ? "#" + said : location.pathname + location.search);
};

page.copy = async (text, button) => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const box = page.element("textarea", { value: text });
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  }
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = before), 1200);
};

page.fold = (text) => (/^[\x00-\x7f]*$/.test(text) ? text : text.normalize("NFD").replace(/[\u0300-\u036f]/g, "")).toLowerCase();

// Which of many strings hold a query: one search through all of them in a row is many times faster than one in each.
page.finder = (strings) => {
  let all = null, starts = null;
  const prepare = () => {
    if (all !== null) return;
    const folded = strings.map((text) => page.fold(text).replaceAll("\n", " "));
    starts = new Int32Array(folded.length + 1);
    folded.forEach((text, index) => (starts[index + 1] = starts[index] + text.length + 1));
    all = folded.join("\n");
  };
  const find = (query) => {
    prepare();
    const hit = new Uint8Array(strings.length);
    for (let at = all.indexOf(query), index = 0; at >= 0; at = all.indexOf(query, starts[index])) {
      while (starts[index + 1] <= at) index++;
      hit[index++] = 1;
      if (index >= strings.length) break;
    }
    return hit;
  };
  // Made ready before the first letter is typed, where there is time.
  (window.requestIdleCallback || ((act) => setTimeout(act, 200)))(prepare);
  return find;
};

page.debounced = (wait, act) => {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), wait);
  };
};

// A list of which only the rows in sight are in the document.
page.longList = (box, { height, draw, chosen }) => {
  const inner = page.element("div", { role: "presentation" });
  inner.style.position = "relative";
  box.replaceChildren(inner);
  const list = { count: 0, at: -1 };
  let drawn = new Map();

  const show = (fresh) => {
    const first = Math.max(0, Math.floor(box.scrollTop / height) - 4);
    const last = Math.min(list.count, Math.ceil((box.scrollTop + box.clientHeight) / height) + 4);
    const kept = new Map();
    for (let index = first; index < last; index++) {
      let row = fresh ? null : drawn.get(index);
      if (!row) {
        row = draw(index);
        row.style.top = index * height + "px";
        row.id = box.id + "-" + index;
        row.setAttribute("role", "option");
        row.addEventListener("click", () => list.choose(index));
      }
      row.setAttribute("aria-selected", index === list.at);
      kept.set(index, row);
    }
    inner.replaceChildren(...kept.values());
    drawn = kept;
    box.setAttribute("aria-activedescendant", kept.has(list.at) ? box.id + "-" + list.at : "");
  };

  list.fill = (count, at) => {
    list.count = count;
    list.at = at;
    inner.style.height = count * height + "px";
    if (at >= 0) list.reveal(at);
    else box.scrollTop = 0;
    show(true);
  };
  list.reveal = (index) => {
    const top = index * height;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + height - box.clientHeight;
  };
  list.choose = (index) => {
    if (index < 0 || index >= list.count) return;
    list.at = index;
    list.reveal(index);
    show(false);
    chosen(index);
  };
  box.addEventListener("scroll", () => show(false), { passive: true });
  box.addEventListener("keydown", (event) => {
    const pageful = Math.floor(box.clientHeight / height);
    const to = {
      ArrowDown: list.at + 1, j: list.at + 1, ArrowUp: list.at - 1, k: list.at - 1, Home: 0, End: list.count - 1,
      PageDown: Math.min(list.count - 1, list.at + pageful), PageUp: Math.max(0, list.at - pageful),
    }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    list.choose(Math.max(0, Math.min(list.count - 1, to)));
  });
  return list;
};

(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => (button.textContent = dark() ? "Light" : "Dark");
  try {
    const chosen = localStorage.getItem("kgedit-theme");
    if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
  } catch { /* a page from a file may have no storage */ }
  button.hidden = false;
  label();
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("kgedit-theme", root.dataset.theme); } catch { /* as above */ }
    label();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);

  document.addEventListener("click", (event) => {
    const copying = event.target.closest("[data-copy]");
    if (copying) page.copy(document.getElementById(copying.dataset.copy).textContent, copying);
  });

  for (const choice of document.querySelectorAll("select[data-figures]")) {
    const figures = [...document.getElementById(choice.dataset.figures).children];
    const show = () => figures.forEach((figure, index) => (figure.hidden = index !== choice.selectedIndex));
    choice.addEventListener("change", show);
    choice.closest(".pick").hidden = false;
    show();
  }

  const links = new Map([...document.querySelectorAll(".rail a")].map((link) => [link.hash.slice(1), link]));
  const marked = new Set();
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) entry.isIntersecting ? marked.add(entry.target.id) : marked.delete(entry.target.id);
    const current = [...links.keys()].find((id) => marked.has(id));
    if (current) for (const [id, link] of links) id === current ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
  }, { rootMargin: "-80px 0px -55% 0px" });
  for (const id of links.keys()) if (document.getElementById(id)) watch.observe(document.getElementById(id));
  // A link to a section must not wipe the state out of the address.
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const target = document.getElementById(link.hash.slice(1));
    if (!target || link.hash.includes("=")) return;
    event.preventDefault();
    target.scrollIntoView();
    target.setAttribute("tabindex", "-1");
    target.focus({ preventScroll: true });
  });
})();

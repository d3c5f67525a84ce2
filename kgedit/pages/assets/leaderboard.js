"use strict";
// Sorting: a column's name is a button; the address holds column and direction. The unedited model stays last.
(() => {
  const number = (row, index) => {
    const said = row.cells[index].dataset.sort;
    return said === "" ? null : Number(said);
  };
  const boards = [...document.querySelectorAll("table.board")];
  const sort = (board, measure, up) => {
    const heads = [...board.tHead.rows[0].cells];
    const head = heads.find((one) => one.dataset.measure === measure);
    if (!head) return;
    const index = heads.indexOf(head);
    const rows = [...board.tBodies[0].rows];
    rows.sort((one, other) => {
      const last = one.classList.contains("baseline") - other.classList.contains("baseline");
      if (last) return last;
      const first = number(one, index), second = number(other, index);
      if (first === null || second === null) return (first === null) - (second === null);
      return up ? first - second : second - first;
    });
    board.tBodies[0].append(...rows);
    for (const one of heads) one.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
  };
  const choose = (measure, up, remembered) => {
    for (const board of boards) sort(board, measure, up);
    if (remembered) page.remember({ sort: measure, up: up ? "1" : null });
  };
  for (const board of boards) {
    for (const head of board.tHead.rows[0].cells) {
      const measure = head.dataset.measure;
      if (!measure) continue;
      const button = page.element("button", { type: "button" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const sorted = head.getAttribute("aria-sort");
        const best = "lower" in head.dataset;
        choose(measure, sorted ? sorted === "descending" : best, true);
      });
    }
  }
  const known = new Set(boards.flatMap((board) => [...board.tHead.rows[0].cells].map((head) => head.dataset.measure)));
  const wanted = page.state.get("sort");
  choose(known.has(wanted) ? wanted : "efficacy", known.has(wanted) && page.state.get("up") === "1", false);
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();

"use strict";
// Sorting of tables by a click on a heading. The page is complete without it.
document.querySelectorAll("table.sortable").forEach((table) => {
  const headings = Array.from(table.tHead.rows[0].cells);
  const body = table.tBodies[0];
  if (body.rows.length < 2) return;
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    const numeric = heading.classList.contains("number");
    button.addEventListener("click", () => {
      const descending = heading.getAttribute("aria-sort") === "ascending";
      const key = (row) => row.cells[column].dataset.sort;
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === "" || y === "") return (x === "") - (y === "");
        const order = numeric ? Number(x) - Number(y) : x.localeCompare(y);
        return descending ? -order : order;
      };
      body.append(...Array.from(body.rows).sort(compare));
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
    });
  });
});

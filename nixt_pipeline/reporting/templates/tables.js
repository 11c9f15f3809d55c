"use strict";
// Sorting and filtering of tables. Pages are complete without it.
document.querySelectorAll("table.sortable").forEach((table) => {
  const headings = Array.from(table.tHead.rows[0].cells);
  const body = table.tBodies[0];
  if (body.rows.length < 2) return;
  const key = (row, column) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    const numeric = heading.classList.contains("number");
    button.addEventListener("click", () => {
      const descending = heading.getAttribute("aria-sort") === "ascending";
      const compare = (a, b) => {
        const [x, y] = [key(a, column), key(b, column)];
        if (x === "" || y === "") return (x === "") - (y === "");
        const order = numeric ? Number(x) - Number(y) : x.localeCompare(y);
        return descending ? -order : order;
      };
      body.append(...Array.from(body.rows).sort(compare));
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
    });
  });
  if (body.rows.length < 9 || table.dataset.filters) return;
  const label = document.createElement("label");
  label.className = "filter";
  label.textContent = "Rows with ";
  const input = document.createElement("input");
  input.type = "search";
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  label.append(input);
  table.closest(".scroll").before(label);
});

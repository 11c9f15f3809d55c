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
      table.classList.add("all");
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
// Filters of the index: by text, by verdict, and by host. Hosts are numbered, and each run has ranges of numbers.
document.querySelectorAll("form.filters").forEach((form) => {
  const table = document.querySelector("table[data-filters]");
  const rows = Array.from(table.tBodies[0].rows);
  const button = document.querySelector("#later button");
  let listed = false;
  const hosts = JSON.parse(document.getElementById("hosts").textContent);
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const apply = () => {
    const text = form.elements.text.value.toLowerCase();
    const host = form.elements.host.value.toLowerCase();
    const wanted = form.elements.class.value;
    const numbers = host && hosts.names.flatMap((name, number) => (name.toLowerCase().includes(host) ? [number] : []));
    const within = (ranges) => {
      for (let i = 0; i < ranges.length; i += 2) {
        if (numbers.some((number) => number >= ranges[i] && number < ranges[i] + ranges[i + 1])) return true;
      }
      return false;
    };
    table.classList.toggle("all", listed || text !== "" || host !== "" || wanted !== "");
    let shown = 0;
    rows.forEach((row, position) => {
      row.hidden =
        !texts[position].includes(text) ||
        (wanted !== "" && row.dataset.class !== wanted) ||
        (host !== "" && !within(hosts.runs[Number(row.dataset.row)]));
      shown += !row.hidden;
    });
    form.querySelector("output").textContent = `${shown} of ${rows.length} runs`;
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  if (button) {
    button.hidden = false;
    button.addEventListener("click", () => {
      listed = true;
      table.classList.add("all");
      document.getElementById("later").remove();
    });
  }
});

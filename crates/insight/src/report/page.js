"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, i) => {
    const cell = row.cells[i];
    return i === 0 ? cell.textContent : cell.dataset.v === undefined ? null : Number(cell.dataset.v);
  };
  heads.forEach((head, i) => {
    head.tabIndex = 0;
    const sort = () => {
      const down = head.getAttribute("aria-sort") === (i === 0 ? "ascending" : "descending");
      const order = (i === 0) !== down ? 1 : -1;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order === 1 ? "ascending" : "descending");
      const compare = (a, b) => {
        const [x, y] = [key(a, i), key(b, i)];
        if (x === null || y === null) return (x === null) - (y === null);
        return order * (i === 0 ? x.localeCompare(y, undefined, { numeric: true }) : x - y);
      };
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort(compare));
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => event.key === "Enter" && sort());
  });
}
for (const plot of document.querySelectorAll(".plot")) {
  let cross = null;
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    if (!cross) {
      cross = document.createElement("div");
      cross.className = "cross";
      cross.append(document.createElement("span"));
      plot.append(cross);
    }
    const time = Number(plot.dataset.start) + share * (plot.dataset.end - plot.dataset.start);
    cross.firstChild.textContent = new Date(time * 1000).toISOString().slice(0, 16).replace("T", " ");
    cross.style.left = 100 * share + "%";
    cross.classList.toggle("left", share > 0.7);
  });
  plot.addEventListener("pointerleave", () => { if (cross) { cross.remove(); cross = null; } });
}
addEventListener("hashchange", () => {
  const target = document.getElementById(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") target.open = true;
});
for (const link of document.querySelectorAll('a[href^="#node-"]')) {
  link.addEventListener("click", () => { document.getElementById(link.hash.slice(1)).open = true; });
}

// The table of points: a click on a column's head sorts by it, another one the other way round.
const points = document.getElementById("points");
const valueOf = (row, column) => {
  const cell = row.cells[column];
  return "sort" in cell.dataset ? Number(cell.dataset.sort) : cell.textContent;
};
const compared = (one, other) =>
  typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other));
[...points.tHead.rows[0].cells].forEach((head, column) => {
  head.querySelector("button").onclick = () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of points.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...points.tBodies[0].rows];
    rows.sort((one, other) => (up ? 1 : -1) * compared(valueOf(one, column), valueOf(other, column)));
    points.tBodies[0].append(...rows);
  };
});

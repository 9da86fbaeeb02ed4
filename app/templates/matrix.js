// The heat map: one table, whose cells show the metric that is chosen; a click tells more about a cell.
const $ = (id) => document.getElementById(id);
const make = (name, text, kind) => {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (kind) node.className = kind;
  return node;
};
const unique = (list) => [...new Set(list)];
const subjects = unique(ROWS.map((row) => row.subject));
const platforms = unique(ROWS.map((row) => row.platform));
const shapes = unique(ROWS.flatMap((row) => Object.keys(row.shapes)));
const sizes = unique(ROWS.flatMap((row) => Object.keys(row.latency_ns))).sort((a, b) => a - b);
const pairs = unique(ROWS.flatMap((row) => Object.keys(row.throughput_ops_per_s))).sort((a, b) => a - b);
const at = (subject, platform) => ROWS.find((row) => row.subject === subject && row.platform === platform);
const us = (ns) => (ns / 1000).toFixed(2);

function verdict(finding) {
  if (!finding || finding.refused || !Object.keys(finding.verdicts).length) return ["n/a", "absent"];
  const all = Object.values(finding.verdicts);
  if (all.includes("violated")) return ["✗", "no"];
  return all.includes("undecided") ? ["?", "open"] : ["✓", "yes"];
}
const METRICS = [
  ...shapes.map((shape) => [`guarantee: ${shape}`, (row) => verdict(row.shapes[shape]), shape]),
  ...sizes.map((size) => [`latency p50 at ${size} B, us`, (row) => row.latency_ns[size] && row.latency_ns[size].p50 / 1000]),
  ...sizes.map((size) => [`latency p99 at ${size} B, us`, (row) => row.latency_ns[size] && row.latency_ns[size].p99 / 1000]),
  ...pairs.map((n) => [`million updates of 64 B a second, ${n} queue pair${n === "1" ? "" : "s"}`,
    (row) => row.throughput_ops_per_s[n] && row.throughput_ops_per_s[n] / 1e6, null, true]),
  ...sizes.map((size) => [`CPU time of the responder at ${size} B, us`,
    (row) => row.responder_cpu_ns[size] === undefined ? undefined : row.responder_cpu_ns[size] / 1000]),
  ...sizes.map((size) => [`bytes on the wire at ${size} B`, (row) => row.wire_bytes[size]]),
];
let chosen = 0;

function shade(value, low, high, more) {
  const part = high > low ? Math.log(value / low) / Math.log(high / low) : 0;
  const light = 96 - 46 * (more ? 1 - part : part);
  return [`hsl(205 60% ${light}%)`, light < 62 ? "#fff" : "#1a1a1a"];
}
function draw() {
  const [, value, shape, more] = METRICS[chosen];
  const table = $("heat");
  const numbers = shape ? [] : ROWS.map(value).filter((v) => v > 0);
  const low = Math.min(...numbers), high = Math.max(...numbers);
  table.replaceChildren();
  const head = make("thead"), top = make("tr");
  top.append(make("th", ""), ...platforms.map((platform) => make("th", platform)));
  head.append(top);
  const body = make("tbody");
  for (const subject of subjects) {
    const line = make("tr");
    line.append(make("th", subject));
    for (const platform of platforms) {
      const row = at(subject, platform), cell = make("td", "", "absent");
      if (row) {
        if (shape) {
          const [text, kind] = value(row);
          cell.textContent = text;
          cell.className = kind;
          if (row.refuted.length && kind === "no" && !["log", "other-qp"].includes(shape)) cell.classList.add("refuted");
        } else {
          const number = value(row);
          cell.textContent = number === undefined ? "n/a" : number.toFixed(number < 100 ? 2 : 0);
          if (number > 0) [cell.style.background, cell.style.color] = shade(number, low, high, more);
        }
        cell.tabIndex = 0;
        cell.onclick = () => { mark(cell); detail(row, shape); };
        cell.onkeydown = (event) => { if (event.key === "Enter") cell.onclick(); };
      }
      line.append(cell);
    }
    body.append(line);
  }
  table.append(head, body);
  $("legend").textContent = shape
    ? "✓ all conditions hold; ✗ one is violated; ? undecided; n/a cannot be used there; underlined: violated, and its source claims it"
    : "Darker is more.";
  if (more) $("legend").textContent = "Darker is less.";
}
function mark(cell) {
  for (const other of document.querySelectorAll("#heat td.chosen")) other.classList.remove("chosen");
  cell.classList.add("chosen");
}
function detail(row, wanted) {
  const box = $("detail");
  box.replaceChildren(make("h2", `${row.subject} on ${row.platform}`));
  const claims = Object.keys(row.claimed);
  box.append(make("p", `Its source claims here: ${claims.join(", ") || "nothing"}.` +
    (row.refuted.length ? ` Refuted: ${row.refuted.join(", ")}.` : "")));
  const order = wanted ? [wanted, ...Object.keys(row.shapes).filter((s) => s !== wanted)] : Object.keys(row.shapes);
  for (const shape of order) {
    const finding = row.shapes[shape];
    if (!finding) continue;
    const words = finding.refused ? `cannot be used: ${finding.refused}`
      : Object.entries(finding.verdicts).map(([name, found]) => `${name} ${found}`).join(", ");
    box.append(make("h3", `${shape}: ${words}`));
    if (finding.story.length) {
      box.append(make("pre", finding.story.join("\n")),
        make("p", `Saved: ${finding.counterexample.case} (rpsim replay)`, "note"));
    }
  }
  for (const [size, hops] of Object.entries(row.hops_ns)) {
    const total = hops.reduce((sum, [, ns]) => sum + ns, 0);
    box.append(make("h3", `Where the time goes, ${size} B: ${us(total)} us`));
    for (const [name, ns] of hops) {
      const line = make("div", undefined, "hop"), bar = make("div");
      bar.style.width = `${(100 * ns / total).toFixed(2)}%`;
      line.append(make("span", name), bar, make("span", `${ns.toFixed(1)} ns`, "n"));
      box.append(line);
    }
  }
}
METRICS.forEach(([name], number) => $("metric").append(new Option(name, number)));
$("metric").onchange = () => { chosen = Number($("metric").value); draw(); };
draw();
if (location.hash) {
  const [subject, platform] = decodeURIComponent(location.hash.slice(1)).split("@");
  const row = at(subject, platform);
  if (row) detail(row, METRICS[chosen][2]);
}

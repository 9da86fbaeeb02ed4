/* The crash slider: which lines may be where, and what recovery returns, for every instant of a power failure. */
(() => {
  const WIDTH = 1130, GUTTER = 270, RIGHT = 24, TOP = 26, OPERATION = 32, LINE = 38;
  const EVEN = 0.7;   // how much of the time axis goes by events rather than by time, so that bursts stay readable
  const at = id => document.getElementById(id);
  const escape = text => String(text).replace(/[&<>"']/g, c => "&#" + c.charCodeAt(0) + ";");
  const us = ps => (ps / 1e6).toFixed(3);
  const SIGNS = {holds: "✓", violated: "✗", undecided: "?", yes: "✓", maybe: "?", no: "✗", absent: "–"};
  const WORDS = {yes: "yes", maybe: "may be lost", no: "no", absent: "not written yet"};
  const badge = (kind, word) => `<span class="badge ${kind}">${SIGNS[kind] || ""} ${escape(word)}</span>`;
  let chosen = 0, step = 0;

  /* A line's way: one entry a place, a place that is listed twice in a row counted once. */
  const way = line => line.places.filter(([place], i) => i === 0 || line.places[i - 1][0] !== place);

  /* Time to x: a mixture of time itself and of the number of the event. */
  function scale(data) {
    const times = new Set();
    data.operations.forEach(o => { times.add(o.invoke_ps); if (o.return_ps !== null) times.add(o.return_ps); });
    data.lines.forEach(l => l.places.forEach(([, ps]) => { if (ps !== null) times.add(ps); }));
    data.steps.forEach(s => times.add(s.ps));
    const events = [...times].sort((a, b) => a - b);
    const span = events[events.length - 1] - events[0] || 1, room = WIDTH - GUTTER - RIGHT - 70;
    const places = events.map((ps, i) => GUTTER + room *
      (EVEN * i / Math.max(1, events.length - 1) + (1 - EVEN) * (ps - events[0]) / span));
    return {events, end: WIDTH - RIGHT, x: ps => places[events.indexOf(ps)]};
  }

  function lanes(data, now) {
    const {events, end, x} = scale(data);
    const processes = [...new Set(data.operations.map(o => o.process))];
    const height = TOP + processes.length * OPERATION + data.lines.length * LINE + 34;
    const out = [];
    const text = (tx, ty, words, more = "") => out.push(`<text x="${tx}" y="${ty}" ${more}>${escape(words)}</text>`);
    const clip = (words, length) => words.length > length ? words.slice(0, length - 1) + "…" : words;
    processes.forEach((process, row) => {
      const y = TOP + row * OPERATION;
      text(0, y + 17, "client " + process, 'font-weight="600"');
      data.operations.filter(o => o.process === process).forEach(o => {
        const from = x(o.invoke_ps), to = o.return_ps === null ? end : x(o.return_ps);
        const label = `${o.f} ${o.object}` + (o.value === null || o.value === undefined ? "" : ` = ${o.value}`);
        out.push(`<rect x="${from}" y="${y + 2}" width="${Math.max(2, to - from)}" height="22" fill="#ddd" stroke="#777"/>`);
        if (o.return_ps !== null) out.push(`<path d="M${to} ${y - 1}v28" stroke="#1a1a1a" stroke-width="2.5"/>`);
        text(from + 6, y + 17, clip(label, Math.max(3, Math.floor((to - from) / 7))));
      });
    });
    const several = new Set(data.lines.map(line => line.node)).size > 1;   // machines have lines of one name
    const fates = new Map(data.steps[now].lines.map(l => [l.id, l.survives]));
    data.lines.forEach((line, row) => {
      const y = TOP + processes.length * OPERATION + row * LINE, fate = fates.get(line.id) || "absent";
      const colour = {yes: "#00618F", maybe: "#B84A00", no: "#B84A00", absent: "#767676"}[fate];
      text(0, y + 21, SIGNS[fate], `style="fill:${colour};font-weight:700;font-size:16px"`);
      const name = several ? `${line.node} ${line.label}` : line.label;
      out.push(`<g><title>${escape(name)}: ${escape(line.writer)}</title>`);
      text(20, y + 14, clip(name, 32), 'class="mono"');
      text(20, y + 28, clip(line.writer, 40), 'class="soft"');
      out.push("</g>");
      const seen = way(line).filter(([, ps]) => ps !== null);
      seen.forEach(([place, ps], i) => {
        const from = x(ps), to = i + 1 < seen.length ? x(seen[i + 1][1]) : end, inside = data.inside.includes(place);
        const wide = to - from;
        if (wide <= 0) return;
        out.push(`<rect x="${from}" y="${y + 5}" width="${wide}" height="22" fill="${inside ? "#0072B2" : "#F3C9A8"}" stroke="#fff"><title>${escape(place)} from ${us(ps)} us</title></rect>`);
        if (wide > place.length * 7 + 6) text(from + 5, y + 20, place, inside ? 'style="fill:#fff"' : "");
      });
    });
    const bottom = height - 30, when = x(data.steps[now].ps);
    out.push(`<defs><pattern id="never" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="#fff" fill-opacity=".72"/><path d="M0 0v6" stroke="#999"/></pattern></defs>`);
    out.push(`<rect x="${when}" y="${TOP - 4}" width="${end - when}" height="${bottom - TOP + 4}" fill="url(#never)"/>`);
    out.push(`<path d="M${GUTTER} ${bottom}H${end}" stroke="#1a1a1a"/>`);
    let last = -99;
    events.forEach(ps => {
      const tick = x(ps);
      out.push(`<path d="M${tick} ${bottom}v5" stroke="#1a1a1a"/>`);
      if (tick - last > 46) { text(tick, bottom + 18, us(ps), 'text-anchor="middle" class="soft"'); last = tick; }
    });
    text(0, bottom + 18, "us, stretched where much happens", 'class="soft"');
    out.push(`<path d="M${when} ${TOP - 6}V${bottom}" stroke="#B84A00" stroke-width="3"/>`);
    const late = when > WIDTH - 220;
    text(when + (late ? -6 : 6), 14, `power failure ${us(data.steps[now].ps)} us`,
      `style="fill:#B84A00;font-weight:700" text-anchor="${late ? "end" : "start"}"`);
    const svg = at("crash-lanes");
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
    svg.innerHTML = out.join("");
    svg.onclick = event => {
      const box = svg.getBoundingClientRect(), where = (event.clientX - box.left) * WIDTH / box.width;
      const far = data.steps.map(s => Math.abs(x(s.ps) - where));
      move(far.indexOf(Math.min(...far)));
    };
  }

  function lines(data, now) {
    const byId = new Map(data.lines.map(line => [line.id, line]));
    at("crash-lines").tBodies[0].innerHTML = data.steps[now].lines.map(({id, may_be, survives}) => {
      const line = byId.get(id), known = new Set(way(line).map(([place]) => place));
      const all = [...known, ...may_be.filter(place => !known.has(place))];
      const chips = survives === "absent" ? "" : all.map(place =>
        `<span class="chip ${!may_be.includes(place) ? "not" : data.inside.includes(place) ? "inside" : "outside"}">${escape(place)}</span>`).join("");
      return `<tr><td><span class="mono">${escape(line.label)}</span><small>${escape(line.node)} ${escape(line.device)}</small></td>` +
        `<td>${escape(line.writer)}</td><td>${chips}</td><td>${badge(survives, WORDS[survives])}</td></tr>`;
    }).join("");
  }

  function objects(data, now) {
    at("crash-objects").tBodies[0].innerHTML = data.steps[now].objects.map(o => {
      const chips = (values, wrong) => values.map(v => `<span class="chip ${wrong(v) ? "wrong" : ""}">${wrong(v) ? "✗ " : ""}${escape(v)}</span>`).join("");
      const verdicts = Object.entries(o.verdicts).map(([name, verdict]) => `<div>${badge(verdict, name + " " + verdict)}</div>`).join("");
      return `<tr><td>${escape(o.object)}</td><td>${chips(o.recovered, v => !o.allowed.includes(v))}</td>` +
        `<td>${chips(o.allowed, () => false)}</td><td>${verdicts}</td></tr>`;
    }).join("");
  }

  function sentence(data, now) {
    const s = data.steps[now], broken = s.objects.filter(o => Object.values(o.verdicts).includes("violated"));
    const loose = s.lines.filter(l => l.survives === "maybe" || l.survives === "no").length;
    const says = broken.map(o => o.note || `${o.object} may come back as ${o.recovered.filter(v => !o.allowed.includes(v)).join(" or ")}`);
    const lost = loose === 0 ? "No line is at risk" : loose === 1 ? "One line may be lost" : `${loose} lines may be lost`;
    const good = s.objects.map(o => o.note).filter(Boolean).join(" ") || "whatever is left, recovery returns what the oracle allows.";
    const p = at("crash-sentence");
    p.className = broken.length ? "bad" : "";
    p.textContent = broken.length ? `${lost}: ${says.join("; ")}` : `${lost}; ${good}`;
  }

  function draw() {
    const data = SLIDERS[chosen];
    at("crash-variant").value = chosen;
    at("crash-step").max = data.steps.length - 1;
    at("crash-step").value = step;
    at("crash-back").disabled = step === 0;
    at("crash-on").disabled = step === data.steps.length - 1;
    at("crash-domain").textContent = data.domain;
    at("crash-when").textContent = `${us(data.steps[step].ps)} us`;
    at("crash-what").textContent = `${data.steps[step].what}, then the power fails (instant ${step + 1} of ${data.steps.length})`;
    lanes(data, step); objects(data, step); lines(data, step); sentence(data, step);
  }

  function move(to, variant = chosen) {
    chosen = Math.max(0, Math.min(SLIDERS.length - 1, variant || 0));
    step = Math.max(0, Math.min(SLIDERS[chosen].steps.length - 1, to || 0));
    draw();
    try { history.replaceState(null, "", `#scheme=${chosen}&step=${step}`); } catch { /* not for every file:// page */ }
  }

  function fromHash() {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (asked.has("scheme") || asked.has("step")) move(Number(asked.get("step")), Number(asked.get("scheme")));
    else move(Math.max(0, SLIDERS[0].steps.findIndex(s => s.objects.some(o => Object.values(o.verdicts).includes("violated")))), 0);
  }

  at("crash-variant").innerHTML = SLIDERS.map((s, i) => `<option value="${i}">${escape(s.scheme)} on ${escape(s.platform)}: ${escape(s.title)}</option>`).join("");
  at("crash-variant").onchange = event => move(step, Number(event.target.value));
  at("crash-step").oninput = event => move(Number(event.target.value));
  at("crash-back").onclick = () => move(step - 1);
  at("crash-on").onclick = () => move(step + 1);
  document.addEventListener("keydown", event => {
    if (event.altKey || event.ctrlKey || event.metaKey || ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName)) return;
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") { move(step + (event.key === "ArrowLeft" ? -1 : 1)); event.preventDefault(); }
  });
  addEventListener("hashchange", fromHash);
  fromHash();
})();

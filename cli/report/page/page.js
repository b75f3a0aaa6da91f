"use strict";
// Draws the data of one or several runs. All text comes in by textContent: a log may quote anything.
(() => {
  // A file has its data in it; a live page gets them from its server.
  const embedded = document.getElementById("data");
  let data = embedded ? JSON.parse(embedded.textContent) : {runs: []};
  let runs = [], isOne = true;
  const main = document.getElementById("main");

  // Elements: make("td", {class: "number"}, "text", child).
  const SVG = "http://www.w3.org/2000/svg";
  const put = (element, attributes, children) => {
    for (const [name, value] of Object.entries(attributes || {})) if (value !== undefined) element.setAttribute(name, value);
    for (const child of children) element.append(child);
    return element;
  };
  const make = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
  const draw = (tag, attributes, ...children) => put(document.createElementNS(SVG, tag), attributes, children);

  // Numbers for people.
  const known = (value) => typeof value === "number" && Number.isFinite(value);
  const scaled = (value, units, base) => {
    let unit = 0;
    while (Math.abs(value) >= base && unit + 1 < units.length) { value /= base; ++unit; }
    const digits = unit === 0 || Math.abs(value) >= 100 ? 0 : 1;
    return value.toFixed(digits) + units[unit];
  };
  const count = (value) => known(value) ? scaled(value, ["", " k", " M", " G", " T"], 1000) : "-";
  const bytes = (value) => known(value) ? scaled(value, [" B", " kB", " MB", " GB", " TB"], 1000) : "-";
  const loss = (value) => known(value) ? value.toFixed(3) : "-";
  const share = (value) => known(value) ? (100 * value).toFixed(1) + " %" : "-";
  const seconds = (value) => {
    if (!known(value)) return "-";
    if (value < 60) return value.toFixed(value < 10 ? 2 : 1) + " s";
    const whole = Math.round(value), hours = Math.floor(whole / 3600);
    const rest = String(Math.floor(whole / 60) % 60).padStart(hours ? 2 : 1, "0") + ":" + String(whole % 60).padStart(2, "0");
    return hours ? hours + ":" + rest : rest;
  };
  const times = (whole, part) => known(whole) && known(part) && part > 0 ? (whole / part).toFixed(whole / part < 10 ? 1 : 0) + " x" : "-";
  const clock = (milliseconds) => new Date(milliseconds).toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC");

  let page = document.createDocumentFragment();  // the sections, until they are shown
  const section = (title, ...children) => {
    page.append(make("section", {}, make("h2", {}, title), ...children));
  };
  // A table that scrolls by itself on a narrow screen.
  const table = (label, head, rows, numbers) => {
    const kind = (column) => numbers && column > 0 ? "number" : undefined;
    const line = (cells, tag) => make("tr", {}, ...cells.map((cell, column) =>
      make(column === 0 ? "th" : tag, {class: kind(column), scope: tag === "th" ? "col" : column === 0 ? "row" : undefined}, cell)));
    return make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": label},
      make("table", {}, make("thead", {}, line(head, "th")), make("tbody", {}, ...rows.map((row) => line(row, "td")))));
  };

  // Lines over a common x. chart: {title, x: {name, format}, y: {name, format, log}, series: [{name, x, y, style}]}.
  const HEIGHT = 280, LEFT = 64, RIGHT = 12, TOP = 12, BOTTOM = 40;
  let WIDTH = 720;  // of the page, so that letters have their size on any screen
  const STYLES = 32;
  const style = (index) => "c" + index % 8 + " d" + Math.floor(index % STYLES / 8);
  const ticks = (low, high, isLog) => {
    const found = [];
    if (isLog) {
      for (let power = Math.ceil(Math.log10(low) - 1e-9); power <= Math.log10(high) + 1e-9; ++power) found.push(10 ** power);
      return found.length > 1 ? found : [low, high];
    }
    const raw = (high - low) / 5 || 1, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * ([1, 2, 5, 10].find((each) => each * power >= raw) || 10);
    for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(value);
    return found;
  };
  const limits = (values, isLog) => {
    let low = Infinity, high = -Infinity;
    for (const list of values) for (const value of list) {
      if (!known(value) || (isLog && value <= 0)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    if (low > high) return null;
    return low === high ? [low - (isLog ? low / 2 : 1), high + 1] : [low, high];
  };

  const plot = (chart) => {
    const series = chart.series.filter((each) => each.y.some(known));
    const xs = limits(series.map((each) => each.x), false), ys = limits(series.map((each) => each.y), chart.y.log);
    const figure = make("figure", {}, make("figcaption", {}, chart.title));
    if (!xs || !ys) {
      figure.append(make("p", {class: "quiet"}, "No figures yet."));
      return figure;
    }
    const toY = chart.y.log ? Math.log : (value) => value;
    const [bottom, top] = ys.map(toY);
    const px = (value) => LEFT + (value - xs[0]) / (xs[1] - xs[0]) * (WIDTH - LEFT - RIGHT);
    const py = (value) => HEIGHT - BOTTOM - (toY(value) - bottom) / (top - bottom) * (HEIGHT - TOP - BOTTOM);
    const words = series.map((each) => {
      const last = each.y.findLast(known);
      return each.name + " ends at " + chart.y.format(last);
    });
    const shown = words.slice(0, 6).join("; ") + (words.length > 6 ? "; and " + (words.length - 6) + " more" : "");
    const svg = draw("svg", {viewBox: "0 0 " + WIDTH + " " + HEIGHT, role: "img", tabindex: "0",
      "aria-label": chart.title + ": " + chart.y.name + " against " + chart.x.name + ". " + shown});
    for (const value of ticks(ys[0], ys[1], chart.y.log)) {
      svg.append(draw("line", {class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: py(value), y2: py(value)}),
        draw("text", {x: LEFT - 6, y: py(value) + 4, "text-anchor": "end"}, chart.y.format(value)));
    }
    for (const value of ticks(xs[0], xs[1], false)) {
      svg.append(draw("text", {x: px(value), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle"}, chart.x.format(value)));
    }
    svg.append(draw("text", {x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle"}, chart.x.name));
    for (const each of series) {
      let path = "", down = false;
      each.y.forEach((value, at) => {
        if (!known(value) || !known(each.x[at]) || (chart.y.log && value <= 0)) { down = down && each.sparse; return; }
        path += (down ? "L" : "M") + px(each.x[at]).toFixed(1) + " " + py(value).toFixed(1);
        down = true;
      });
      svg.append(draw("path", {class: "series " + each.style, d: path}));
      const points = each.x.map((value, index) => [value, each.y[index]]).filter(([x, y]) => known(x) && known(y) && (!chart.y.log || y > 0));
      if (points.length === 1) svg.append(draw("circle", {class: "series " + each.style, cx: px(points[0][0]), cy: py(points[0][1]), r: 3}));
    }
    const cursor = draw("line", {class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden"});
    svg.append(cursor);
    const readout = make("p", {class: "readout", "aria-live": "polite"});
    let at = -1;
    const nearest = (list, x) => {
      let best = -1;
      list.forEach((value, index) => { if (known(value) && (best < 0 || Math.abs(value - x) < Math.abs(list[best] - x))) best = index; });
      return best;
    };
    const read = (x) => {
      cursor.setAttribute("x1", px(x));
      cursor.setAttribute("x2", px(x));
      cursor.setAttribute("visibility", "visible");
      readout.textContent = chart.x.name + " " + chart.x.format(x) + ": " + series.slice(0, 8).map((each) => {
        const known_at = each.x.map((value, index) => known(each.y[index]) ? value : null);
        return each.name + " " + chart.y.format(each.y[nearest(known_at, x)]);
      }).join(", ");
    };
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const x = xs[0] + ((event.clientX - box.left) / box.width * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT) * (xs[1] - xs[0]);
      at = nearest(series[0].x, Math.min(xs[1], Math.max(xs[0], x)));
      read(series[0].x[at]);
    });
    svg.addEventListener("keydown", (event) => {
      const end = series[0].x.length - 1;
      const next = {ArrowLeft: at < 0 ? end : at - 1, ArrowRight: at + 1, Home: 0, End: end}[event.key];
      if (next === undefined) return;
      event.preventDefault();
      at = Math.min(end, Math.max(0, next));
      if (known(series[0].x[at])) read(series[0].x[at]);
    });
    const legend = make("ul", {class: "legend"}, ...series.map((each) => make("li", {},
      draw("svg", {viewBox: "0 0 28 10", "aria-hidden": "true"}, draw("line", {class: "series " + each.style, x1: 0, x2: 28, y1: 5, y2: 5})),
      each.name)));
    figure.append(svg, readout, legend);
    return figure;
  };
  const chosen = {};  // by the reader: it outlasts a page that is drawn anew
  // A chart that a choice among its axes draws anew.
  const choose = (label, choices, build) => {
    const now = chosen[label] || 0;
    const place = make("div", {}, build(choices[now]));
    const name = label.toLowerCase().replace(/[^a-z]+/g, "-");
    return make("div", {}, make("fieldset", {}, make("legend", {}, label), ...choices.map((choice, index) => {
      const input = make("input", {type: "radio", name, checked: index === now ? "" : undefined});
      input.addEventListener("change", () => { chosen[label] = index; place.replaceChildren(build(choice)); });
      return make("label", {}, input, " " + choice.name);
    })), place);
  };

  // What a run's figures come to.
  const number = (run, key) => Number(run.configuration[key]);
  const last = (run, column) => (run.rounds[column] || []).findLast(known);
  const interval = (run) => run.configuration["sync.inner_steps"] !== "auto" ? run.configuration["sync.inner_steps"]
    : "auto: " + run.configuration["sync.inner_steps_min"] + " to " + run.configuration["sync.inner_steps_max"];
  const parameters = (run) => run.summary.params;
  const workers = (run) => run.summary.workers || number(run, "run.workers");
  // Bytes of a method that sends so many for each parameter, each way, by all workers.
  const beside = (run, perParameter, everyStep) => run.rounds.step.map((step, index) => known(step) && known(parameters(run))
    ? perParameter * parameters(run) * workers(run) * (everyStep ? step : run.rounds.round[index] + 1) : null);
  const BASELINES = [["DDP, fp32", 4, true], ["DiLoCo, fp32", 4, false], ["DiLoCo, 4 bit", 0.5, false]];

  const of = (run, text) => isOne ? text : run.name + ", " + text;
  const what = embedded ? "Longwave report" : "Longwave, live";

  const render = () => {
    runs = data.runs;
    isOne = runs.length === 1;
    document.title = runs.map((run) => run.name).join(", ") + " - " + what;
    document.getElementById("title").textContent = what + ": " + runs.map((run) => run.name).join(", ");
    document.getElementById("made").textContent = (embedded ? "Made " : "As of ") + clock(data.made);
    WIDTH = Math.max(300, Math.min(1100, main.clientWidth));
    const facts = [
      ["outcome", (run) => run.summary.outcome ? run.summary.outcome + (run.summary.failure ? ": " + run.summary.failure : "") : "under way, or its `up` was killed"],
      ["preset", (run) => run.configuration["run.preset"] || "none"],
      ["parameters", (run) => count(parameters(run))],
      ["workers, shards", (run) => workers(run) + ", " + (run.summary.shards || run.configuration["run.shards"])],
      ["steps", (run) => count(last(run, "step")) + " of " + count(number(run, "run.steps")) + ", a sync every " + interval(run)],
      ["tokens", (run) => count(last(run, "tokens"))],
      ["training loss", (run) => loss(run.summary.train_loss ?? last(run, "train_loss"))],
      ["validation loss", (run) => loss(run.summary.val_loss ?? last(run, "validation_loss"))],
      ["time of training", (run) => seconds(last(run, "seconds"))],
      ["replicas", (run) => run.summary.replicas_equal === undefined ? "-" : run.summary.replicas_equal ? "equal" : "not equal"],
      ["state", (run) => run.summary.state_hash || "-"],
      ["repairs, restarts", (run) => (run.summary.repairs ?? "-") + ", " + (run.summary.restarts ?? "-")],
    ];
    section("Summary", table("Summary", ["", ...runs.map((run) => run.name)], facts.map(([name, of]) => [name, ...runs.map(of)])),
      ...runs.flatMap((run) => (run.summary.warnings || []).map((text) => make("p", {class: "warning"}, run.name + ": " + text))));

    const AXES = [
      {name: "steps", column: "step", format: count}, {name: "tokens", column: "tokens", format: count},
      {name: "bytes sent", column: "bytes_pushed", format: bytes}, {name: "time", column: "seconds", format: seconds},
    ];
    section("Loss", choose("Loss against", AXES, (axis) => plot({
      title: "Loss against " + axis.name, x: axis, y: {name: "loss", format: loss},
      series: runs.flatMap((run, index) => [
        {name: of(run, "validation"), x: run.rounds[axis.column], y: run.rounds.validation_loss, style: "c" + index % 8, sparse: true},
        {name: of(run, "training"), x: run.rounds[axis.column], y: run.rounds.train_loss, style: "c" + index % 8 + " d2"},
      ]),
    })));

    section("Bytes", plot({
      title: "Bytes that all workers have sent", x: AXES[0], y: {name: "bytes", format: bytes, log: true},
      series: [
        ...runs.map((run, index) => ({name: isOne ? "this run" : run.name, x: run.rounds.step, y: run.rounds.bytes_pushed, style: "c" + index % 8})),
        ...BASELINES.map(([name, size, everyStep], index) => ({name: name + (isOne ? "" : " (" + runs[0].name + ")"),
          x: runs[0].rounds.step, y: beside(runs[0], size, everyStep), style: "c" + (5 + index) + " d" + (index + 1)})),
      ],
    }), table("Bytes", ["", ...runs.flatMap((run) => isOne ? ["sent", "received"] : [run.name + " sent", "received"])], [
      ["this run", ...runs.flatMap((run) => [bytes(last(run, "bytes_pushed")), bytes(last(run, "bytes_pulled"))])],
      ...BASELINES.map(([name, size, everyStep]) => [name + " would have", ...runs.flatMap((run) => {
        const whole = beside(run, size, everyStep).findLast(known);
        return ["bytes_pushed", "bytes_pulled"].map((column) => bytes(whole) + ", " + times(whole, last(run, column)));
      })]),
    ], true), make("p", {class: "quiet"}, "The run's bytes are counted at the sockets. The others are formulae: 4 or 0.5 bytes a parameter, each step (DDP) or each sync (DiLoCo)."));

    const ofRounds = (title, column, y) => plot({title, x: AXES[0], y, series: runs.map((run, index) =>
      ({name: run.name, x: run.rounds.step, y: run.rounds[column], style: style(index)}))});
    const ofWorkers = (run, title, column, y) => plot({title: title + (!isOne ? ", " + run.name : ""),
      x: {name: "rounds", format: count}, y, series: run.workers.map((worker, index) =>
        ({name: worker.name, x: worker.round, y: worker[column], style: style(index)}))});
    const SHARE = {name: "compute share", format: share}, LENGTH = {name: "seconds", format: seconds};
    section("Time",
      ofRounds("Share of the members' time in inner steps", "compute_share", SHARE),
      ofRounds("Length of a round", "round_seconds", LENGTH),
      ...runs.flatMap((run) => [ofWorkers(run, "Share of a worker's time in inner steps", "compute_share", SHARE),
        ofWorkers(run, "Length of a worker's round", "round_seconds", LENGTH)]));

    const PARTS = [...new Set(runs.flatMap((run) => run.workers.flatMap((worker) => Object.keys(worker.seconds))))];
    const mean = (list) => { const some = list.filter(known); return some.length ? some.reduce((a, b) => a + b, 0) / some.length : NaN; };
    section("Workers", ...runs.map((run) => table("Workers of " + run.name,
      [!isOne ? run.name : "worker", "rounds", "compute share", ...PARTS, "warnings", "lost, late or back"],
      run.workers.map((worker) => {
        const named = run.events.filter((event) => event.process === worker.name || event.text.includes("(" + worker.name + ")"));
        return [worker.name, count(worker.round.findLast(known)), share(mean(worker.compute_share)),
          ...PARTS.map((part) => seconds(worker.seconds[part])),
          String(named.filter((event) => event.level !== "info").length),
          String(named.filter((event) => /not heard|heard again|joins again|has left|expelled|late|repair/.test(event.text)).length)];
      }), true)));

    const events = runs.flatMap((run) => run.events.map((event) => ({...event, run: run.name}))).sort((a, b) => a.time - b.time);
    const PAGE = 200;
    const select = make("select", {}, make("option", {value: ""}, "all"), ...[...new Set(events.map((event) => event.process))].sort()
      .map((process) => make("option", {value: process}, process)));
    const level = make("select", {}, make("option", {value: ""}, "all"), make("option", {value: "warning"}, "warnings and errors"));
    const list = make("div", {});
    const listEvents = () => {
      const shown = events.filter((event) => (!select.value || event.process === select.value || event.text.includes(select.value)) &&
        (!level.value || event.level !== "info"));
      const rows = shown.slice(0, PAGE).concat(shown.length > 2 * PAGE ? shown.slice(-PAGE) : shown.slice(PAGE));
      list.replaceChildren(make("p", {class: "quiet"}, shown.length + " events" + (rows.length < shown.length
        ? ", of which the first and the last " + PAGE + " are shown" : "")),
      make("ol", {class: "events"}, ...rows.map((event) => make("li", {},
        make("span", {class: "quiet"}, clock(event.time) + " " + (isOne ? "" : event.run + " ") + event.process + " "),
        make("span", {class: event.level === "info" ? undefined : event.level},
          (event.level === "info" ? "" : event.level + ": ") + event.text)))));
    };
    [select, level].forEach((each, index) => {
      each.value = chosen[index] || "";
      if (each.selectedIndex < 0) each.value = "";
      each.addEventListener("change", () => { chosen[index] = each.value; listEvents(); });
    });
    listEvents();
    section("Events", make("p", {class: "filter"}, make("label", {}, "Process ", select), " ", make("label", {}, "Level ", level)), list);

    const samples = runs.filter((run) => run.sample);
    if (samples.length) section("Sample of the model", ...samples.flatMap((run) => [
      ...(isOne ? [] : [make("h3", {}, run.name)]), make("pre", {}, run.sample)]));

    const keys = [...new Set(runs.flatMap((run) => Object.keys(run.configuration)))];
    const settings = (label, wanted) => table(label, ["key", ...runs.map((run) => run.name)],
      wanted.map((key) => [key, ...runs.map((run) => run.configuration[key] ?? "-")]));
    const differing = keys.filter((key) => new Set(runs.map((run) => run.configuration[key])).size > 1);
    section("Configuration",
      ...(!isOne ? [make("p", {}, differing.length ? "What differs:" : "The runs have the same configuration."), ...(differing.length ? [settings("Keys that differ", differing)] : [])] : []),
      make("details", {open: chosen.all ? "" : undefined}, make("summary", {}, "All " + keys.length + " keys"), settings("All keys", keys)));
    show();
  };
  // Shows the sections, with the reader's place on them: the focus, how far tables are scrolled, what is open.
  const show = () => {
    const places = () => [...main.querySelectorAll("input, select, summary, [tabindex]")];
    const focus = places().indexOf(document.activeElement);
    const scrolled = [...main.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    main.replaceChildren(page);
    main.querySelectorAll(".scroll").forEach((each, index) => { each.scrollLeft = scrolled[index] || 0; });
    main.querySelectorAll("details").forEach((each) => each.addEventListener("toggle", () => { chosen.all = each.open; }));
    if (focus >= 0 && places()[focus]) places()[focus].focus({preventScroll: true});
  };

  // A live page: the whole first, then what is new. It keeps what it has while its server is away.
  const follow = () => {
    const POINTS_MAX = 1200, SILENCE_MS = 10000, RETRY_MS = 2000;
    const live = document.getElementById("live");
    let source = null, heard = Date.now(), stale = false;
    const isOver = (run) => ["finished", "failed", "stopped"].includes(run.summary.outcome);
    const say = (text, kind) => {
      if (live.textContent === text) return;  // a screen reader says what is new
      live.textContent = text;
      live.className = kind;
    };
    // Not under a reader's pointer or cursor, nor what he is choosing from.
    const draw = () => {
      stale = document.hidden || main.querySelector("figure svg:hover, figure svg:focus, select:focus, :active") !== null;
      if (!stale) render();
    };
    const take = (event, update) => {
      heard = Date.now();
      update(JSON.parse(event.data));
      draw();
      if (isOver(data.runs[0])) say("The run is over: " + data.runs[0].summary.outcome + ".", "");
      else say("Live.", "good");
    };
    const extend = (known, news) => { for (const name of Object.keys(news)) if (Array.isArray(news[name])) known[name] = (known[name] || []).concat(news[name]); };
    const add = (news) => {
      if (!data.runs.length || news.update <= data.update) return;
      const run = data.runs[0];
      // The last news are taken as they are: the server is not there for long.
      if (!isOver(news.run) && (news.update > data.update + 1 || run.rounds.round.length > POINTS_MAX)) { connect(); return; }
      data.made = news.made;
      data.update = news.update;
      run.summary = news.run.summary;
      extend(run.rounds, news.run.rounds);
      run.events = run.events.concat(news.run.events);
      for (const worker of news.run.workers) {
        const known = run.workers.find((each) => each.name === worker.name);
        if (!known) { run.workers.push(worker); continue; }
        extend(known, worker);
        known.seconds = worker.seconds;
      }
    };
    const lose = () => {
      if (!runs.length || isOver(data.runs[0])) return;
      say("The server does not answer. The page shows what it had as of " + clock(data.made) + " and tries again.", "error");
    };
    const connect = () => {
      if (source) source.close();
      heard = Date.now();
      source = new EventSource("events");
      source.addEventListener("whole", (event) => take(event, (whole) => { data = whole; }));
      source.addEventListener("news", (event) => take(event, add));
      source.onerror = lose;
    };
    connect();
    setInterval(() => {
      if (stale) draw();
      if (Date.now() - heard < SILENCE_MS && source.readyState !== EventSource.CLOSED) return;
      lose();
      connect();
    }, RETRY_MS);
  };
  if (embedded) render(); else follow();
  let width = main.clientWidth, later = 0;
  addEventListener("resize", () => {
    clearTimeout(later);
    later = setTimeout(() => {
      if (main.clientWidth === width || !runs.length) return;
      width = main.clientWidth;
      render();
    }, 200);
  });
})();

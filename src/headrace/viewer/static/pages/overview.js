// What a dataset is: counts, fields, sizes, classes, checks.
import { untilReady } from "../progress.js";
import { load } from "../thumbnails.js";

export const title = "Overview";
const STRIP = 12;
const CLASSES = 15;

export async function show(main, params, tools) {
  const { element, format, get } = tools;
  const d = params.get("d") ?? "0";
  const ended = new AbortController();
  await tools.dataset(params); // one that is not there is told without asking
  const about = await get("api/overview", { d }, { signal: ended.signal });
  document.title = `${about.title} · headrace`;
  const charts = element("section", { class: "card wide", "aria-labelledby": "sizes-title" }, element("h2", { id: "sizes-title" }, "Sizes"), waiting(tools));
  const classes = element("section", { class: "card", "aria-labelledby": "classes-title" }, element("h2", { id: "classes-title" }, "Classes"), waiting(tools));
  main.append(
    element(
      "div",
      { class: "overview" },
      head(about, tools),
      tiles(about, tools),
      about.pictures.length && about.samples ? strip(d, about, tools, ended.signal) : null,
      charts,
      classes,
      fields(about, tools),
      storage(about, tools),
      doctor(d, tools),
    ),
  );
  fillCharts(charts, d, tools, ended.signal);
  fillClasses(classes, d, tools, ended.signal);
  return () => ended.abort();
}

/** Says in a card how far its numbers are. */
function tellTo(card) {
  return ({ done, total }) => (card.querySelector(".waiting").textContent = total ? `${Math.floor((done / total) * 100)} %` : "…");
}

function waiting({ element }) {
  return element("p", { class: "muted waiting" }, "…");
}

function head(about, { element }) {
  return element("header", { class: "head" }, element("h1", { class: "from-file" }, about.title), element("p", { class: "muted mono from-file" }, about.path));
}

function tiles(about, { element, format }) {
  const tile = (label, value, note, state) =>
    element(
      "div",
      { class: "tile" },
      element("dt", {}, label),
      element("dd", { class: "number" }, value, note ? element("small", { class: state ? `chip ${state}` : "muted" }, note) : null),
    );
  const indexed = about.jpegs ? about.jpegs_indexed / about.jpegs : null;
  return element(
    "dl",
    { class: "tiles" },
    tile("Samples", format.count(about.samples)),
    about.size_bytes === null ? null : tile("Size", format.bytes(about.size_bytes), about.samples ? `${format.bytes(about.size_bytes / about.samples)} each` : null),
    tile("Format", about.format ?? "several", about.is_local ? null : "in a store"),
    tile("Checksums", about.has_checksums ? "All values" : "None", about.has_checksums ? "can be verified" : "only structure is checked", about.has_checksums ? "good" : "warn"),
    indexed === null && !about.jpegs_indexed ? null : tile("JPEG index", indexed === null ? format.count(about.jpegs_indexed) : format.percent(indexed), `of ${indexed === null ? "the" : format.count(about.jpegs)} JPEGs`),
    about.page_use === null ? null : tile("Page use", format.percent(about.page_use), `${format.count(about.pages)} of ${format.bytes(about.page_size)}`),
    about.damaged ? tile("Damaged", format.count(about.damaged), "found so far", "bad") : null,
  );
}

function strip(d, about, { element, link }, signal) {
  const count = Math.min(STRIP, about.samples);
  const indices = Array.from({ length: count }, (_, k) => Math.floor(((k + 0.5) * about.samples) / count));
  const cells = new Map(
    indices.map((i) => [i, element("a", { class: "look", href: link("grid", { d, at: i }), "aria-label": `sample ${i}, in the grid` })]),
  );
  load(d, indices, { side: 192, signal }, (i, found) => {
    const cell = cells.get(i);
    if (found.error) cell.append(element("span", { class: "broken", title: found.error }, "!"));
    else cell.append(element("img", { src: found.url, alt: "", decoding: "async" }));
  }).catch(() => {}); // the page was left
  return element("section", { class: "strip", "aria-label": "Some samples" }, ...cells.values());
}

function fields(about, { element, format }) {
  const rows = about.fields.map((one) =>
    element(
      "tr",
      {},
      element("td", { class: "from-file mono" }, one.name),
      element("td", {}, element("span", { class: "chip" }, one.kind)),
      element("td", { class: "muted" }, one.about),
    ),
  );
  const more = about.fields_left_out ? element("p", { class: "muted" }, `and ${format.count(about.fields_left_out)} more`) : null;
  return element(
    "section",
    { class: "card", "aria-labelledby": "fields-title" },
    element("h2", { id: "fields-title" }, "Fields"),
    element("table", { class: "plain" }, element("thead", {}, element("tr", {}, ...["Name", "Kind", "About"].map((word) => element("th", { scope: "col" }, word)))), element("tbody", {}, ...rows)),
    more,
  );
}

function storage(about, { element }) {
  const details = [...about.details, ["names", about.has_names ? "every sample has one" : "none, only numbers"], ["read", about.reading]];
  return element(
    "section",
    { class: "card", "aria-labelledby": "storage-title" },
    element("h2", { id: "storage-title" }, "Storage"),
    element("dl", { class: "facts" }, ...details.flatMap(([name, words]) => [element("dt", { class: "muted" }, name), element("dd", { class: "from-file" }, words)])),
  );
}

async function fillCharts(card, d, tools, signal) {
  const { element, format, get } = tools;
  try {
    const found = await untilReady(() => get("api/overview/histograms", { d }, { signal }), { signal, told: tellTo(card) });
    const drawn = Object.entries(found.drawn);
    card.querySelector(".waiting").remove();
    if (!drawn.length) card.append(element("p", { class: "muted" }, "No field of this dataset has a size; it has numbers alone."));
    if (found.looked_at < found.samples) {
      card.querySelector("h2").append(element("span", { class: "chip" }, `of ${format.count(found.looked_at)} samples, evenly spread`));
    }
    const words = { width: "Width", height: "Height", bytes: "Bytes" };
    card.append(element("div", { class: "charts" }, ...drawn.map(([what, one]) => chart(words[what], one, what === "bytes" ? format.bytes : (value) => `${format.count(Math.round(value))} px`, tools))));
  } catch (error) {
    if (error.name !== "AbortError") card.append(tools.problem(error));
  }
}

const [WIDE, HIGH] = [320, 110];

function chart(label, one, spell, { element, drawing, format }) {
  const most = Math.max(...one.counts);
  const step = WIDE / one.counts.length;
  const bars = one.counts.map((count, k) => {
    const high = count ? Math.max(2, (count / most) * HIGH) : 0;
    const words = `${spell(one.edges[k])} to ${spell(one.edges[k + 1])}: ${format.count(count)}`;
    return drawing(
      "g",
      {},
      drawing("rect", { class: "hit", x: k * step, y: 0, width: step, height: HIGH }, drawing("title", {}, words)),
      drawing("rect", { class: "fill", x: k * step + step * 0.06, y: HIGH - high, width: Math.min(step * 0.88, 60), height: high, rx: Math.min(1.5, step / 4) }),
    );
  });
  const summary = `${label}: from ${spell(one.min)} to ${spell(one.max)}, median ${spell(one.median)}`;
  return element(
    "figure",
    { class: "chart" },
    element("figcaption", {}, element("strong", {}, label), element("span", { class: "muted number" }, `median ${spell(one.median)}`)),
    drawing("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": summary }, ...bars),
    element("div", { class: "axis muted number" }, element("span", {}, spell(one.min)), one.is_log ? element("span", {}, "logarithmic") : null, element("span", {}, spell(one.max))),
  );
}

async function fillClasses(card, d, tools, signal) {
  const { element, format, get, link } = tools;
  try {
    const found = await untilReady(() => get("api/overview/classes", { d }, { signal }), { signal, told: tellTo(card) });
    card.querySelector(".waiting").remove();
    if (!found.field) {
      card.append(element("p", { class: "muted" }, "No field has whole numbers that could be classes."));
      return;
    }
    const counts = found.classes.map((one) => one.count);
    const most = Math.max(1, ...counts);
    const row = (one) =>
      element(
        "li",
        {},
        element("a", { href: link("grid", { d, class: one.class }), class: "from-file" }, one.name ?? String(one.class)),
        element("span", { class: "track", "aria-hidden": "true" }, element("span", { class: "fill", style: { width: `${(one.count / most) * 100}%` } })),
        element("span", { class: "number muted" }, format.count(one.count)),
      );
    const list = element("ol", { class: "classes" }, ...found.classes.slice(0, CLASSES).map(row));
    const range = counts.length ? `${format.count(Math.min(...counts))} to ${format.count(most)} samples each` : "";
    card.querySelector("h2").append(element("span", { class: "chip" }, found.field));
    card.append(
      element("p", { class: "muted" }, `${format.count(found.distinct)} ${found.distinct === 1 ? "class" : "classes"}, ${range}${found.without_samples ? `; ${format.count(found.without_samples)} without samples` : ""}${found.unreadable ? `; ${format.counted(found.unreadable, "sample")} whose class cannot be read` : ""}.`),
      list,
    );
    if (found.classes.length > CLASSES) {
      const more = element("button", { type: "button", class: "quiet" }, `Show ${format.count(found.classes.length)}`);
      more.addEventListener("click", () => {
        list.classList.add("long");
        list.append(...found.classes.slice(CLASSES).map(row));
        list.tabIndex = 0;
        more.remove();
      });
      card.append(more);
    }
  } catch (error) {
    if (error.name !== "AbortError") card.append(tools.problem(error));
  }
}

function doctor(d, tools) {
  const { element, format, post, announce } = tools;
  const out = element("div", { class: "doctor", "aria-live": "polite" });
  const button = element("button", { type: "button" }, "Run doctor");
  button.addEventListener("click", async () => {
    button.disabled = true;
    out.replaceChildren(element("p", { class: "muted" }, "Measuring how fast batches come; this takes some seconds…"));
    try {
      const run = Date.now(); // every click measures anew
      const found = await untilReady(() => post("api/overview/doctor", { d: Number(d), run }));
      out.replaceChildren(
        element("p", {}, element("strong", { class: "number" }, `${format.count(Math.round(found.samples_per_s))} samples/s`), ` with ${found.workers} ${found.workers === 1 ? "worker" : "workers"}. What binds: ${found.text}.`),
        found.advice.length ? element("ol", {}, ...found.advice.map((one) => element("li", {}, one.text))) : element("p", { class: "muted" }, "Nothing was found that would make it faster or safer."),
      );
      announce("The doctor has finished.");
    } catch (error) {
      out.replaceChildren(tools.problem(error));
    } finally {
      button.disabled = false;
    }
  });
  return element(
    "section",
    { class: "card", "aria-labelledby": "doctor-title" },
    element("h2", { id: "doctor-title" }, "Doctor"),
    element("p", { class: "muted" }, "Measures for some seconds what holds a training on this dataset back, and says what to change."),
    button,
    out,
  );
}

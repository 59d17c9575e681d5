// One pair of samples in full: three pictures that scroll together, numbers, and every field.
import { decibels, share, stateChip } from "./compare_words.js";

const FACTORS = [0, 1, 2, 4, 8, 16, 32, 64, 128];
const LEVELS = [0, 1, 2, 4, 8, 16, 32, 64];
const ZOOMS = ["", "1", "2", "4", "8"];
const SIDE = 2048;

export async function showPair(main, params, tools, { a, b, by, show, all }) {
  const { element, format } = tools;
  const row = Number(params.get("row"));
  const found = await tools.get("api/compare/row", { a, b, by, show, row });
  const state = {
    field: found.pictures.includes(Number(params.get("field") ?? NaN)) ? Number(params.get("field")) : found.pictures[0],
    what: params.get("what") === "marks" ? "marks" : "difference",
    factor: FACTORS.includes(Number(params.get("factor"))) ? Number(params.get("factor")) : 0,
    above: LEVELS.includes(Number(params.get("above"))) ? Number(params.get("above")) : 0,
    zoom: ZOOMS.includes(params.get("zoom")) ? params.get("zoom") : "",
  };
  const place = (more = {}) => ({
    a, b, by, show: show === "all" ? null : show, row,
    field: state.field === found.pictures[0] ? null : state.field,
    what: state.what === "marks" ? "marks" : null, factor: state.factor || null, above: state.above || null, zoom: state.zoom, ...more,
  });
  const fields = found.fields ?? [];
  const name = found.first_name ?? found.second_name ?? `sample ${format.count(found.first ?? found.second)}`;
  const back = () => tools.go("compare", { a, b, by, show: show === "all" ? null : show, at: Math.floor(found.around.place / 24) * 24 || null });
  const step = (to) => to !== null && tools.go("compare", place({ row: to }));

  const keep = () => {
    tools.keep("compare", place());
    draw();
  };
  const select = (label, values, value, words, change) =>
    element("label", {}, label, element("select", { onchange: (event) => change(event.target.value) }, ...values.map((one) => element("option", { value: String(one), selected: String(one) === String(value) }, words(one)))));
  const whats = ["difference", "marks"].map((one) =>
    element("button", { type: "button", "data-what": one, onclick: () => ((state.what = one), keep()) }, one === "marks" ? "Mark pixels" : "Amplify"),
  );
  const panels = element("div", { class: "panels" });
  const zoomer = select("zoom", ZOOMS, state.zoom, (one) => (one ? `${one} ×` : "fit"), (value) => ((state.zoom = value), keep()));
  const factors = select("amplified", FACTORS, state.factor, (one) => (one ? `${one} ×` : "as needed"), (value) => ((state.factor = Number(value)), keep()));
  const levels = select("that differ by more than", LEVELS, state.above, String, (value) => ((state.above = Number(value)), keep()));

  function view(what, about) {
    const box = element("div", { class: "view", tabindex: "0", role: "group", "aria-label": about });
    const image = element("img", { src: tools.url("picture/compare", { a, b, by, row, field: state.field, what, side: SIDE, factor: what === "difference" ? state.factor || null : null, above: what === "marks" ? state.above || null : null }), alt: about, draggable: "false" });
    image.addEventListener("load", () => scale(box, image));
    image.addEventListener("error", async () => {
      const answer = await tools.get(image.getAttribute("src")).catch((error) => ({ error: error.message }));
      const why = answer?.error ?? "This picture cannot be shown.";
      box.replaceChildren(element("p", { class: "why from-file" }, why));
    });
    box.append(image);
    box.addEventListener("scroll", () => follow(box), { passive: true });
    return box;
  }

  function scale(box, image) {
    const sizes = fields[state.field]?.sizes;
    const width = sizes ? Math.min(...sizes.map((one) => one[0])) : image.naturalWidth;
    if (state.zoom) {
      box.dataset.zoom = state.zoom;
      image.style.setProperty("width", `${width * Number(state.zoom)}px`);
    } else {
      delete box.dataset.zoom;
      image.style.removeProperty("width");
    }
  }

  let leader = null; // the panel that is scrolled; the others follow
  function follow(box) {
    if (leader && leader !== box) return;
    leader = box;
    for (const other of panels.querySelectorAll(".view")) {
      if (other !== box) [other.scrollLeft, other.scrollTop] = [box.scrollLeft, box.scrollTop];
    }
    requestAnimationFrame(() => requestAnimationFrame(() => (leader = null)));
  }

  function panel(side, number, size) {
    const about = all[side === "a" ? a : b];
    const title = `${side.toUpperCase()}: ${about.title}`;
    const sides = size ? `${size[0]} × ${size[1]}` : "";
    const caption = element("figcaption", {}, element("span", { class: `side-${side}`, "aria-hidden": "true" }, side.toUpperCase()), element("span", { class: "from-file" }, about.title), element("span", { class: "muted number" }, sides));
    const isHere = number !== null;
    return element("figure", { class: "panel card", style: { margin: "0" } }, caption, isHere ? view(side === "a" ? "first" : "second", title) : element("div", { class: "view" }, element("p", { class: "muted" }, "not in this dataset")));
  }

  function draw() {
    for (const button of whats) button.setAttribute("aria-pressed", String(button.dataset.what === state.what));
    factors.hidden = state.what === "marks";
    levels.hidden = !factors.hidden;
    if (state.field === undefined) return;
    const field = fields[state.field];
    const third = element("figure", { class: "panel card", style: { margin: "0" } });
    const caption = element("figcaption", {}, state.what === "difference" ? "Difference, amplified" : state.above ? `Pixels that differ by more than ${state.above}` : "Pixels that differ");
    if (field?.pixels) third.append(caption, view(state.what, state.what === "marks" ? "Pixels that differ, marked" : "Difference, amplified"));
    else third.append(caption, element("div", { class: "view" }, element("p", { class: field?.state === "damaged" ? "why from-file" : "muted why" }, field?.state === "same" ? "The pictures are the same." : field?.note || "There is nothing to compare.")));
    panels.replaceChildren(panel("a", found.first, field?.sizes?.[0]), panel("b", found.second, field?.sizes?.[1]), third);
  }

  function figures() {
    const pixels = fields[state.field]?.pixels;
    if (!pixels) return null;
    const rows = [
      ["Largest difference", `${pixels.max_difference} of 255`],
      ["Mean difference", pixels.mean_difference.toPrecision(3)],
      ["PSNR", decibels(pixels.psnr_db)],
      ["Pixels that differ", `${share(pixels, format)}`],
      ["In numbers", `${format.count(pixels.differing)} of ${format.count(pixels.pixels)}`],
    ];
    const list = rows.map(([words, value]) => element("div", {}, element("dt", {}, words), element("dd", {}, value)));
    const note = fields[state.field].note;
    return element("section", { class: "card", "aria-label": "How the pictures differ" }, element("dl", { class: "figures" }, ...list), note ? element("p", { class: "muted" }, note) : null);
  }

  function value(side, parts) {
    return element("div", { class: "value" }, element("span", { class: `side-${side}` }, side.toUpperCase()), element("span", { class: "from-file" }, parts.before, element("mark", {}, parts.middle || "(nothing)"), parts.after));
  }

  function fieldRow(field) {
    const said = [];
    if (field.texts) said.push(element("div", { class: "values" }, value("a", field.texts[0]), value("b", field.texts[1])));
    if (field.note) said.push(element("div", { class: "from-file" }, field.note));
    if (field.pixels) said.push(element("div", {}, `by up to ${field.pixels.max_difference} levels, PSNR ${decibels(field.pixels.psnr_db)}`));
    if (field.text !== undefined) said.push(element("div", { class: "value" }, element("span", { class: "from-file" }, field.text)));
    return element("tr", {}, element("td", { class: "from-file" }, element("strong", {}, field.title)), element("td", {}, element("span", { class: "muted" }, field.kind)), element("td", {}, stateChip(field.state, tools)), element("td", {}, ...said));
  }

  const links = [["a", a, found.first], ["b", b, found.second]]
    .filter(([, , number]) => number !== null)
    .map(([side, d, number]) => element("a", { href: tools.link("sample", { d, i: number }) }, `sample ${format.count(number)} of ${side.toUpperCase()}`));
  main.append(
    element(
      "div",
      { class: "check-page" },
      element(
        "div",
        { class: "trail" },
        element("button", { type: "button", onclick: back, title: "Back to the list (Esc)" }, "← List"),
        element("h1", { class: "from-file grow" }, name),
        stateChip(found.state, tools),
        element("button", { type: "button", disabled: found.around.previous === null, onclick: () => step(found.around.previous), "aria-label": "Previous pair" }, "‹ Previous"),
        element("button", { type: "button", disabled: found.around.next === null, onclick: () => step(found.around.next), "aria-label": "Next pair" }, "Next ›"),
      ),
      element("p", { class: "muted" }, ...links.flatMap((one, k) => (k ? [" · ", one] : [one]))),
      state.field === undefined
        ? null
        : element("div", { class: "controls" }, found.pictures.length > 1 ? select("picture", found.pictures, state.field, (one) => fields[one]?.title ?? String(one), (text) => tools.go("compare", place({ field: Number(text) }))) : null, element("div", { class: "choices", role: "group", "aria-label": "How differences are shown" }, ...whats), factors, levels, zoomer),
      state.field === undefined ? null : panels,
      figures(),
      fields.length
        ? element(
            "section",
            { class: "card", "aria-labelledby": "fields-title" },
            element("h2", { id: "fields-title" }, "Fields"),
            element("table", { class: "plain fields" }, element("thead", {}, element("tr", {}, ...["Field", "Kind", "", "What differs"].map((word) => element("th", { scope: "col" }, word)))), element("tbody", {}, ...fields.map(fieldRow))),
          )
        : null,
    ),
  );
  draw();

  function zoomBy(by_steps) {
    const next = ZOOMS[Math.max(0, Math.min(ZOOMS.length - 1, ZOOMS.indexOf(state.zoom) + by_steps))];
    if (next === state.zoom) return;
    state.zoom = next;
    zoomer.querySelector("select").value = next;
    tools.keep("compare", place());
    for (const box of panels.querySelectorAll(".view")) if (box.querySelector("img")) scale(box, box.querySelector("img"));
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
    if (document.getElementById("keys").open) return;
    const isInView = event.target.closest(".view[data-zoom]");
    if (event.key === "ArrowRight" && !isInView) step(found.around.next);
    else if (event.key === "ArrowLeft" && !isInView) step(found.around.previous);
    else if (event.key === "Escape") back();
    else if (event.key === "m") whats.find((one) => one.dataset.what !== state.what).click();
    else if (event.key === "+" || event.key === "=") zoomBy(1);
    else if (event.key === "-") zoomBy(-1);
  }
  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}

// One sample: its picture with zoom and tile grid, every value in its own way, where it lies, what is wrong with it.
import { gridPath, makeStage, ZOOM_STEP } from "../stage.js";
import { showValue } from "../values.js";

export const title = "Sample";
export const keys = [
  ["→ or j", "next sample"],
  ["← or k", "previous sample"],
  ["+ and -", "zoom"],
  ["0", "fit the picture into the page"],
  ["1", "one pixel for each pixel"],
  ["t", "tile grid"],
  ["Shift + arrows", "move the picture"],
  ["m", "what the model sees"],
];

const CHECKSUMS = {
  right: ["good", "checksum right"],
  wrong: ["bad", "checksum wrong"],
  none: ["", "no checksum"],
  unknown: ["warn", "checksum not known"],
};

const FILTER = ["class", "by", "name", "regex", "bytes", "width", "height", "damaged", "sort"]; // of the grid
const AGAIN_MS = 400;

/** What is wrong with a value; one that is only too large is not damaged. */
function problemOf(field) {
  return field.error && !field.is_damaged ? `Not shown: ${field.error}` : field.error;
}

export async function show(main, params, tools) {
  const about = await tools.dataset(params);
  if (!about.samples) throw new Error("This dataset has no samples.");
  const page = new SamplePage(main, params, tools, about);
  await page.load(page.index);
  return () => page.close();
}

class SamplePage {
  constructor(main, params, tools, about) {
    Object.assign(this, { main, tools, about });
    this.params = Object.fromEntries(params);
    this.index = Math.min(Math.max(0, Math.trunc(Number(params.get("i")) || 0)), about.samples - 1);
    this.filter = Object.fromEntries(FILTER.filter((key) => params.get(key)).map((key) => [key, params.get(key)]));
    this.isFiltered = Object.keys(this.filter).some((key) => key !== "by");
    this.turn = 0;
    this.isGrid = params.get("tiles") === "1";
    this.field = params.get("field");
    this.build();
    this.onKey = (event) => this.key(event);
    document.addEventListener("keydown", this.onKey);
  }

  close() {
    document.removeEventListener("keydown", this.onKey);
    this.stage.close();
    this.turn = -1;
  }

  build() {
    const { element } = this.tools;
    this.heading = element("h1", { class: "from-file" });
    this.sub = element("p", { class: "sample-sub muted" });
    this.number = element("input", { class: "field number", type: "text", inputmode: "numeric", "aria-label": "Number of the sample", size: "8" });
    this.number.addEventListener("change", () => this.jump());
    this.before = element("button", { type: "button", "aria-label": "Previous sample", title: "Previous (← or k)", onclick: () => this.step(-1) }, "‹");
    this.after = element("button", { type: "button", "aria-label": "Next sample", title: "Next (→ or j)", onclick: () => this.step(1) }, "›");
    this.count = element("span", { class: "muted number" });
    this.model = element("a", { class: "button" }, "What the model sees");
    this.among = element("a", { class: "chip", hidden: true, title: "Back to the grid" });
    const steps = element("div", { class: "sample-steps" }, this.before, this.number, this.count, this.after, this.among);
    const head = element("header", { class: "sample-head" }, element("div", { class: "sample-title" }, this.heading, this.sub), steps, this.model);
    this.stage = makeStage({
      label: "Picture; plus and minus zoom",
      onzoom: (scale) => (this.scale.textContent = `${scale >= 0.995 ? Math.round(scale * 100) : (scale * 100).toPrecision(2)} %`),
      onfail: () => this.failed("The browser cannot show this picture."),
    });
    this.pictureBox = element("section", { class: "card sample-picture", "aria-label": "Picture" }, this.tabs(), this.stage.box, this.bar(), this.fault());
    this.facts = element("div", { class: "sample-facts" });
    this.values = element("div", { class: "sample-values" });
    this.upper = element("div", { class: "sample-upper" }, this.pictureBox, this.facts);
    this.main.append(head, this.upper, this.values);
  }

  tabs() {
    this.tabBox = this.tools.element("div", { class: "sample-tabs", role: "group", "aria-label": "Field" });
    return this.tabBox;
  }

  bar() {
    const { element } = this.tools;
    const button = (text, label, action) => element("button", { type: "button", "aria-label": label, title: label, onclick: action }, text);
    this.scale = element("output", { class: "number", "aria-label": "Size of the picture" }, "100 %");
    this.gridBox = element("input", { type: "checkbox", id: "tiles" });
    this.gridBox.checked = this.isGrid;
    this.gridBox.addEventListener("change", () => this.toggleGrid(this.gridBox.checked));
    this.gridLabel = element("label", { class: "check" }, this.gridBox, element("span", {}, "Tile grid"));
    return element(
      "div",
      { class: "stage-bar" },
      button("−", "Smaller (-)", () => this.stage.zoom(1 / ZOOM_STEP)),
      this.scale,
      button("+", "Larger (+)", () => this.stage.zoom(ZOOM_STEP)),
      button("Fit", "Fit into the page (0)", () => this.stage.fit()),
      button("1:1", "One pixel for each pixel (1)", () => this.stage.actual()),
      this.gridLabel,
    );
  }

  fault() {
    this.faultBox = this.tools.element("p", { class: "stage-fault", role: "status", hidden: true });
    return this.faultBox;
  }

  async load(index) {
    const turn = ++this.turn;
    this.index = index;
    this.main.setAttribute("aria-busy", "true");
    try {
      const found = await this.tools.get("api/sample", { d: this.params.d, i: index });
      if (turn !== this.turn) return;
      this.sample = found;
      this.neighbours = { previous: index > 0 ? index - 1 : null, next: index + 1 < found.samples ? index + 1 : null };
      this.draw();
      if (this.isFiltered) this.findNeighbours(turn).catch((error) => this.tools.announce(error.message));
    } finally {
      if (turn === this.turn) this.main.removeAttribute("aria-busy");
    }
  }

  /** Where the sample stands among those of the grid; the search may take a while. */
  async findNeighbours(turn) {
    this.before.disabled = this.after.disabled = true;
    for (;;) {
      const found = await this.tools.get("api/sample/neighbours", { ...this.filter, d: this.params.d, i: this.index });
      if (turn !== this.turn) return;
      if (found.state === "ready") {
        this.neighbours = found;
        const { format } = this.tools;
        this.among.textContent = found.place === null ? `not among ${format.count(found.count)} of the grid` : `${format.count(found.place + 1)} of ${format.count(found.count)} of the grid`;
        this.among.href = this.tools.link("grid", { ...this.filter, d: this.params.d, at: found.place });
        this.among.hidden = false;
        this.drawSteps();
        return;
      }
      await new Promise((done) => setTimeout(done, AGAIN_MS));
      if (turn !== this.turn) return;
    }
  }

  drawSteps() {
    this.before.disabled = this.neighbours.previous === null;
    this.after.disabled = this.neighbours.next === null;
  }

  draw() {
    const { tools, sample, index } = this;
    const name = sample.name ?? `Sample ${tools.format.count(index)}`;
    this.heading.textContent = name;
    const origin = sample.origin ? `sample ${tools.format.count(sample.origin.index)} of ${sample.origin.path}` : "";
    this.sub.replaceChildren(...[sample.name !== null && `sample ${tools.format.count(index)}`, origin, this.about.title].filter(Boolean).flatMap((text, i) => [i ? " · " : "", tools.element("span", { class: "from-file" }, text)]));
    this.number.value = String(index);
    this.count.textContent = `of ${tools.format.count(sample.samples)}`;
    this.drawSteps();
    this.drawPicture();
    this.drawValues();
    this.keep();
    tools.announce(`${name}, sample ${index + 1} of ${sample.samples}${sample.damage ? ", damaged" : ""}`);
  }

  keep() {
    this.tools.keep("sample", { ...this.params, i: this.index, tiles: this.isGrid ? "1" : null, field: this.field });
    this.model.href = this.tools.link("seeds", { d: this.params.d, i: this.index });
    this.model.hidden = !this.pictures().some((field) => field.kind === "image");
  }

  /** Fields that can be seen as a picture, those that are one first. */
  pictures() {
    const all = this.sample.fields.filter((field) => field.kind === "image");
    return all.length ? all : this.sample.fields.filter((field) => field.value?.can_be_picture);
  }

  drawPicture() {
    const { element } = this.tools;
    const all = this.pictures();
    const field = all.find((one) => one.name === this.field) ?? all[0];
    this.pictureBox.hidden = !field;
    this.upper.classList.toggle("without-picture", !field);
    this.facts.replaceChildren();
    this.shown = field ?? null;
    if (!field) return;
    this.tabBox.hidden = all.length < 2;
    this.tabBox.replaceChildren(...all.map((one) => element("button", { type: "button", "aria-pressed": String(one === field), onclick: () => this.pick(one.name) }, one.name)));
    const value = field.value;
    const isSeen = value && value.can_show !== false;
    const sides = !isSeen ? [] : value.as === "array" ? this.arraySides(value.shape) : [value.width, value.height];
    this.failed(problemOf(field));
    const source = this.tools.url("picture/sample", { d: this.params.d, i: this.index, field: field.name });
    this.stage.box.classList.toggle("is-empty", !sides[0]);
    if (sides[0]) this.stage.load(source, sides[0], sides[1], `Picture of sample ${this.index}, field ${field.name}`);
    else this.stage.image.removeAttribute("src");
    this.drawGrid();
    this.facts.append(...this.pictureFacts(field));
  }

  arraySides(shape) {
    const [a, b, c] = shape;
    return shape.length === 3 && ![1, 3, 4].includes(c) ? [c, b] : [b, a];
  }

  pick(name) {
    this.field = name;
    this.drawPicture();
    this.keep();
  }

  failed(text) {
    this.faultBox.hidden = !text;
    this.faultBox.textContent = text ?? "";
  }

  toggleGrid(isGrid) {
    this.isGrid = isGrid;
    this.gridBox.checked = isGrid;
    this.drawGrid();
    this.keep();
    this.tools.announce(isGrid ? "tile grid shown" : "tile grid hidden");
  }

  drawGrid() {
    const { value } = this.shown ?? {};
    const tiles = value?.tiles;
    this.gridLabel.hidden = !tiles;
    this.stage.overlay.replaceChildren();
    if (!tiles || !this.isGrid) return;
    const path = gridPath(value.width, value.height, tiles.width, tiles.height);
    const line = (name) => this.tools.drawing("path", { class: name, d: path, "vector-effect": "non-scaling-stroke" });
    this.stage.overlay.classList.toggle("is-made-up", !tiles.is_indexed);
    this.stage.overlay.append(line("grid-under"), line("grid-line"));
  }

  pictureFacts(field) {
    const { value } = field;
    if (value?.as !== "picture") return [];
    const { format } = this.tools;
    const pixels = value.width && value.height ? `${format.count(value.width)} × ${format.count(value.height)} pixels` : "not known";
    const rows = [["Size", pixels], ["Stored as", `${value.format}, ${format.bytes(value.size_bytes)}`]];
    if (value.width && value.height) rows.push(["Bits for each pixel", ((8 * value.size_bytes) / (value.width * value.height)).toFixed(2)]);
    if (value.mode) rows.push(["Mode", value.mode]);
    const cards = [this.card("Picture", rows)];
    if (value.jpeg) cards.push(this.card("JPEG", this.jpegRows(value)));
    cards.push(this.card("In the file", this.placeRows(field)));
    return cards;
  }

  jpegRows({ jpeg, tiles }) {
    const coding = [jpeg.is_progressive ? "progressive" : "baseline", jpeg.is_arithmetic && "arithmetic"].filter(Boolean).join(", ");
    const rows = [
      ["Quality", jpeg.quality === null ? "not known" : `${jpeg.is_standard ? "" : "about "}${jpeg.quality}`],
      ["Sampling", jpeg.sampling],
      ["Coding", coding],
      ["Restart interval", jpeg.restart_interval ? this.tools.format.counted(jpeg.restart_interval, "MCU") : "none"],
      ["MCU", `${jpeg.mcu[0]} × ${jpeg.mcu[1]} pixels`],
      ["Colours", `${jpeg.colors}, ${jpeg.precision} bits`],
      ["Tile index", this.tilesText(tiles)],
    ];
    if (jpeg.extras.length) rows.push(["Also holds", jpeg.extras.join(", ")]);
    return rows;
  }

  tilesText(tiles) {
    if (tiles.problem) return tiles.problem;
    if (!tiles.is_indexed) return `none: ${tiles.why_not}`;
    const { format } = this.tools;
    return `${format.counted(tiles.tiles, "tile")} of ${tiles.width} × ${tiles.height}, ${format.bytes(tiles.size_bytes)}`;
  }

  placeRows(field) {
    const { place } = field;
    const { element, format } = this.tools;
    const [kind, words] = CHECKSUMS[field.checksum];
    const rows = [["Checksum", element("span", { class: `chip ${kind}` }, words.replace("checksum ", ""))]];
    if (!place) return [["Place", "not in one piece, or not known"], ...rows];
    const where = [["File", element("span", { class: "from-file mono" }, place.path)], ["Offset", format.count(place.offset)], ["Length", format.counted(place.size_bytes, "byte")]];
    if (place.page !== null) where.push(["Page", format.count(place.page)]);
    return [...where, ...rows];
  }

  card(name, rows) {
    const { element } = this.tools;
    const list = rows.flatMap(([key, value]) => [element("dt", {}, key), element("dd", { class: "from-file" }, value)]);
    return element("section", { class: "card" }, element("h2", {}, name), element("dl", { class: "facts" }, ...list));
  }

  drawValues() {
    const { element, format } = this.tools;
    const others = this.sample.fields.filter((field) => field.value?.as !== "picture" || field.name !== this.shown?.name);
    const cards = others.filter((field) => field !== this.shown || field.value?.as !== "picture").map((field) => this.valueCard(field));
    if (this.sample.fields_left_out) cards.push(element("p", { class: "muted" }, `${format.counted(this.sample.fields_left_out, "field")} more are not shown`));
    this.values.replaceChildren(...cards);
  }

  valueCard(field) {
    const { element, url } = this.tools;
    const [kind, words] = CHECKSUMS[field.checksum];
    const head = element("h2", {}, element("span", { class: "from-file" }, field.name), element("span", { class: "chip" }, field.kind), field.checksum !== "none" && element("span", { class: `chip ${kind}` }, words));
    const picture = url("picture/sample", { d: this.params.d, i: this.index, field: field.name });
    const isPicture = field.value?.as === "picture";
    const body = isPicture ? element("button", { type: "button", onclick: () => this.pick(field.name) }, "Show this picture") : field.value && showValue(field.value, { picture });
    const isWide = ["array", "bytes", "tree"].includes(field.value?.as) || field.value?.length > 200;
    return element(
      "section",
      { class: `card value-card${isWide ? " wide" : ""}`, "aria-label": `Field ${field.name}` },
      head,
      field.error && element("p", { class: field.is_damaged ? "value-error" : "muted" }, problemOf(field)),
      body,
      this.placeLine(field.place),
    );
  }

  placeLine(place) {
    if (!place) return null;
    const { element, format } = this.tools;
    const page = place.page === null ? "" : `, page ${format.count(place.page)}`;
    return element("p", { class: "value-place muted number", title: place.path }, `byte ${format.count(place.offset)}, ${format.counted(place.size_bytes, "byte")}${page}`);
  }

  // Going to others

  step(by) {
    if (by > 0 ? this.after.disabled : this.before.disabled) return;
    this.visit(by > 0 ? this.neighbours.next : this.neighbours.previous);
  }

  visit(index) {
    if (index === null) return;
    this.load(index).catch((error) => this.main.replaceChildren(this.tools.problem(error)));
  }

  jump() {
    const wanted = Number(this.number.value.replaceAll(/[ ,.]/g, ""));
    if (this.number.value === "" || !Number.isInteger(wanted) || wanted < 0 || wanted >= this.about.samples) {
      this.tools.announce(`samples are numbered from 0 to ${this.about.samples - 1}`);
      this.number.value = String(this.index);
    } else this.visit(wanted);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest?.("input:not([type=checkbox]), select, textarea")) return;
    const stage = this.stage;
    const actions = {
      j: () => this.step(1),
      k: () => this.step(-1),
      ArrowRight: () => (event.shiftKey ? stage.move(60, 0) : this.step(1)),
      ArrowLeft: () => (event.shiftKey ? stage.move(-60, 0) : this.step(-1)),
      ArrowUp: event.shiftKey && (() => stage.move(0, -60)),
      ArrowDown: event.shiftKey && (() => stage.move(0, 60)),
      "+": () => stage.zoom(ZOOM_STEP),
      "=": () => stage.zoom(ZOOM_STEP),
      "-": () => stage.zoom(1 / ZOOM_STEP),
      0: () => stage.fit(),
      1: () => stage.actual(),
      t: !this.gridLabel.hidden && (() => this.toggleGrid(!this.isGrid)),
      m: !this.model.hidden && (() => this.tools.go("seeds", { d: this.params.d, i: this.index })),
    };
    // A region that scrolls keeps its arrows.
    if (event.key.startsWith("Arrow") && !event.shiftKey && event.target.closest?.("pre, .value-table")) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
}

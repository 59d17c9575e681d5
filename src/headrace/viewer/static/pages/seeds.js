// What the model sees: the outputs of a pipeline for one sample under many seeds, with the crop windows on the original.

export const title = "What the model sees";
export const keys = [
  ["→ or j", "next sample"],
  ["← or k", "previous sample"],
  ["n", "the next 16 seeds"],
  ["p", "the 16 seeds before"],
  ["s", "the sample itself"],
];
const COUNT = 16;
const WAIT_MS = 200; // while somebody turns a control

export async function show(main, params, tools) {
  const about = await tools.dataset(params);
  if (!about.samples) throw new Error("This dataset has no samples.");
  const found = await tools.get("api/recipes", { d: params.get("d") });
  if (!found.recipes.length) throw new Error(found.why_none);
  const page = new SeedsPage(main, params, tools, about, found);
  await page.load();
  return () => page.close();
}

class SeedsPage {
  constructor(main, params, tools, about, { recipes, fields }) {
    Object.assign(this, { main, tools, about, recipes, fields });
    this.state = Object.fromEntries(params);
    this.state.i = String(Math.min(Math.max(0, Math.trunc(Number(this.state.i) || 0)), about.samples - 1));
    if (!recipes.some((one) => one.name === this.state.recipe)) this.state.recipe = recipes[0].name;
    this.turn = 0;
    this.build();
    this.onKey = (event) => this.key(event);
    document.addEventListener("keydown", this.onKey);
  }

  close() {
    document.removeEventListener("keydown", this.onKey);
    clearTimeout(this.timer);
    this.turn = -1;
  }

  get recipe() {
    return this.recipes.find((one) => one.name === this.state.recipe);
  }

  build() {
    const { element, format } = this.tools;
    this.sub = element("p", { class: "sample-sub muted" });
    this.before = element("button", { type: "button", "aria-label": "Previous sample", title: "Previous (← or k)", onclick: () => this.step(-1) }, "‹");
    this.after = element("button", { type: "button", "aria-label": "Next sample", title: "Next (→ or j)", onclick: () => this.step(1) }, "›");
    this.number = element("input", { class: "field number", type: "text", inputmode: "numeric", size: "8", "aria-label": "Number of the sample" });
    this.number.addEventListener("change", () => this.jump());
    this.link = element("a", { class: "button" }, "The sample");
    const steps = element("div", { class: "sample-steps" }, this.before, this.number, element("span", { class: "muted number" }, `of ${format.count(this.about.samples)}`), this.after);
    const head = element("header", { class: "sample-head" }, element("div", { class: "sample-title" }, element("h1", {}, title), this.sub), steps, this.link);
    this.controls = element("section", { class: "card seeds-controls", "aria-label": "Pipeline" });
    this.originals = element("div", { class: "seeds-originals" });
    this.tiles = element("div", { class: "seeds-tiles", role: "list", "aria-label": "Outputs" });
    this.fault = element("div", {});
    const left = element("div", { class: "seeds-left" }, this.originals, this.controls);
    this.main.append(head, element("div", { class: "seeds-grid" }, left, element("div", { class: "seeds-right" }, this.fault, this.tiles)));
    this.drawControls();
  }

  drawControls() {
    const { element } = this.tools;
    const choice = element("select", { id: "recipe", onchange: () => this.choose(choice.value) }, ...this.recipes.map((one) => element("option", { value: one.name }, one.title)));
    choice.value = this.state.recipe;
    const parts = [this.row("Pipeline", choice, "recipe")];
    if (this.recipe.about) parts.push(element("p", { class: "muted" }, this.recipe.about));
    if (this.fields.length > 1 && this.state.recipe !== "own") parts.push(this.fieldRow());
    parts.push(...this.recipe.parameters.map((one) => this.parameterRow(one)));
    parts.push(this.byRow(), this.seedRow());
    this.code = element("pre", { class: "seeds-code", tabindex: "0", "aria-label": "The pipeline as code" });
    this.plan = element("details", {}, element("summary", {}, "What the loader does"), element("pre", { class: "seeds-code", tabindex: "0" }));
    this.controls.replaceChildren(...parts, this.code, this.plan);
  }

  row(label, control, id) {
    return this.tools.element("div", { class: "control" }, this.tools.element("label", { for: id }, label), control);
  }

  fieldRow() {
    const { element } = this.tools;
    const select = element("select", { id: "field", onchange: () => this.change({ field: select.value }) }, ...this.fields.map((name) => element("option", { value: name }, name)));
    select.value = this.state.field ?? this.fields[0];
    return this.row("Field", select, "field");
  }

  parameterRow({ name, title: label, default: usual, least, most, step }) {
    const { element } = this.tools;
    const bounds = { min: String(least), max: String(most), step: String(step) };
    const value = this.state[name] ?? String(usual);
    const slider = element("input", { type: "range", ...bounds, value, "aria-label": label, tabindex: "-1" });
    const number = element("input", { type: "number", class: "field number", id: `p-${name}`, ...bounds, value });
    const set = (text) => this.change({ [name]: Number(text) === usual ? undefined : text });
    slider.addEventListener("input", () => {
      number.value = slider.value;
      set(slider.value);
    });
    number.addEventListener("input", () => {
      if (number.value === "" || !number.validity.valid) return;
      slider.value = number.value;
      set(number.value);
    });
    return element("div", { class: "control parameter" }, element("label", { for: `p-${name}` }, label), slider, number);
  }

  byRow() {
    const { element } = this.tools;
    const option = (value, text) => {
      const input = element("input", { type: "radio", name: "by", value });
      input.checked = (this.state.by ?? "seed") === value;
      input.addEventListener("change", () => this.change({ by: value === "seed" ? undefined : value }));
      return element("label", { class: "check" }, input, element("span", {}, text));
    };
    return element("div", { class: "control", role: "radiogroup", "aria-label": "What differs" }, option("seed", "16 seeds"), option("epoch", "16 epochs of one seed"));
  }

  seedRow() {
    const { element } = this.tools;
    this.seed = element("input", { type: "number", class: "field number", id: "seed", min: "0", max: "2147483632", step: "1", value: this.state.seed ?? "" , placeholder: "0" });
    this.seed.addEventListener("input", () => this.seed.validity.valid && this.change({ seed: this.seed.value || undefined }));
    const more = element("button", { type: "button", title: "n", onclick: () => this.more(1) }, "Other seeds");
    return element("div", { class: "control seed-row" }, element("label", { for: "seed" }, "First seed"), this.seed, more);
  }

  choose(recipe) {
    const { d, i, by, seed, epoch, field } = this.state;
    this.state = { d, i, by, seed, epoch, field, recipe };
    this.drawControls();
    document.getElementById("recipe").focus();
    this.later();
  }

  change(values) {
    Object.assign(this.state, values);
    this.later();
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), WAIT_MS);
  }

  more(by) {
    const isEpoch = this.state.by === "epoch";
    const name = isEpoch ? "epoch" : "seed";
    const first = this.found?.tiles[0]?.[name] ?? 0;
    const next = Math.max(0, first + by * COUNT);
    if (!isEpoch) this.seed.value = String(next);
    this.change({ [name]: String(next) });
  }

  async load() {
    const turn = ++this.turn;
    const { tools, state } = this;
    tools.keep("seeds", state);
    this.link.href = tools.link("sample", { d: state.d, i: state.i });
    this.number.value = state.i;
    this.before.disabled = Number(state.i) <= 0;
    this.after.disabled = Number(state.i) >= this.about.samples - 1;
    this.main.setAttribute("aria-busy", "true");
    try {
      const found = await tools.get("api/seeds", state);
      if (turn !== this.turn) return;
      this.found = found;
      this.draw();
    } catch (error) {
      if (turn === this.turn) this.fail(error);
    } finally {
      if (turn === this.turn) this.main.removeAttribute("aria-busy");
    }
  }

  fail(error) {
    this.fault.replaceChildren(this.tools.problem(error));
    this.tiles.replaceChildren();
    this.originals.replaceChildren();
  }

  draw() {
    const { tools, found } = this;
    this.fault.replaceChildren(...found.notes.map((note) => tools.element("p", { class: "notice" }, note)));
    this.sub.textContent = `${this.about.title}, sample ${tools.format.count(found.index)}`;
    this.code.hidden = !found.code.length;
    this.code.textContent = found.code.length ? `[\n${found.code.map((line) => `    ${line},`).join("\n")}\n]` : "";
    this.plan.querySelector("pre").textContent = found.plan.join("\n");
    this.tiles.replaceChildren(...found.tiles.map((tile, number) => this.tile(tile, number)));
    this.originals.replaceChildren(...found.originals.map((one) => this.original(one)));
    const bad = found.tiles.filter((tile) => tile.error).length;
    tools.announce(`${found.tiles.length} outputs${bad ? `, ${bad} with an error` : ""}`);
  }

  tile(tile, number) {
    const { element, url } = this.tools;
    const pictures = tile.outputs.filter((output) => output.picture);
    const words = tile.outputs.filter((output) => !output.picture);
    const label = this.state.by === "epoch" ? `epoch ${tile.epoch}` : `seed ${tile.seed}`;
    const isFlipped = tile.windows.some((window) => window.is_flipped);
    const images = pictures.map((output) => {
      const image = element("img", { src: url("picture/made", { d: this.state.d, key: output.picture }), alt: `${output.name}, ${label}`, loading: "lazy" });
      image.addEventListener("error", () => image.replaceWith(element("p", { class: "muted" }, "gone; load the page again")));
      const about = [pictures.length > 1 && output.name, output.note].filter(Boolean).join(": ");
      return element("figure", { title: `${output.name}: ${output.text}` }, image, about && element("figcaption", { class: "muted from-file" }, about));
    });
    const box = element(
      "div",
      { class: "seed-tile", role: "listitem", tabindex: "0", "data-number": String(number) },
      tile.error ? element("p", { class: "tile-error" }, tile.error) : element("div", { class: "tile-pictures" }, ...images),
      element("p", { class: "tile-caption" }, element("span", { class: `dot w-${number % COUNT}` }), label, isFlipped && element("span", { class: "chip" }, "flipped")),
      words.length > 0 && !tile.error && element("dl", { class: "tile-words" }, ...words.slice(0, 6).flatMap((output) => [element("dt", { class: "from-file" }, output.name), element("dd", { class: "from-file", title: output.text }, output.text)])),
    );
    for (const name of ["mouseenter", "focus"]) box.addEventListener(name, () => this.mark(number));
    for (const name of ["mouseleave", "blur"]) box.addEventListener(name, () => this.mark(null));
    return box;
  }

  /** The stored picture with the windows of all tiles; they may stick out of it. */
  original({ field, stored, width, height }) {
    const { element, drawing, url } = this.tools;
    const windows = this.found.tiles.flatMap((tile, number) => tile.windows.filter((one) => one.field === field).map((one) => ({ ...one, number })));
    const left = Math.min(0, ...windows.map((one) => one.left));
    const top = Math.min(0, ...windows.map((one) => one.top));
    const right = Math.max(width, ...windows.map((one) => one.left + one.width));
    const bottom = Math.max(height, ...windows.map((one) => one.top + one.height));
    const source = url("picture/sample", { d: this.state.d, i: this.state.i, field: stored });
    const shapes = windows.map((one) => {
      const place = { x: one.left, y: one.top, width: one.width, height: one.height, "vector-effect": "non-scaling-stroke" };
      const group = drawing("g", { class: "window", "data-number": String(one.number) }, drawing("rect", { ...place, class: "window-under" }), drawing("rect", { ...place, class: `window-line w-${one.number % COUNT}` }));
      group.addEventListener("mouseenter", () => this.mark(one.number));
      group.addEventListener("mouseleave", () => this.mark(null));
      return group;
    });
    // Large windows first: small ones stay reachable above them.
    shapes.sort((a, b) => area(windows, b) - area(windows, a));
    const picture = drawing("image", { href: source, x: 0, y: 0, width, height, preserveAspectRatio: "none" });
    const svg = drawing("svg", { viewBox: `${left} ${top} ${right - left} ${bottom - top}`, role: "img", "aria-label": `The stored picture with ${windows.length} windows` }, picture, ...shapes);
    const caption = element("figcaption", { class: "muted" }, element("span", { class: "from-file" }, field), ` as stored, ${width} × ${height}, and the parts that were taken`);
    return element("figure", { class: "card seeds-original" }, svg, caption);
  }

  mark(number) {
    const all = this.main.querySelectorAll("[data-number]");
    for (const one of all) one.classList.toggle("marked", one.dataset.number === String(number));
    this.originals.classList.toggle("has-marked", number !== null);
  }

  step(by) {
    const next = Number(this.state.i) + by;
    if (next < 0 || next >= this.about.samples) return;
    this.state.i = String(next);
    clearTimeout(this.timer);
    this.load();
  }

  jump() {
    const wanted = Number(this.number.value.replaceAll(/[ ,.]/g, ""));
    if (this.number.value !== "" && Number.isInteger(wanted) && wanted >= 0 && wanted < this.about.samples) this.step(wanted - Number(this.state.i));
    else {
      this.tools.announce(`samples are numbered from 0 to ${this.about.samples - 1}`);
      this.number.value = this.state.i;
    }
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest?.("input, select, textarea")) return;
    const actions = {
      j: () => this.step(1),
      k: () => this.step(-1),
      ArrowRight: () => this.step(1),
      ArrowLeft: () => this.step(-1),
      n: () => this.more(1),
      p: () => this.more(-1),
      s: () => this.tools.go("sample", { d: this.state.d, i: this.state.i }),
    };
    if (event.key.startsWith("Arrow") && event.target.closest?.("pre")) return;
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }
}

function area(windows, group) {
  const one = windows.find((window) => String(window.number) === group.dataset.number);
  return one.width * one.height;
}

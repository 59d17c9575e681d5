// A loader: what it does, how long each stage takes, and the batches that come next, as the model gets them.

export const title = "Batches";
export const keys = [
  ["→ or j", "next batch"],
  ["← or k", "previous batch"],
  ["f", "follow the loader"],
];
const EVERY_MS = 2000;
const JPEGS = {
  gpu: "by the GPU",
  window: "only what the crop needs, by the tile index",
  window_without_index: "only what the crop needs, without an index",
  libjpeg_by_options: "by libjpeg-turbo, as the options say",
  libjpeg_by_kind: "by libjpeg-turbo, for they are progressive or rare",
  libjpeg_by_damage: "by libjpeg-turbo, for they are damaged",
  indices_rejected: "tile indices that do not fit",
};

export async function show(main, params, tools) {
  const page = new BatchesPage(main, params, tools);
  await page.begin();
  return () => page.close();
}

class BatchesPage {
  constructor(main, params, tools) {
    Object.assign(this, { main, tools });
    this.d = params.get("d");
    this.epoch = params.get("epoch");
    this.step = params.get("step");
    this.turn = 0;
    this.build();
    this.onKey = (event) => this.key(event);
    document.addEventListener("keydown", this.onKey);
  }

  close() {
    document.removeEventListener("keydown", this.onKey);
    clearTimeout(this.timer);
    this.turn = -1;
    this.isClosed = true;
  }

  get isFollowing() {
    return this.step === null;
  }

  build() {
    const { element } = this.tools;
    this.sub = element("p", { class: "muted sample-sub" });
    this.tops = element("div", { class: "loader-tops" });
    this.stages = element("section", { class: "card", "aria-label": "Timings" });
    this.plan = element("section", { class: "card", "aria-label": "Pipeline" });
    this.where = element("h2", { id: "batch-title" });
    this.before = element("button", { type: "button", "aria-label": "Previous batch", title: "Previous (← or k)", onclick: () => this.move(-1) }, "‹");
    this.after = element("button", { type: "button", "aria-label": "Next batch", title: "Next (→ or j)", onclick: () => this.move(1) }, "›");
    this.follow = element("input", { type: "checkbox" });
    this.follow.addEventListener("change", () => this.setFollowing(this.follow.checked));
    const followLabel = element("label", { class: "check" }, this.follow, element("span", {}, "Follow the loader"));
    const bar = element("div", { class: "batch-bar" }, this.where, element("div", { class: "sample-steps" }, this.before, this.after, followLabel));
    this.note = element("p", { class: "muted" });
    this.tiles = element("div", { class: "batch-tiles", role: "list", "aria-label": "Samples of the batch" });
    const batch = element("section", { class: "card batch", "aria-labelledby": "batch-title" }, bar, this.note, this.tiles);
    const facts = element("div", { class: "loader-cards" }, this.stages, this.plan);
    this.main.append(element("header", { class: "sample-head" }, element("div", { class: "sample-title" }, element("h1", {}, title), this.sub)), this.tops, facts, batch);
  }

  async begin() {
    await this.refresh();
    await this.load();
    this.timer = setTimeout(() => this.tick(), EVERY_MS);
  }

  async tick() {
    if (!document.hidden) {
      const before = `${this.loader?.epoch} ${this.loader?.step}`;
      try {
        await this.refresh();
        if (this.isFollowing && before !== `${this.loader.epoch} ${this.loader.step}`) await this.load();
      } catch (error) {
        if (!this.isClosed) this.note.textContent = error.message;
      }
    }
    if (!this.isClosed) this.timer = setTimeout(() => this.tick(), EVERY_MS);
  }

  async refresh() {
    const found = await this.tools.get("api/loader", { d: this.d });
    if (this.isClosed) return;
    this.loader = found;
    this.drawLoader();
  }

  drawLoader() {
    const { loader, tools } = this;
    const { element, format } = tools;
    const [rank, world] = loader.place;
    const words = [`${format.count(loader.samples)} samples, ${loader.order}`, `batches of ${format.count(loader.batch_size)}`, `seed ${loader.seed}`, world > 1 && `rank ${rank} of ${world}`, loader.device];
    this.sub.textContent = words.filter(Boolean).join(" · ");
    const { stats } = loader;
    const top = (name, value, about) => element("div", { class: "card top" }, element("span", { class: "muted" }, name), element("strong", { class: "number" }, value), element("span", { class: "muted" }, about));
    this.tops.replaceChildren(
      top("Next", `epoch ${format.count(loader.epoch)}, step ${format.count(loader.step)}`, `of ${format.counted(loader.steps, "batch")}`),
      top("Rate", `${format.count(Math.round(stats.samples_per_s))}/s`, `${format.bytes(stats.bytes_per_s)}/s stored`),
      top("The consumer waits", format.percent(stats.waiting), `the loader is idle ${format.percent(stats.idle)}`),
      top("What binds", stats.binding, `${format.counted(stats.workers, "worker")}, ${format.count(stats.batches_ahead)} ahead`),
    );
    this.drawStages(stats);
    this.drawPlan();
  }

  drawStages(stats) {
    const { element, format } = this.tools;
    const head = element("h2", {}, "Where the time goes");
    if (!stats.stages.length) {
      this.stages.replaceChildren(head, element("p", { class: "muted" }, "The loader was in no loop yet. Its timings come as it runs."));
      return;
    }
    const rows = stats.stages.map((stage) =>
      element(
        "tr",
        {},
        element("th", { scope: "row", class: "from-file" }, stage.name),
        element("td", { class: "bar-cell" }, element("span", { class: "share", style: { "--share": `${(100 * stage.share).toFixed(1)}%` } })),
        element("td", { class: "number" }, `${stage.seconds.toFixed(3)} s`),
        element("td", { class: "number" }, format.percent(stage.share)),
        element("td", { class: "number" }, `${format.count(Math.round(stage.alone))}/s`),
      ),
    );
    const names = ["stage", "", "seconds", "share", "alone, samples"].map((name) => element("th", { scope: "col" }, name));
    const lines = [`${format.counted(stats.batches, "batch")}, ${format.counted(stats.samples, "sample")} in ${stats.loop_s.toFixed(2)} s`];
    if (stats.skipped) lines.push(`${format.counted(stats.skipped, "damaged sample")} skipped`);
    const jpegs = Object.entries(stats.jpegs).map(([name, count]) => `${format.count(count)} ${JPEGS[name] ?? name}`);
    if (jpegs.length) lines.push(`JPEGs: ${jpegs.join(", ")}`);
    this.stages.replaceChildren(
      head,
      element("div", { class: "scrolls" }, element("table", { class: "stages" }, element("thead", {}, element("tr", {}, ...names)), element("tbody", {}, ...rows))),
      ...[...lines, ...stats.changes].map((line) => element("p", { class: "muted" }, line)),
    );
  }

  drawPlan() {
    const { element } = this.tools;
    const { plan, outputs, notes, errors } = this.loader;
    const key = JSON.stringify([plan, notes, errors]);
    if (key === this.planKey) return; // what is selected or scrolled stays
    this.planKey = key;
    const forms = outputs.flatMap(({ name, form }) => [element("dt", { class: "from-file" }, name), element("dd", {}, form)]);
    this.plan.replaceChildren(
      element("h2", {}, "Pipeline"),
      element("pre", { class: "seeds-code", tabindex: "0", "aria-label": "What is done to each field" }, plan.join("\n")),
      element("dl", { class: "facts" }, ...forms),
      ...notes.map((note) => element("p", { class: "muted" }, note)),
      ...errors.map((text) => element("p", { class: "value-error" }, text)),
    );
  }

  async load() {
    const turn = ++this.turn;
    const { tools } = this;
    tools.keep("batches", { d: this.d, epoch: this.epoch, step: this.step });
    this.follow.checked = this.isFollowing;
    try {
      const found = await tools.get("api/batch", { d: this.d, epoch: this.epoch, step: this.step });
      if (turn !== this.turn) return;
      this.batch = found;
      this.drawBatch();
    } catch (error) {
      if (turn !== this.turn) return;
      this.tiles.replaceChildren(tools.problem(error));
      this.where.textContent = "Batch";
    }
  }

  drawBatch() {
    const { tools, batch } = this;
    const { format } = tools;
    this.where.textContent = `Epoch ${format.count(batch.epoch)}, batch ${format.count(batch.step)} of ${format.count(batch.steps)}`;
    const left = batch.size - batch.samples.length;
    this.note.textContent = left > 0 ? `The first ${batch.samples.length} of ${format.counted(batch.size, "sample")}.` : format.counted(batch.size, "sample");
    this.before.disabled = batch.epoch === 0 && batch.step === 0;
    this.tiles.replaceChildren(...batch.samples.map((sample) => this.tile(sample)));
    tools.announce(`batch ${batch.step} of epoch ${batch.epoch}`);
  }

  tile({ index, name, outputs }) {
    const { element, url, link, format } = this.tools;
    const pictures = outputs.filter((output) => output.picture).map((output) => {
      const image = element("img", { src: url("picture/made", { d: this.d, key: output.picture }), alt: `${output.name} of sample ${index}`, title: [output.name, output.text, output.note].filter(Boolean).join(", "), loading: "lazy" });
      image.addEventListener("error", () => image.replaceWith(element("p", { class: "muted" }, "gone; load the page again")));
      return image;
    });
    const words = outputs.filter((output) => !output.picture).slice(0, 6);
    return element(
      "div",
      { class: "batch-tile", role: "listitem" },
      pictures.length > 0 && element("div", { class: "tile-pictures" }, ...pictures),
      element("a", { class: "tile-caption from-file", href: link("sample", { d: this.d, i: index }), title: `sample ${index}` }, name ?? `sample ${format.count(index)}`),
      words.length > 0 && element("dl", { class: "tile-words" }, ...words.flatMap((output) => [element("dt", { class: "from-file" }, output.name), element("dd", { class: "from-file", title: output.text }, output.text)])),
    );
  }

  setFollowing(isFollowing) {
    if (isFollowing) this.epoch = this.step = null;
    else if (this.batch) [this.epoch, this.step] = [String(this.batch.epoch), String(this.batch.step)];
    this.load();
  }

  move(by) {
    if (!this.batch) return;
    let { epoch, step } = this.batch;
    step += by;
    if (step < 0) [epoch, step] = [epoch - 1, this.batch.steps - 1];
    if (step >= this.batch.steps) [epoch, step] = [epoch + 1, 0];
    if (epoch < 0) return;
    [this.epoch, this.step] = [String(epoch), String(step)];
    this.load();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest?.("input:not([type=checkbox]), select, textarea, pre")) return;
    const actions = { j: () => this.move(1), ArrowRight: () => this.move(1), k: () => this.move(-1), ArrowLeft: () => this.move(-1), f: () => this.setFollowing(!this.isFollowing) };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }
}

// Thumbnails of a dataset of any length: only what is on the screen is asked for.
import { Choice, savedList } from "../choice.js";
import { filters } from "../filters.js";
import { untilReady } from "../progress.js";
import { Scroller } from "../scroller.js";
import { known, load } from "../thumbnails.js";

export const title = "Grid";
export const keys = [
  ["← ↑ → ↓", "move"],
  ["Home and End", "first and last sample"],
  ["PgUp and PgDn", "a screen up or down"],
  ["Enter", "open the sample"],
  ["Space", "select it, or not"],
  ["Shift and →", "select on the way"],
  ["a", "select all that are shown"],
  ["Esc", "select none"],
  ["/", "look for a name"],
];
const [GAP, CAPTION, BLOCK, PACK] = [10, 46, 120, 12];
const MOST_TILES = 2000; // more than any screen has
const [MOST_CHOSEN, NUMBERS] = [1_000_000, 100_000]; // one by one, and asked for at a time
const SIZES = { s: 112, m: 160, l: 232 };

export async function show(main, params, tools) {
  await tools.dataset(params); // one that is not there is told without asking
  const grid = new Grid(main, params, tools);
  await grid.begin();
  return () => grid.end();
}

class Grid {
  constructor(main, params, tools) {
    [this.main, this.tools] = [main, tools];
    this.state = Object.fromEntries(params);
    this.d = this.state.d ?? "0";
    this.ended = new AbortController();
    this.blocks = new Map(); // rows of samples by their first place
    this.tiles = new Map(); // what is on the screen, by place
    this.count = 0;
    this.place = Number(this.state.at ?? 0) || 0;
    this.turn = 0;
  }

  async begin() {
    const { element } = this.tools;
    this.about = await this.tools.get("api/grid", { d: this.d, by: this.state.by }, { signal: this.ended.signal });
    this.choice = new Choice(() => this.showChoice());
    this.box = element("div", {
      class: "grid-box", role: "grid", tabindex: "0", "aria-label": "Samples", "aria-multiselectable": "true",
      onkeydown: (event) => this.onKey(event), onclick: (event) => this.onClick(event), ondblclick: (event) => this.onOpen(event),
    });
    this.layer = element("div", { class: "grid-layer", role: "row" });
    const room = element("div", { class: "grid-room", role: "presentation" }, this.layer);
    this.box.append(room);
    this.status = element("p", { class: "grid-status number", role: "status" });
    this.note = element("p", { class: "grid-status grid-note", role: "alert", hidden: true });
    this.bar = element("div", { class: "grid-choice", hidden: true, role: "region", "aria-label": "Selection" });
    this.filters = filters(this.about, this.state, this.tools, (state) => this.onFilter(state));
    this.main.append(element("h1", { class: "unseen" }, "Grid"), this.filters.element, this.status, this.note, this.box, this.bar);
    this.scroller = new Scroller(this.box, room, () => this.onMove());
    this.watcher = new ResizeObserver(() => this.layout());
    this.watcher.observe(this.box);
    this.onSlash = (event) => {
      if (event.key === "/" && !event.target.closest("input, select, textarea")) {
        event.preventDefault();
        this.filters.focus();
      }
    };
    document.addEventListener("keydown", this.onSlash);
    await this.search();
  }

  end() {
    this.ended.abort();
    this.watcher?.disconnect();
    clearTimeout(this.later);
    clearTimeout(this.keeping);
    document.removeEventListener("keydown", this.onSlash);
  }

  // What is shown

  get query() {
    const { by, name, regex, bytes, width, height, damaged, sort } = this.state;
    return { d: this.d, by, class: this.state.class, name, regex, bytes, width, height, damaged, sort };
  }

  onFilter(state) {
    const before = this.query;
    this.state = { ...state, d: this.d, side: state.side };
    this.place = 0;
    this.keep();
    this.keepChoice(before);
    this.search();
  }

  /** "All" were those of a filter: with another order they are the same, with another filter they are not. */
  keepChoice(before) {
    if (this.choice.query === null) return;
    const isSame = (key) => key === "sort" || (before[key] ?? "") === (this.query[key] ?? "");
    if (Object.keys(before).every(isSame)) this.choice.all(this.choice.size, this.query);
    else this.choice.none();
  }

  keep() {
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => {
      const at = this.place > 0 ? this.place : null;
      this.tools.keep("grid", { ...this.state, d: this.d === "0" ? null : this.d, at });
    }, 120);
  }

  /** Ask for the first rows until the server has found them. */
  async search() {
    const turn = ++this.turn;
    this.asking?.abort();
    this.asking = new AbortController();
    this.box.setAttribute("aria-busy", "true");
    try {
      for (;;) {
        const start = Math.floor(this.place / BLOCK) * BLOCK;
        const found = await this.tools.get("api/grid/rows", { ...this.query, start, count: BLOCK }, { signal: this.asking.signal });
        if (turn !== this.turn || this.ended.signal.aborted) return;
        if (found.state === "ready") {
          this.onFound(found, start);
          return;
        }
        if (found.state === "failed") throw new Error(found.error);
        const share = found.total ? ` ${Math.floor((found.done / found.total) * 100)} %` : "";
        this.status.textContent = `Searching…${share}`;
        await new Promise((done) => setTimeout(done, 150));
      }
    } catch (error) {
      if (error.name !== "AbortError" && turn === this.turn) this.onFailed(error);
    }
  }

  onFailed(error) {
    this.box.removeAttribute("aria-busy");
    this.count = 0;
    this.clear();
    this.status.replaceChildren(this.tools.element("span", { class: "failed", role: "alert" }, error.message));
    this.layout();
  }

  onFound(found, start) {
    this.box.removeAttribute("aria-busy");
    this.clear();
    this.count = found.count;
    this.blocks.set(start, found.rows);
    this.place = Math.min(this.place, Math.max(0, found.count - 1));
    this.active = this.active === undefined ? this.place : Math.min(this.active, Math.max(0, found.count - 1));
    const { format, element } = this.tools;
    const of = found.count === this.about.samples ? "" : ` of ${format.count(this.about.samples)}`;
    this.status.replaceChildren(`${format.count(found.count)}${of} ${this.about.samples === 1 ? "sample" : "samples"}`);
    if (this.state.damaged === "1" && !this.about.is_checked) {
      this.status.append(" known to be damaged so far; ", element("a", { href: this.tools.link("verify", { d: this.d }) }, "verify the whole dataset"));
    } else if (!found.count) this.status.append(this.about.samples ? ": nothing fits the filter" : ": the dataset is empty");
    this.box.setAttribute("aria-rowcount", String(found.count));
    this.tools.announce(this.status.textContent);
    this.layout(true);
  }

  clear() {
    this.blocks.clear();
    for (const tile of this.tiles.values()) tile.remove();
    this.tiles.clear();
  }

  // Where things are

  layout(anew = false) {
    const style = getComputedStyle(this.box);
    const width = this.box.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const wanted = this.about.pictures.length ? (SIZES[this.state.side] ?? SIZES.m) : 240;
    const columns = Math.max(1, Math.floor((width + GAP) / (wanted + GAP)) || 1);
    const side = Math.max(60, (width - GAP * (columns - 1)) / columns);
    if (!anew && columns === this.columns && side === this.side && this.view === this.box.clientHeight) return;
    [this.columns, this.side, this.view] = [columns, side, this.box.clientHeight];
    this.high = Math.round(this.about.pictures.length ? side : 132) + CAPTION + GAP;
    this.layer.style.height = `${this.box.clientHeight}px`;
    for (const tile of this.tiles.values()) tile.remove();
    this.tiles.clear();
    this.scroller.resize(Math.ceil(this.count / columns) * this.high + GAP);
    this.isLayout = true;
    this.scroller.to(Math.floor(this.place / columns) * this.high);
    this.isLayout = false;
  }

  onMove() {
    const top = this.scroller.top;
    if (!this.isLayout) {
      this.place = Math.round(top / this.high) * this.columns;
      this.keep();
    }
    this.draw(top);
    clearTimeout(this.later);
    // While it is scrolled fast nothing is asked for; what stays for a moment is.
    this.later = setTimeout(() => this.fill(), 50);
  }

  draw(top) {
    const first = Math.max(0, Math.floor(top / this.high) - 1) * this.columns;
    const end = (Math.ceil((top + this.box.clientHeight) / this.high) + 1) * this.columns;
    const last = Math.min(this.count, end, first + MOST_TILES);
    for (const [place, tile] of this.tiles) {
      if (place < first || place >= last) {
        tile.remove();
        this.tiles.delete(place);
      }
    }
    for (let place = first; place < last; place++) {
      let tile = this.tiles.get(place);
      if (!tile) {
        tile = this.tile(place);
        this.tiles.set(place, tile);
        this.layer.append(tile);
      }
      const row = Math.floor(place / this.columns);
      const x = (place % this.columns) * (this.side + GAP);
      tile.style.transform = `translate(${x}px, ${row * this.high - top}px)`;
    }
    [this.first, this.last] = [first, last];
  }

  row(place) {
    const start = Math.floor(place / BLOCK) * BLOCK;
    return this.blocks.get(start)?.[place - start] ?? null;
  }

  // Tiles

  tile(place) {
    const { element } = this.tools;
    const made = element(
      "div",
      { class: "cell", role: "gridcell", id: `cell-${place}`, "aria-colindex": String(place + 1), style: { width: `${this.side}px`, height: `${this.high - GAP}px` } },
      element("div", { class: this.about.pictures.length ? "picture" : "picture words" }),
      element("div", { class: "caption" }),
    );
    made.dataset.place = String(place);
    this.fillTile(made, place);
    return made;
  }

  fillTile(tile, place) {
    const row = this.row(place);
    const isActive = place === this.active;
    tile.classList.toggle("active", isActive);
    if (isActive) this.box.setAttribute("aria-activedescendant", tile.id);
    if (!row) return;
    tile.setAttribute("aria-selected", String(this.choice.has(row.i)));
    if (tile.dataset.i === String(row.i)) return;
    tile.dataset.i = String(row.i);
    this.caption(tile, row);
    if (!this.about.pictures.length) this.words(tile, row);
    else {
      const found = known(this.d, row.i, this.state.field ?? null, this.asked);
      if (found) this.picture(tile, found);
    }
  }

  caption(tile, row) {
    const { element, format } = this.tools;
    const label = row.class === undefined ? null : (this.about.class_names[row.class] ?? String(row.class));
    const name = row.name ?? `#${format.count(row.i)}`;
    const [sides, bytes] = [row.width ? `${row.width} × ${row.height}` : null, row.bytes ? format.bytes(row.bytes) : null];
    const facts = [sides, bytes].filter(Boolean).join(" · ");
    const shown = (this.state.sort ?? "").endsWith("bytes") ? bytes : (sides ?? bytes);
    tile.title = [name, label, facts, row.name ? `sample ${row.i}` : null].filter(Boolean).join("\n");
    tile.setAttribute("aria-label", [`sample ${row.i}`, row.name, label, facts, row.problem ? "damaged" : null].filter(Boolean).join(", "));
    tile.querySelector(".caption").replaceChildren(
      element("span", { class: "name from-file" }, name),
      element("span", { class: "below" }, label === null ? null : element("span", { class: "label from-file" }, label), element("span", { class: "muted number" }, shown ?? "")),
    );
  }

  words(tile, row) {
    const { element } = this.tools;
    const lines = Object.entries(row.fields ?? {}).map(([name, text]) => [element("dt", { class: "muted" }, name), element("dd", { class: "from-file" }, text)]);
    tile.querySelector(".picture").replaceChildren(row.problem ? this.broken(row.problem) : element("dl", {}, ...lines));
  }

  picture(tile, found) {
    const { element } = this.tools;
    const box = tile.querySelector(".picture");
    if (found.error) box.replaceChildren(this.broken(found.error, found.isDamaged === false ? "Not shown" : "Damaged"));
    else {
      const small = found.width * 2 < this.side && found.height * 2 < this.side;
      box.replaceChildren(element("img", { src: found.url, alt: "", draggable: "false", class: small ? "small" : null }));
    }
    box.classList.add("there");
  }

  broken(text, heading = "Damaged") {
    const { element } = this.tools;
    return element("div", { class: heading === "Damaged" ? "broken" : "broken sound", title: text }, element("strong", {}, heading), element("span", {}, text));
  }

  // What is asked of the server

  get asked() {
    const pixels = this.side * Math.min(2, globalThis.devicePixelRatio || 1);
    return pixels <= 128 ? 128 : pixels <= 192 ? 192 : pixels <= 256 ? 256 : 384;
  }

  async fill() {
    const turn = this.turn;
    const [first, last] = [this.first, this.last];
    const starts = [];
    for (let start = Math.floor(first / BLOCK) * BLOCK; start < last; start += BLOCK) starts.push(start);
    await Promise.all(starts.map((start) => this.block(start, turn)));
    if (turn !== this.turn || this.ended.signal.aborted) return;
    for (const [place, tile] of this.tiles) this.fillTile(tile, place);
    if (this.about.pictures.length) this.pictures();
  }

  async block(start, turn) {
    if (this.blocks.has(start)) return;
    try {
      const found = await this.tools.get("api/grid/rows", { ...this.query, start, count: BLOCK }, { signal: this.ended.signal });
      if (turn !== this.turn || found.state !== "ready") return;
      this.blocks.set(start, found.rows);
      for (const old of this.blocks.keys()) {
        if (this.blocks.size <= 40) break;
        this.blocks.delete(old);
      }
    } catch (error) {
      if (error.name !== "AbortError") this.status.replaceChildren(this.tools.element("span", { class: "failed", role: "alert" }, error.message));
    }
  }

  pictures() {
    this.loading?.abort();
    this.loading = new AbortController();
    const seen = [...this.tiles].sort(([a], [b]) => a - b).filter(([, tile]) => tile.dataset.i && !tile.querySelector(".there"));
    const byNumber = new Map(seen.map(([, tile]) => [Number(tile.dataset.i), tile]));
    const numbers = [...byNumber.keys()];
    for (let k = 0; k < numbers.length; k += PACK) {
      load(this.d, numbers.slice(k, k + PACK), { field: this.state.field ?? null, side: this.asked, signal: this.loading.signal }, (i, found) => {
        const tile = byNumber.get(i);
        if (tile?.isConnected && tile.dataset.i === String(i)) this.picture(tile, found);
      }).catch(() => {}); // scrolled away, or the server has ended: the next rows say so
    }
  }

  // Keys and clicks

  onKey(event) {
    const rows = Math.max(1, Math.floor(this.box.clientHeight / this.high));
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns, PageUp: -rows * this.columns, PageDown: rows * this.columns, Home: -Infinity, End: Infinity };
    if (event.key in steps && !event.ctrlKey && !event.metaKey) this.move(steps[event.key], event.shiftKey);
    else if (event.key === " ") this.toggle(this.active);
    else if (event.key === "Enter") this.openSample(this.active);
    else if (event.key === "a" && !event.altKey) this.choice.all(this.count, this.query);
    else if (event.key === "Escape") this.choice.none();
    else return;
    event.preventDefault();
  }

  move(step, isSelecting) {
    if (!this.count) return;
    const before = this.active;
    this.active = Math.max(0, Math.min(this.count - 1, this.active + step));
    const top = Math.floor(this.active / this.columns) * this.high;
    if (top < this.scroller.top) this.scroller.to(top);
    else if (top + this.high > this.scroller.top + this.box.clientHeight) this.scroller.to(top + this.high - this.box.clientHeight);
    if (isSelecting) this.chooseBetween(before, this.active);
    for (const [place, tile] of this.tiles) this.fillTile(tile, place);
    const row = this.row(this.active);
    if (row) this.tools.announce(this.tiles.get(this.active)?.getAttribute("aria-label") ?? "");
  }

  /** Select the samples from one place to another: all of them, or none and a word about it. */
  async chooseBetween(from, to) {
    const [low, high] = [Math.min(from, to), Math.max(from, to)];
    const { format } = this.tools;
    const many = high - low + 1;
    this.say(many > MOST_CHOSEN ? `These are ${format.counted(many, "sample")}, and up to ${format.count(MOST_CHOSEN)} can be selected on the way. Filter them, and select all with a.` : "");
    if (many > MOST_CHOSEN) return;
    const [turn, era] = [this.turn, this.choice.era];
    try {
      const numbers = this.numbersAtHand(low, high) ?? (await this.numbersBetween(low, high));
      if (turn === this.turn && era === this.choice.era) this.choice.add(numbers);
    } catch (error) {
      if (error.name !== "AbortError") this.say(`Nothing was selected: ${error.message}`);
    }
  }

  say(text) {
    this.note.textContent = text;
    this.note.hidden = !text;
  }

  /** Numbers of samples by their places, without asking: all in the order of the file, or all of them loaded. */
  numbersAtHand(low, high) {
    const { d, by, ...filter } = this.query;
    const isWhole = Object.values(filter).every((value) => !value);
    const numbers = [];
    for (let place = low; place <= high; place++) {
      const i = isWhole ? place : this.row(place)?.i;
      if (i === undefined) return null;
      numbers.push(i);
    }
    return numbers;
  }

  async numbersBetween(low, high) {
    const { signal } = this.ended;
    const parts = [];
    for (let start = low; start <= high; start += NUMBERS) {
      const wanted = { ...this.query, start, count: Math.min(NUMBERS, high - start + 1) };
      parts.push((await untilReady(() => this.tools.get("api/grid/numbers", wanted, { signal }), { signal })).numbers);
    }
    return parts.flat();
  }

  toggle(place) {
    this.say("");
    const row = this.row(place);
    if (row) this.choice.toggle(row.i);
    this.anchor = place;
  }

  onClick(event) {
    const tile = event.target.closest(".cell");
    if (!tile) return;
    const place = Number(tile.dataset.place);
    const before = this.anchor ?? this.active;
    this.active = place;
    if (event.shiftKey) this.chooseBetween(before, place);
    else this.toggle(place);
    for (const [one, other] of this.tiles) this.fillTile(other, one);
  }

  onOpen(event) {
    const tile = event.target.closest(".cell");
    if (tile) this.openSample(Number(tile.dataset.place));
  }

  openSample(place) {
    const row = this.row(place);
    if (!row) return;
    this.place = Math.floor(this.scroller.top / this.high) * this.columns;
    this.tools.keep("grid", { ...this.state, d: this.d === "0" ? null : this.d, at: this.place || null });
    this.tools.go("sample", { ...this.query, d: this.d, i: row.i });
  }

  showChoice() {
    for (const [place, tile] of this.tiles) this.fillTile(tile, place);
    savedList(this.bar, this.choice, this.about, this.d, this.tools);
  }
}

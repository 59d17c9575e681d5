// What was selected: single samples, or all that a filter shows.

export class Choice {
  constructor(changed) {
    this.numbers = new Set();
    this.query = null; // all samples that this finds are selected
    this.size = 0;
    this.era = 0; // counts how often everything was chosen anew
    this.changed = changed;
  }

  has(i) {
    return this.query !== null || this.numbers.has(i);
  }

  toggle(i) {
    if (this.query !== null) this.none();
    if (!this.numbers.delete(i)) this.numbers.add(i);
    this.count();
  }

  add(numbers) {
    if (this.query !== null) return;
    for (const i of numbers) this.numbers.add(i);
    this.count();
  }

  all(count, query) {
    this.era++;
    [this.query, this.size] = [query, count];
    this.numbers.clear();
    this.changed();
  }

  none() {
    this.era++;
    [this.query, this.size] = [null, 0];
    this.numbers.clear();
    this.changed();
  }

  count() {
    this.size = this.numbers.size;
    this.changed();
  }

  /** Lines of numbers, consecutive ones as ranges. */
  text() {
    const sorted = [...this.numbers].sort((a, b) => a - b);
    const lines = [];
    for (let k = 0; k < sorted.length; k++) {
      const first = sorted[k];
      while (sorted[k + 1] === sorted[k] + 1) k++;
      lines.push(sorted[k] === first ? `${first}` : `${first}:${sorted[k] + 1}`);
    }
    return `${lines.join("\n")}\n`;
  }
}

/** The bar that says what is selected, and saves it as a list for `headrace subset`. */
export function savedList(bar, choice, about, d, { element, format, url, announce }) {
  bar.hidden = !choice.size;
  if (!choice.size) return;
  const save = element("a", { class: "button primary", download: "samples.txt" }, "Save list");
  if (choice.query !== null) save.href = url("api/grid/list", choice.query);
  else {
    save.href = "#";
    save.addEventListener("click", () => {
      const made = URL.createObjectURL(new Blob([choice.text()], { type: "text/plain" }));
      save.href = made;
      setTimeout(() => URL.revokeObjectURL(made), 60_000);
    });
  }
  save.addEventListener("click", () => announce("The list is saved as samples.txt."));
  const command = `headrace subset ${about.path} -o part.beton --samples samples.txt`;
  bar.replaceChildren(
    element("strong", { class: "number" }, `${format.count(choice.size)} selected`),
    element("code", { class: "from-file", title: "makes a dataset of the list" }, command),
    save,
    element("button", { type: "button", class: "quiet", onclick: () => choice.none() }, "Clear"),
  );
}

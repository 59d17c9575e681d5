// The router: the hash says which page is shown, and with what.
import * as tools from "./tools.js";

/** The pages, in the order of the bar; `hidden` ones are reached from others. A page is pages/NAME.js. */
const PAGES = {
  overview: { title: "Overview" },
  grid: { title: "Grid" },
  sample: { title: "Sample" },
  seeds: { title: "What the model sees" },
  batches: { title: "Batches", hidden: true },
  compare: { title: "Compare" },
  verify: { title: "Verify" },
};
const KEYS = [
  ["?", "these keys"],
  ["g then o, g, …", "go to a page by its first letter"],
  ["Esc", "close what is open"],
];

const main = document.getElementById("main");
const picker = document.getElementById("picker");
let cleanup = null;
let shown = 0; // counts, so that a page that is slow to load does not replace a later one
let page = null;

function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const name = path || "overview";
  return { name, params: new URLSearchParams(query ?? "") };
}

function markBar(name, params) {
  const number = params.get("d");
  const links = Object.entries(PAGES)
    .filter(([key, about]) => !about.hidden || key === name)
    .map(([key, about]) =>
      tools.element("a", { href: tools.link(key, { d: number }), "aria-current": key === name ? "page" : null }, about.title),
    );
  document.getElementById("pages").replaceChildren(...links);
  links.find((one) => one.ariaCurrent)?.scrollIntoView({ inline: "nearest", block: "nearest" }); // on narrow screens
  picker.value = number ?? "0";
}

async function fillPicker() {
  const all = await tools.datasets();
  picker.replaceChildren(...all.map((one) => tools.element("option", { value: String(one.number), title: one.path }, one.title)));
  picker.closest("label").hidden = all.length < 2;
  picker.value = place().params.get("d") ?? "0";
  if (!all.some((one) => one.has_loader)) return;
  PAGES.batches.hidden = false;
  const { name, params } = place();
  if (!location.hash && all[0].has_loader) tools.go("batches", {}, { replace: true });
  else markBar(name, params);
}

async function show() {
  const turn = ++shown;
  const { name, params } = place();
  cleanup?.();
  cleanup = page = null;
  markBar(name, params);
  main.replaceChildren();
  main.className = `page-${name in PAGES ? name : "none"}`;
  main.setAttribute("aria-busy", "true");
  try {
    if (!(name in PAGES)) throw new Error(`There is no page "${name}".`);
    const found = await import(`./pages/${name}.js`);
    if (turn !== shown) return;
    document.title = `${found.title} · headrace`;
    page = found;
    const ended = await found.show(main, params, tools);
    if (turn !== shown) ended?.();
    else cleanup = ended ?? null;
  } catch (error) {
    if (turn === shown && error.name !== "AbortError") main.replaceChildren(tools.problem(error));
  } finally {
    if (turn === shown) main.removeAttribute("aria-busy");
  }
}

// Keys

const dialog = document.getElementById("keys");

function showKeys() {
  const rows = [...(page?.keys ?? []), ...KEYS];
  const list = rows.map(([key, what]) => [
    tools.element("dt", {}, ...key.split(" ").map((word) => (/^(then|and|or|,|…)$/.test(word) ? `${word} ` : tools.element("kbd", {}, word)))),
    tools.element("dd", {}, what),
  ]);
  dialog.replaceChildren(
    tools.element("h2", { id: "keys-title" }, "Keys"),
    tools.element("dl", {}, ...list),
    tools.element("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Close"),
  );
  dialog.showModal();
}

let isGoing = false; // "g" was pressed
function onKey(event) {
  const typing = event.target.closest?.("input, select, textarea, [contenteditable]");
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing || dialog.open) return;
  if (isGoing) {
    isGoing = false;
    const name = Object.keys(PAGES).find((key) => key.startsWith(event.key) && !PAGES[key].hidden);
    if (name) tools.go(name, { d: place().params.get("d") });
    return;
  }
  if (event.key === "?") showKeys();
  if (event.key === "g") isGoing = true;
}

document.getElementById("help").addEventListener("click", showKeys);
document.addEventListener("keydown", onKey);
picker.addEventListener("change", () => {
  const { name } = place();
  tools.go(name in PAGES ? name : "overview", { d: picker.value });
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash is the state of the page
  main.focus();
});
window.addEventListener("hashchange", show);
fillPicker().catch(() => {}); // the page says that the server does not answer
show();

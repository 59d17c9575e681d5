// The router: the hash says which page is shown, and with what.
import * as tools from "./tools.js";

/** The pages, in the order of the bar; `hidden` ones are reached from others. A page is pages/NAME.js. */
const PAGES = {
  overview: { title: "Overview", key: "o" },
  grid: { title: "Grid", key: "g" },
  sample: { title: "Sample", key: "s" },
  seeds: { title: "What the model sees", key: "m" },
  batches: { title: "Batches", key: "b", hidden: true },
  compare: { title: "Compare", key: "c" },
  verify: { title: "Verify", key: "v" },
};
const KEYS = [
  ["?", "these keys"],
  ["Esc", "close what is open"],
];
const GOING_MS = 2000; // after "g"

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
  const isPair = name === "compare"; // it has menus of its own, for two datasets
  const number = isPair ? (params.get("a") ?? params.get("d")) : params.get("d");
  picker.closest("label").hidden = isPair || picker.options.length < 2;
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
  const { name, params } = place();
  markBar(name, params);
  if (!all.some((one) => one.has_loader)) return;
  PAGES.batches.hidden = false;
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
  const pages = Object.values(PAGES).filter((about) => !about.hidden).map((about) => [`g then ${about.key}`, about.title]);
  const rows = [...(page?.keys ?? []), ...KEYS, ...pages];
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

let going = null; // a timer: "g" was pressed, and a letter is waited for
function onKey(event) {
  const typing = event.target.closest?.("input, select, textarea, [contenteditable]");
  if (event.ctrlKey || event.metaKey || event.altKey || event.key === "Shift" || typing || dialog.open) return;
  if (going !== null) {
    event.preventDefault(); // the letter is not a key of the page that is left
    event.stopImmediatePropagation();
    clearTimeout(going);
    going = null;
    goTo(event.key);
  } else if (event.key === "g") going = setTimeout(() => (going = null), GOING_MS);
  else if (event.key === "?") showKeys();
}

function goTo(letter) {
  const found = Object.entries(PAGES).find(([, about]) => about.key === letter && !about.hidden);
  if (!found) return;
  const { name, params } = place();
  tools.go(found[0], { d: name === "compare" ? (params.get("a") ?? params.get("d")) : params.get("d") });
}

document.getElementById("help").addEventListener("click", showKeys);
document.addEventListener("keydown", onKey, { capture: true }); // before the page and what is in it
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

// What every page uses. Names and texts of a file come in as text nodes and never as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** A URL of the server, relative to the page; parameters that are null or empty are left out. */
export function url(path, params = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(key, value);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

async function answer(response) {
  let value = null;
  try {
    value = await response.json();
  } catch {
    // Not JSON: the status says it.
  }
  if (!response.ok) {
    const error = new Error(value?.error ?? `the server answered ${response.status}`);
    error.status = response.status;
    throw error;
  }
  return value;
}

async function ask(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The viewer does not answer; was it ended?");
  }
}

/** JSON of the server, or an Error with its text; `signal` ends it early. */
export async function get(path, params = {}, { signal } = {}) {
  return answer(await ask(url(path, params), { signal }));
}

/** The same, with a body. */
export async function post(path, body = {}) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return answer(await ask(path, options));
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) made.style.setProperty(key, one);
    else if (name === "value" && "value" in made) made.value = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** An element; strings among the children become text. `on...` are listeners, `style` an object. */
export function element(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for drawings. */
export function drawing(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** The hash that leads to a page. */
export function link(page, params = {}) {
  return url(`#/${page}`, params);
}

/** Go to a page; with `replace` the way back leads past the page that is left. */
export function go(page, params = {}, { replace = false } = {}) {
  const hash = link(page, params);
  if (hash === location.hash) return;
  if (replace) location.replace(hash);
  else location.hash = hash;
}

/** Keep the state of the page in the URL without showing the page anew. */
export function keep(page, params = {}) {
  history.replaceState(history.state, "", link(page, params));
}

/** Let a screen reader say something. */
export function announce(text) {
  const said = document.getElementById("said");
  said.textContent = "";
  requestAnimationFrame(() => (said.textContent = text));
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const NUMBERS = new Intl.NumberFormat("en");

export const format = {
  count: (value) => (typeof value === "number" ? NUMBERS.format(value) : String(value)),
  bytes(value) {
    let size = Number(value);
    let unit = 0;
    while (Math.abs(size) >= 1023.5 && unit < UNITS.length - 1) [size, unit] = [size / 1024, unit + 1];
    return `${unit && size < 99.5 ? size.toFixed(1) : size.toFixed(0)} ${UNITS[unit]}`;
  },
  percent: (value) => `${(value * 100).toFixed(value > 0 && value < 0.1 ? 2 : 1)} %`,
  /** "1 sample", "2,000 samples" */
  counted: (value, noun) => `${NUMBERS.format(value)} ${noun}${value === 1 ? "" : /(s|ch|sh|x)$/.test(noun) ? "es" : "s"}`,
};

/** A box that says that something went wrong. */
export function problem(error) {
  return element("div", { class: "problem", role: "alert" }, element("strong", {}, "This cannot be shown. "), error.message);
}

/** The datasets, as `api/datasets` lists them; asked for once. */
let asked = null;
export function datasets() {
  asked ??= get("api/datasets").then((value) => value.datasets);
  asked.catch(() => (asked = null));
  return asked;
}

/** The dataset that the parameters of a page name. */
export async function dataset(params, name = "d") {
  const all = await datasets();
  const number = Number(params.get(name) ?? 0);
  if (!all[number]) throw new Error(`There is no dataset ${params.get(name)}; they are numbered from 0 to ${all.length - 1}.`);
  return all[number];
}

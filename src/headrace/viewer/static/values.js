// Values of a sample as elements: numbers, texts, trees, bytes, arrays. All that comes from a file is text.
import { drawing, element, format } from "./tools.js";

const OPEN_DEPTH = 2; // of a tree

/** What the server said about a value; `picture` is the URL of an array that can be shown as one. */
export function showValue(value, { picture } = {}) {
  switch (value?.as) {
    case "number":
      return element("p", { class: "value-number from-file" }, value.text, value.class !== undefined && element("span", { class: "chip" }, value.class));
    case "text":
      return element("pre", { class: "value-text from-file", dir: "auto", tabindex: "0" }, value.text || " ");
    case "tree":
      return element("div", { class: "value-tree" }, tree(value.tree, null, 0));
    case "bytes":
      return bytes(value, picture);
    case "array":
      return array(value, picture);
    default:
      return element("p", { class: "muted" }, "nothing");
  }
}

function key(name) {
  return name === null ? null : [element("span", { class: "tree-key from-file" }, name), ": "];
}

function tree(node, name, depth) {
  if (node.items === undefined) {
    const cut = node.length > node.text.length ? element("span", { class: "muted" }, ` (${format.count(node.length)} characters)`) : null;
    return element("div", { class: "tree-leaf" }, key(name), element("span", { class: `tree-${node.kind} from-file` }, node.kind === "text" ? `"${node.text}"` : node.text), cut);
  }
  const [open, close] = node.kind === "map" ? ["{", "}"] : ["[", "]"];
  if (node.length === 0) return element("div", { class: "tree-leaf" }, key(name), `${open}${close}`);
  const children = node.items.map(([own, child]) => tree(child, own, depth + 1));
  const left = node.length - node.items.length;
  if (left > 0) children.push(element("div", { class: "tree-leaf muted" }, `… ${format.count(left)} more`));
  const count = format.counted(node.length, node.kind === "map" ? "key" : "item");
  const head = element("summary", {}, key(name), `${open}…${close} `, element("span", { class: "muted" }, count));
  return element("details", { open: depth < OPEN_DEPTH && node.items.length <= 40 }, head, element("div", { class: "tree-inner" }, ...children));
}

function bytes(value, picture) {
  const parts = [];
  if (value.can_be_picture && picture) parts.push(arrayPicture(picture));
  if (value.text) parts.push(element("pre", { class: "value-text from-file", dir: "auto", tabindex: "0" }, value.text));
  const rows = value.rows.map(([hex, text], row) => `${(16 * row).toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${text}`);
  const dump = element("pre", { class: "value-hex", tabindex: "0", "aria-label": "Bytes as hexadecimal numbers" }, rows.join("\n") || " ");
  const cut = value.is_cut ? ", the first 4 KiB are shown" : "";
  parts.push(dump, element("p", { class: "muted" }, `${format.counted(value.length, "byte")}${cut}`));
  return element("div", { class: "value-bytes" }, ...parts);
}

function arrayPicture(source) {
  const image = element("img", { class: "value-picture", src: source, alt: "The values as a picture" });
  image.addEventListener("error", () => image.replaceWith(element("p", { class: "muted" }, "It cannot be shown as a picture.")));
  return image;
}

function array(value, picture) {
  const shape = value.shape.map(format.count).join(" × ") || "one value";
  const facts = Object.entries(value.facts ?? {}).map(([name, text]) => `${name} ${text}`);
  const parts = [element("p", { class: "muted" }, [`${value.dtype}, ${shape}`, ...facts].join(" · "))];
  if (value.can_be_picture && picture) parts.push(arrayPicture(picture));
  if (value.curves) parts.push(curves(value.curves));
  const numbers = table(value.table);
  const isDrawn = parts.length > 1;
  parts.push(isDrawn ? element("details", {}, element("summary", {}, "Numbers"), numbers) : numbers);
  return element("div", { class: "value-array" }, ...parts);
}

function table(value) {
  if (!value.rows.length || !value.rows[0].length) return element("p", { class: "muted" }, "no values");
  const rows = value.rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", { class: "from-file" }, cell))));
  const words = [value.is_slice && "the first slice", value.is_cut && `the beginning of ${value.shape.map(format.count).join(" × ")}`].filter(Boolean);
  return element(
    "div",
    { class: "value-table", tabindex: "0", role: "region", "aria-label": "Values as a table" },
    element("table", {}, element("tbody", {}, ...rows)),
    words.length > 0 && element("p", { class: "muted" }, words.join(", ")),
  );
}

const [WIDTH, HEIGHT] = [600, 140];

function curves(value) {
  const all = value.lines.flat().map(([, y]) => y).filter((y) => y !== null);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const last = Math.max(1, value.length - 1);
  const x = (at) => (at / last) * WIDTH;
  const y = (at) => HEIGHT - 6 - (high > low ? (at - low) / (high - low) : 0.5) * (HEIGHT - 12);
  const lines = value.lines.map((line, number) =>
    drawing("path", { class: `curve curve-${number % 8}`, d: curvePath(line, x, y), "vector-effect": "non-scaling-stroke" }),
  );
  const zero = low < 0 && high > 0 ? drawing("path", { class: "curve-zero", d: `M0 ${y(0)}H${WIDTH}`, "vector-effect": "non-scaling-stroke" }) : null;
  const label = `${format.counted(value.lines.length, "curve")} of ${format.counted(value.length, "value")}, from ${low} to ${high}`;
  return element(
    "figure",
    { class: "value-curves" },
    drawing("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, zero, ...lines),
    element("figcaption", { class: "muted number" }, element("span", {}, `${trim(low)} to ${trim(high)}`), element("span", {}, `0 to ${format.count(value.length - 1)}`)),
  );
}

function curvePath(line, x, y) {
  let isOpen = false;
  const parts = [];
  for (const [at, value] of line) {
    if (value === null) isOpen = false;
    else {
      parts.push(`${isOpen ? "L" : "M"}${x(at).toFixed(2)} ${y(value).toFixed(2)}`);
      isOpen = true;
    }
  }
  return parts.join("");
}

function trim(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(4))) : "none";
}

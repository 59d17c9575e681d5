// A picture that can be zoomed and moved, with drawings over it that keep the width of their lines.
import { drawing, element } from "./tools.js";

const MOST = 64; // times its size
const STEP = 1.25;

/**
 * The stage of a picture: `box` is the element; `load`, `zoom`, `fit`, `actual` and `move` change what is seen.
 * `onzoom` is called with the scale, `onfail` when the browser cannot show the picture.
 */
export function makeStage({ label, onzoom, onfail }) {
  const image = element("img", { alt: "", draggable: "false", onerror: () => image.src && onfail?.() });
  const overlay = drawing("svg", { class: "overlay", "aria-hidden": "true", focusable: "false", preserveAspectRatio: "none" });
  const sheet = element("div", { class: "sheet" }, image, overlay);
  const box = element("div", { class: "stage", tabindex: "0", role: "group", "aria-label": label }, sheet);
  const at = { width: 1, height: 1, scale: 1, left: 0, top: 0, isFit: true };

  function least() {
    return Math.min(box.clientWidth / at.width, box.clientHeight / at.height) || 1;
  }

  function place() {
    const [w, h] = [at.width * at.scale, at.height * at.scale];
    // A side that is smaller than the stage stays in the middle, a larger one leaves no gap.
    const keep = (offset, side, room) => (side <= room ? (room - side) / 2 : Math.min(0, Math.max(room - side, offset)));
    at.left = keep(at.left, w, box.clientWidth);
    at.top = keep(at.top, h, box.clientHeight);
    for (const [name, value] of Object.entries({ width: w, height: h, left: at.left, top: at.top })) {
      sheet.style.setProperty(name, `${value}px`);
    }
    sheet.classList.toggle("enlarged", at.scale >= 2);
    box.classList.toggle("movable", w > box.clientWidth + 1 || h > box.clientHeight + 1);
    onzoom?.(at.scale);
  }

  function fit() {
    at.isFit = true;
    at.scale = Math.min(least(), Math.max(1, Math.min(16, 900 / Math.max(at.width, at.height))));
    place();
  }

  /** So many times larger, around a point of the stage, by default its middle. */
  function zoom(factor, x = box.clientWidth / 2, y = box.clientHeight / 2) {
    const scale = Math.min(MOST, Math.max(Math.min(least(), 1) / 2, at.scale * factor));
    at.left = x - ((x - at.left) * scale) / at.scale;
    at.top = y - ((y - at.top) * scale) / at.scale;
    [at.scale, at.isFit] = [scale, false];
    place();
  }

  function move(right, down) {
    at.left -= right;
    at.top -= down;
    at.isFit = false;
    place();
  }

  box.addEventListener("wheel", (event) => {
    event.preventDefault();
    const edge = box.getBoundingClientRect();
    zoom(STEP ** (-Math.sign(event.deltaY) * Math.min(3, Math.abs(event.deltaY) / 60)), event.clientX - edge.left, event.clientY - edge.top);
  }, { passive: false });
  box.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    box.setPointerCapture(event.pointerId);
    box.classList.add("held");
  });
  box.addEventListener("pointermove", (event) => box.classList.contains("held") && move(-event.movementX, -event.movementY));
  for (const name of ["pointerup", "pointercancel"]) box.addEventListener(name, () => box.classList.remove("held"));
  box.addEventListener("dblclick", () => (at.isFit ? zoom(1 / at.scale) : fit()));
  const watcher = new ResizeObserver(() => (at.isFit ? fit() : place()));
  watcher.observe(box);

  return {
    box,
    overlay,
    image,
    fit,
    zoom,
    move,
    actual: () => zoom(1 / at.scale),
    /** Show another picture of these sides; what is drawn over the last one goes away. */
    load(source, width, height, alt) {
      const isSame = at.width === width && at.height === height;
      Object.assign(at, { width: width || 1, height: height || 1 });
      image.alt = alt;
      image.src = source;
      overlay.setAttribute("viewBox", `0 0 ${at.width} ${at.height}`);
      overlay.replaceChildren();
      if (isSame && !at.isFit) place();
      else fit();
    },
    close: () => watcher.disconnect(),
  };
}

/** Lines for every so many columns and rows, as one path. */
export function gridPath(width, height, across, down) {
  const parts = [];
  for (let x = across; x < width; x += across) parts.push(`M${x} 0V${height}`);
  for (let y = down; y < height; y += down) parts.push(`M0 ${y}H${width}`);
  return parts.join("");
}

export const ZOOM_STEP = STEP;

// Work that runs on the server: a bar, how far it is, and asking again until it has ended.
import { element, format } from "./tools.js";

const AGAIN_MS = 200;
const ACTIVE = new Set(["waiting", "running", "stopping"]);

export const isActive = (facts) => ACTIVE.has(facts.state);

/** "0:07", "1:02:05" */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, String(whole % 60).padStart(2, "0")];
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

function words(facts, noun) {
  const { state, done, total, rate } = facts;
  const counts = total === null ? format.counted(done, noun) : `${format.count(done)} of ${format.counted(total, noun)}`;
  const parts = [counts];
  if (state === "waiting") return ["waits for its turn"];
  if (state === "stopping") parts.push("stopping…");
  if (rate > 0 && done) parts.push(`${format.count(Math.round(rate))}/s`);
  if (facts.size_bytes) parts.push(format.bytes(facts.size_bytes));
  if (facts.left_s !== null) parts.push(`${duration(facts.left_s)} left`);
  if (!isActive(facts)) parts.push(`in ${duration(facts.elapsed_s)}`);
  return parts;
}

/** A bar with numbers beside it; `update(facts)` moves it. */
export function progressBox(label, noun) {
  const fill = element("div", { class: "fill" });
  const bar = element("div", { class: "track", role: "progressbar", "aria-label": label, "aria-valuemin": "0", "aria-valuemax": "100" }, fill);
  const text = element("p", { class: "numbers number" });
  const box = element("div", { class: "progress", hidden: true }, bar, text);
  function update(facts) {
    box.hidden = facts.state === "idle";
    box.dataset.state = facts.state;
    const share = facts.state === "done" ? 1 : facts.total ? Math.min(1, facts.done / facts.total) : null;
    bar.classList.toggle("unknown", share === null && isActive(facts));
    fill.style.setProperty("width", `${(share ?? 0) * 100}%`);
    if (share === null) bar.removeAttribute("aria-valuenow");
    else bar.setAttribute("aria-valuenow", String(Math.round(share * 100)));
    const parts = words(facts, noun);
    bar.setAttribute("aria-valuetext", parts.join(", "));
    text.replaceChildren(...parts.map((part) => element("span", {}, part)));
  }
  return { box, update };
}

/** What `ask` gives as soon as it is no longer in work; `told` is called with how far it is. */
export async function untilReady(ask, { signal, told = () => {} } = {}) {
  for (;;) {
    const found = await ask();
    if (found.state !== "working") return found;
    told(found);
    await new Promise((done) => setTimeout(done, AGAIN_MS));
    signal?.throwIfAborted();
  }
}

/** Call `ask` until the page is left; it gives the milliseconds until the next time, or null to end. */
export function poll(ask, failed) {
  let timer = null;
  let isOver = false;
  async function turn() {
    try {
      const pause = await ask();
      if (!isOver && pause !== null) timer = setTimeout(turn, pause);
    } catch (error) {
      if (!isOver && error.name !== "AbortError") failed(error);
    }
  }
  return {
    start() {
      clearTimeout(timer);
      return turn();
    },
    end() {
      isOver = true;
      clearTimeout(timer);
    },
  };
}

// What the compare pages say about a state and about numbers.

const CHIPS = {
  same: ["good", "same"],
  differs: ["warn", "differs"],
  damaged: ["bad", "damaged"],
  only_first: ["", "only in A"],
  only_second: ["", "only in B"],
  pending: ["", "…"],
};

export function stateChip(state, tools) {
  const [kind, words] = CHIPS[state] ?? ["", state];
  return tools.element("span", { class: `chip ${kind}` }, words);
}

/** PSNR in words; it has no end where nothing differs. */
export const decibels = (value) => (value === null ? "∞" : `${value.toFixed(1)} dB`);

/** Differing pixels as a share that is never 0 where there are some. */
export const share = (pixels, format) => (pixels.share < 0.0001 ? `${format.counted(pixels.differing, "pixel")}` : format.percent(pixels.share));

/** A line for each field that differs. */
export function notes(fields, tools) {
  return fields.map((field) => {
    const { pixels } = field;
    const words = pixels
      ? `by up to ${pixels.max_difference} levels, PSNR ${decibels(pixels.psnr_db)}, ${share(pixels, tools.format)} of the pixels`.replace("pixels of the pixels", "pixels").replace("pixel of the pixels", "pixel")
      : field.note || (field.texts ? `${short(field.texts[0].middle)} → ${short(field.texts[1].middle)}` : field.state);
    return tools.element("li", {}, tools.element("strong", { class: "from-file" }, field.title), `: ${words}`);
  });
}

const short = (text) => (text.length > 40 ? `${text.slice(0, 40)}…` : text || "(nothing)");

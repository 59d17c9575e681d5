// The controls above the grid.

const SORTS = { index: "Order of the file", name: "Name", class: "Class", bytes: "Bytes", width: "Width", height: "Height" };
const RANGES = { bytes: "Bytes", width: "Width", height: "Height" };

/** Controls that show `state`, and call `changed` with a new one. */
export function filters(about, state, { element }, changed) {
  const now = { ...state };
  let later = null;

  function set(values, wait = 0) {
    for (const [key, value] of Object.entries(values)) {
      if (value) now[key] = value;
      else delete now[key];
    }
    delete now.at;
    clearTimeout(later);
    later = setTimeout(() => changed({ ...now }), wait);
  }

  const name = element("input", {
    type: "search", placeholder: about.has_names ? "Name" : "Samples have no names", "aria-label": "Name has", value: now.name ?? "", disabled: !about.has_names,
    spellcheck: "false", autocomplete: "off", maxlength: "500", oninput: () => set({ name: name.value }, 250),
  });
  const regex = element("button", {
    type: "button", class: "regex", "aria-pressed": String(now.regex === "1"), disabled: !about.has_names, title: "The name is a regular expression", "aria-label": "Regular expression",
    onclick: () => {
      const isOn = regex.getAttribute("aria-pressed") !== "true";
      regex.setAttribute("aria-pressed", String(isOn));
      set({ regex: isOn ? "1" : "" });
    },
  }, ".*");

  return {
    element: element(
      "form",
      { class: "filters", role: "search", "aria-label": "Filter", onsubmit: (event) => event.preventDefault() },
      element("span", { class: "joined" }, name, regex),
      about.by ? classes(about, now, set, element) : null,
      about.sized ? ranges(about, now, set, element) : null,
      element("button", {
        type: "button", "aria-pressed": String(now.damaged === "1"), title: "Only samples that are known to be damaged",
        onclick: (event) => {
          const isOn = event.currentTarget.getAttribute("aria-pressed") !== "true";
          event.currentTarget.setAttribute("aria-pressed", String(isOn));
          set({ damaged: isOn ? "1" : "" });
        },
      }, "Damaged"),
      element("span", { class: "stretch" }),
      sorts(about, now, set, element),
      about.pictures.length > 1 ? pictures(about, now, set, element) : null,
      about.pictures.length ? sizes(now, set, element) : null,
    ),
    focus: () => name.focus(),
  };
}

function classes(about, now, set, element) {
  if (about.class_names.length && about.class_names.length <= 2000) {
    const options = about.class_names.map((name, number) => element("option", { value: String(number) }, name));
    const made = element("select", { "aria-label": "Class", onchange: () => set({ class: made.value }) }, element("option", { value: "" }, "All classes"), ...options);
    made.value = now.class ?? "";
    return made;
  }
  const made = element("input", {
    type: "number", class: "short", placeholder: "Class", "aria-label": `Class, a number of the field ${about.by}`, value: now.class ?? "",
    oninput: () => set({ class: made.value }, 250),
  });
  return made;
}

function ranges(about, now, set, element) {
  const shown = Object.keys(RANGES).filter((what) => what === "bytes" || about.has_sides);
  const isSet = () => shown.some((what) => now[what]);
  const summary = element("summary", {}, "Size");
  const mark = () => summary.classList.toggle("on", isSet());
  const rows = shown.map((what) => {
    const [low, high] = (now[what] ?? ":").split(":");
    const change = () => {
      set({ [what]: least.value || most.value ? `${least.value}:${most.value}` : "" }, 300);
      mark();
    };
    const field = (word, value) => element("input", { type: "number", min: "0", placeholder: word, "aria-label": `${RANGES[what]}, ${word}`, value: value ?? "", oninput: change, "data-range": `${what}-${word}` });
    const [least, most] = [field("least", low), field("most", high)];
    return element("div", { class: "range" }, element("span", {}, RANGES[what]), least, "to", most);
  });
  mark();
  const made = element("details", { class: "menu" }, summary, element("div", { class: "menu-body" }, ...rows));
  made.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    made.open = false;
    summary.focus();
  });
  made.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !made.contains(event.relatedTarget)) made.open = false;
  });
  return made;
}

function sorts(about, now, set, element) {
  const can = { index: true, name: about.has_names, class: about.by, bytes: about.sized, width: about.has_sides, height: about.has_sides };
  const key = (now.sort ?? "index").replace(/^-/, "");
  const made = element("select", { "aria-label": "Sort by", onchange: () => change() }, ...Object.keys(SORTS).filter((one) => can[one]).map((one) => element("option", { value: one }, SORTS[one])));
  made.value = key;
  const down = element("button", {
    type: "button", class: "direction", "aria-pressed": String((now.sort ?? "").startsWith("-")), "aria-label": "Largest first", title: "Largest first",
    onclick: () => {
      down.setAttribute("aria-pressed", String(down.getAttribute("aria-pressed") !== "true"));
      change();
    },
  }, "↓");
  function change() {
    const sort = (down.getAttribute("aria-pressed") === "true" ? "-" : "") + made.value;
    set({ sort: sort === "index" ? "" : sort });
  }
  return element("span", { class: "joined" }, made, down);
}

function pictures(about, now, set, element) {
  const options = about.pictures.map((name) => element("option", { value: name }, name));
  const made = element("select", { "aria-label": "Field of pictures", onchange: () => set({ field: made.value === about.pictures[0] ? "" : made.value }) }, ...options);
  made.value = now.field ?? about.pictures[0];
  return made;
}

function sizes(now, set, element) {
  const words = { s: "Small", m: "Medium", l: "Large" };
  const made = element("select", { "aria-label": "Size of thumbnails", onchange: () => set({ side: made.value === "m" ? "" : made.value }) }, ...Object.entries(words).map(([value, word]) => element("option", { value }, word)));
  made.value = now.side ?? "m";
  return made;
}

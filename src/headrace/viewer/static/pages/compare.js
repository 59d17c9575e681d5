// Two datasets side by side: a list of pairs, and one pair in full (compare_pair.js).
import { isActive, poll, progressBox } from "../progress.js";
import { showPair } from "../compare_pair.js";
import { notes, stateChip } from "../compare_words.js";

export const title = "Compare";
export const keys = [
  ["← and →", "previous and next page, or pair"],
  ["d", "only what differs, or all"],
  ["Esc", "back to the list"],
  ["m", "difference or marks"],
  ["+ and -", "zoom"],
];

const ROWS = 24;
const QUICK_MS = 400;
const SHOWS = { all: "All", differing: "Differing", only_first: "Only in A", only_second: "Only in B" };
const WAYS = { "": "names, if there are any", name: "name", stem: "name without its ending", number: "number" };

export async function show(main, params, tools) {
  const all = await tools.datasets();
  if (all.length < 2) {
    const command = tools.element("code", {}, "headrace view OLD NEW");
    main.append(tools.element("div", { class: "check-page" }, tools.element("h1", {}, "Compare"), tools.element("div", { class: "card empty" }, "There is one dataset, and it takes two: ", command)));
    return undefined;
  }
  const a = await tools.dataset(new URLSearchParams({ d: params.get("a") ?? params.get("d") ?? 0 }));
  const b = await tools.dataset(new URLSearchParams({ d: params.get("b") ?? (a.number === 0 ? 1 : 0) }));
  const state = {
    a: a.number,
    b: b.number,
    by: params.get("by") in WAYS ? params.get("by") : "",
    show: params.get("show") in SHOWS ? params.get("show") : "all",
  };
  if (params.get("row") !== null) return showPair(main, params, tools, { ...state, all });
  return showList(main, params, tools, { ...state, all });
}

function chooser(tools, label, side, value, all, change) {
  const options = all.map((one) => tools.element("option", { value: String(one.number), title: one.path, selected: one.number === value }, one.title));
  const select = tools.element("select", { onchange: (event) => change(Number(event.target.value)) }, ...options);
  return tools.element("label", {}, tools.element("span", {}, tools.element("span", { class: `side-${side}`, "aria-hidden": "true" }, side.toUpperCase()), ` ${label}`), select);
}

async function showList(main, params, tools, { a, b, by, show, all }) {
  const { element, format } = tools;
  let at = Math.max(0, Number(params.get("at")) || 0);
  let facts = null;
  let shownKey = "";
  const ended = new AbortController();
  const place = (more = {}) => ({ a, b, by, show: show === "all" ? null : show, at: at || null, ...more });
  const go = (more) => tools.go("compare", place({ at: null, ...more }));

  const ways = element("select", { onchange: (event) => go({ by: event.target.value }) }, ...Object.entries(WAYS).map(([key, words]) => element("option", { value: key, selected: key === by }, words)));
  const choices = element("div", { class: "choices", role: "group", "aria-label": "Which samples" });
  const pairing = progressBox("Names read", "name");
  const search = progressBox("Samples compared", "sample");
  const again = element("button", { type: "button", onclick: () => post("search") }, "Search again");
  const stop = element("button", { type: "button", onclick: () => post("stop") }, "Stop");
  const searchBox = element("div", { class: "search", hidden: true }, search.box, element("div", { class: "controls turner" }, again, stop));
  const words = element("p", { class: "muted", role: "status" });
  const list = element("ul", { class: "pairs", "aria-label": "Samples" });
  const turner = element("div", { class: "turner" });
  const trouble = element("div", {});
  main.append(
    element(
      "div",
      { class: "check-page" },
      element("h1", {}, "Compare"),
      element(
        "section",
        { class: "card", "aria-label": "What is compared" },
        element(
          "div",
          { class: "sides" },
          chooser(tools, "before", "a", a, all, (value) => go({ a: value })),
          element("button", { type: "button", class: "icon", title: "Exchange A and B", "aria-label": "Exchange A and B", onclick: () => go({ a: b, b: a, show: null }) }, "⇄"),
          chooser(tools, "after", "b", b, all, (value) => go({ b: value })),
          element("label", {}, "paired by", ways),
        ),
        pairing.box,
      ),
      element("div", { class: "controls" }, choices, words),
      searchBox,
      trouble,
      list,
      turner,
    ),
  );

  function fail(error) {
    trouble.replaceChildren(tools.problem(error));
  }

  async function post(what) {
    try {
      await tools.post(`api/compare/${what}`, { a, b, by });
      await asking.start();
    } catch (error) {
      fail(error);
    }
  }

  function showChoices() {
    const counts = { all: facts.rows, differing: facts.search.state === "idle" ? null : facts.search.found, only_first: facts.only_first, only_second: facts.only_second };
    const buttons = Object.entries(SHOWS).map(([key, word]) => {
      const isOpen = key === "differing" && (isActive(facts.search) || ["stopped", "failed"].includes(facts.search.state));
      const count = counts[key] === null || counts[key] === undefined ? "" : format.count(counts[key]) + (isOpen ? "+" : "");
      return element("button", { type: "button", "aria-pressed": String(key === show), "data-show": key, onclick: () => go({ show: key === "all" ? null : key }) }, word, count && element("span", { class: "number" }, count));
    });
    const focused = choices.contains(document.activeElement) ? document.activeElement.dataset.show : null;
    choices.replaceChildren(...buttons);
    if (focused) choices.querySelector(`[data-show=${focused}]`).focus();
  }

  function showWords() {
    const by_what = { name: "by name", stem: "by name without its ending", number: "by number" }[facts.by];
    const parts = [`${format.counted(facts.pairs, "pair")} ${by_what}`];
    const found = Object.entries(facts.search.by_field ?? {});
    if (found.length) parts.push(`differing so far: ${found.map(([name, count]) => `${name} in ${format.count(count)}`).join(", ")}`.replace(" so far", isActive(facts.search) ? " so far" : ""));
    const alone = facts.fields.filter((field) => field.first === null || field.second === null);
    if (alone.length) parts.push(`fields of one side: ${alone.map((field) => `${field.title} (${field.first === null ? "B" : "A"})`).join(", ")}`);
    const text = parts.join(" · ");
    if (words.textContent !== text) words.textContent = text;
  }

  function tile(side, row, number) {
    const isHere = side === "a" ? row.first !== null : row.second !== null;
    const box = element("div", { class: "tile" }, element("span", { class: `side-${side}`, "aria-hidden": "true" }, side.toUpperCase()));
    if (!isHere) box.append(element("span", { class: "why" }, "not here"));
    else picture(box, { what: side === "a" ? "first" : "second", row: row.row, field: number, side: 256 });
    return box;
  }

  function picture(box, wanted) {
    const image = element("img", { src: tools.url("picture/compare", { a, b, by, ...wanted }), alt: "", loading: "lazy", decoding: "async" });
    image.addEventListener("error", () => {
      image.remove();
      box.classList.add("bad");
      box.append(element("span", { class: "why" }, "cannot be shown"));
    });
    box.append(image);
  }

  function trio(row) {
    const number = facts.pictures[0];
    if (number === undefined) return null;
    const third = element("div", { class: "tile" });
    const field = (row.fields ?? []).find((one) => one.title === facts.fields[number].title);
    if (row.state === "pending") third.append(element("span", { class: "why" }, "…"));
    else if (!field) third.append(element("span", { class: "why" }, row.first === null || row.second === null ? "" : "same picture"));
    else if (field.state === "damaged") {
      third.classList.add("bad");
      third.append(element("span", { class: "why" }, "damaged"));
    } else if (field.pixels) picture(third, { what: "difference", row: row.row, field: number, side: 256 });
    else third.append(element("span", { class: "why" }, "other picture"));
    return element("div", { class: "trio" }, tile("a", row, number), tile("b", row, number), third);
  }

  function pairItem(row) {
    const name = row.first_name ?? row.second_name ?? `sample ${format.count(row.first ?? row.second)}`;
    const href = tools.link("compare", place({ row: row.row }));
    const said = notes(row.fields ?? [], tools);
    return element(
      "li",
      { "data-row": String(row.row) },
      element(
        "a",
        { class: "pair card", href },
        element("div", { class: "head" }, element("span", { class: "title from-file" }, name), stateChip(row.state, tools)),
        trio(row),
        said.length ? element("ul", { class: "notes" }, ...said) : null,
      ),
    );
  }

  async function fillPending(rows) {
    for (const row of rows.filter((one) => one.state === "pending")) {
      const full = await tools.get("api/compare/row", { a, b, by, row: row.row }, { signal: ended.signal });
      const item = list.querySelector(`[data-row="${row.row}"]`);
      item?.replaceWith(pairItem({ ...full, fields: (full.fields ?? []).filter((field) => !["same", "only_first", "only_second"].includes(field.state)) }));
    }
  }

  function showRows(found) {
    const key = JSON.stringify([found.rows.map((row) => row.row), at]);
    if (key !== shownKey) {
      const focused = list.contains(document.activeElement) ? document.activeElement.closest("li").dataset.row : null;
      list.replaceChildren(...found.rows.map(pairItem));
      if (focused) list.querySelector(`[data-row="${focused}"] a`)?.focus();
      fillPending(found.rows).catch((error) => error.name === "AbortError" || fail(error));
    }
    shownKey = key;
    const last = Math.min(found.total, at + ROWS);
    const none = show === "differing" ? (isActive(facts.search) ? "Nothing that differs was found yet." : facts.search.state === "done" ? "Nothing differs." : "") : "There are no such samples.";
    turner.replaceChildren(
      ...(found.total
        ? [
            element("button", { type: "button", disabled: at === 0, onclick: () => turn(-1) }, "Previous"),
            element("span", { class: "number muted" }, `${format.count(Math.min(at + 1, last))} to ${format.count(last)} of ${format.count(found.total)}`),
            element("button", { type: "button", disabled: last >= found.total, onclick: () => turn(1) }, "Next"),
          ]
        : [element("p", { class: "empty" }, none)]),
    );
  }

  function turn(step) {
    const total = facts?.list?.total ?? 0;
    const next = at + step * ROWS;
    if (next < 0 || next >= total) return;
    tools.go("compare", place({ at: next || null }));
  }

  let isAsked = false;
  async function ask() {
    facts = await tools.get("api/compare", { a, b, by, show, at, limit: ROWS }, { signal: ended.signal });
    pairing.update(facts.pairing.state === "done" ? { ...facts.pairing, state: "idle" } : facts.pairing);
    if (facts.pairing.state === "failed") throw new Error(facts.pairing.error);
    if (!facts.list) return QUICK_MS;
    if (show === "differing" && facts.search.state === "idle" && !isAsked) {
      isAsked = true;
      await tools.post("api/compare/search", { a, b, by });
      return 0;
    }
    trouble.replaceChildren();
    searchBox.hidden = show !== "differing";
    search.update(facts.search);
    again.hidden = isActive(facts.search);
    stop.hidden = !isActive(facts.search);
    stop.disabled = facts.search.state === "stopping";
    showChoices();
    showWords();
    showRows(facts.list);
    if (facts.search.state === "failed" && show === "differing") fail(new Error(facts.search.error));
    return isActive(facts.search) ? QUICK_MS : null;
  }

  const asking = poll(ask, fail);
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
    if (event.key === "ArrowRight") turn(1);
    if (event.key === "ArrowLeft") turn(-1);
    if (event.key === "d") go({ show: show === "differing" ? null : "differing" });
  }
  document.addEventListener("keydown", onKey);
  await asking.start();
  return () => {
    asking.end();
    ended.abort();
    document.removeEventListener("keydown", onKey);
  };
}

// A check of a whole dataset, which runs on the server: this page begins it, stops it and shows what it finds.
import { isActive, poll, progressBox } from "../progress.js";

export const title = "Verify";
export const keys = [
  ["v", "begin the check"],
  ["s", "stop it"],
];

const LISTED = 50;
const QUICK_MS = 400;

export async function show(main, params, tools) {
  const { element, format } = tools;
  const about = await tools.dataset(params);
  let at = Math.max(0, Number(params.get("at")) || 0);
  let told = null; // what was announced last
  let facts = null;

  const decode = element("input", { type: "checkbox", id: "decode" });
  const begin = element("button", { type: "button", class: "primary", onclick: () => start() }, "Verify");
  const end = element("button", { type: "button", onclick: () => stop() }, "Stop");
  const progress = progressBox("Samples checked", "sample");
  const verdict = element("div", { class: "verdict", role: "status" });
  const found = element("section", { class: "card", "aria-labelledby": "found-title", hidden: true });
  const what = element("p", { class: "muted" });
  main.append(
    element(
      "div",
      { class: "check-page" },
      element("h1", {}, "Verify ", element("span", { class: "from-file" }, about.title)),
      what,
      element(
        "section",
        { class: "card", "aria-label": "Check" },
        element("div", { class: "controls" }, begin, end, element("label", { class: "tick", for: "decode" }, decode, "Also decode every value")),
        progress.box,
        verdict,
      ),
      found,
    ),
  );

  function sayWhat() {
    what.textContent = facts.has_checksums
      ? "The structure of the file and the checksum of every value are compared."
      : "There are no checksums in this dataset: structure and readability are checked, and pictures only where they are decoded.";
  }

  function showVerdict() {
    const { state, problems, damaged } = facts;
    const chips = [];
    if (state === "failed") chips.push(element("span", { class: "chip bad" }, "The check failed: "), element("span", { class: "from-file" }, facts.error));
    if (problems) {
      chips.push(element("span", { class: "chip bad" }, format.counted(problems, "problem")));
      chips.push(element("span", {}, `in ${format.counted(damaged, "damaged sample")}`));
      if (damaged) chips.push(element("a", { href: tools.link("grid", { d: about.number, damaged: 1 }) }, "show them in the grid"));
    } else if (state === "done") chips.push(element("span", { class: "chip good" }, "Nothing is wrong"));
    else if (state === "stopped") chips.push(element("span", { class: "chip warn" }, "Stopped before the end"), element("span", {}, "nothing was wrong until then"));
    else if (isActive(facts)) chips.push(element("span", { class: "muted" }, "nothing wrong so far"));
    if (state === "done") {
      const counts = [];
      if (facts.checksums_checked) counts.push(format.counted(facts.checksums_checked, "checksum"));
      if (facts.images_decoded) counts.push(format.counted(facts.images_decoded, "picture") + " decoded");
      if (counts.length) chips.push(element("span", { class: "muted" }, counts.join(", ")));
    }
    verdict.replaceChildren(...chips);
  }

  function problemRow(one) {
    const where = one.sample === null
      ? "the file"
      : element("a", { href: tools.link("sample", { d: about.number, i: one.sample }) }, `sample ${format.count(one.sample)}`);
    return element(
      "tr",
      {},
      element("td", { class: "where" }, where),
      element("td", { class: "from-file name" }, one.name ?? ""),
      element("td", { class: "from-file" }, one.field ?? ""),
      element("td", { class: "from-file message" }, one.message),
    );
  }

  function turn(step) {
    at = Math.max(0, at + step);
    tools.keep("verify", { d: about.number, at: at || null });
    asking.start();
  }

  function showFound(list) {
    found.hidden = !list.total;
    if (!list.total) return;
    const first = Math.min(at, Math.max(0, list.kept - 1));
    const last = Math.min(list.kept, at + LISTED);
    const head = ["Where", "Name", "Field", "What is wrong"].map((word) => element("th", { scope: "col" }, word));
    const more = list.total - list.kept;
    found.replaceChildren(
      element("h2", { id: "found-title" }, "What is wrong"),
      element("div", { class: "wide" }, element("table", { class: "plain problems" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...list.problems.map(problemRow)))),
      element(
        "div",
        { class: "turner" },
        element("button", { type: "button", disabled: at === 0, onclick: () => turn(-LISTED) }, "Previous"),
        element("span", { class: "number muted" }, `${format.count(first + 1)} to ${format.count(last)} of ${format.count(list.kept)}${more ? `, and ${format.count(more)} that are only counted` : ""}`),
        element("button", { type: "button", disabled: last >= list.kept, onclick: () => turn(LISTED) }, "Next"),
      ),
    );
  }

  function sayState() {
    const now = `${facts.state} ${isActive(facts) ? "" : facts.problems}`;
    if (told !== null && told !== now) {
      if (facts.state === "done") tools.announce(facts.problems ? `The check has ended: ${format.counted(facts.problems, "problem")}` : "The check has ended: nothing is wrong");
      if (facts.state === "stopped") tools.announce("The check was stopped");
      if (facts.state === "failed") tools.announce("The check failed");
      if (facts.state === "running") tools.announce("The check runs");
    }
    told = now;
  }

  let shownKey = "";
  async function ask() {
    facts = await tools.get("api/verify", { d: about.number, at, limit: LISTED });
    sayWhat();
    begin.disabled = decode.disabled = isActive(facts);
    begin.textContent = facts.state === "idle" || isActive(facts) ? "Verify" : "Verify again";
    end.disabled = !isActive(facts) || facts.state === "stopping";
    if (isActive(facts)) decode.checked = facts.decode;
    progress.update(facts);
    showVerdict();
    const key = JSON.stringify(facts.list) + at;
    if (key !== shownKey) showFound(facts.list); // what is focused or selected stays
    shownKey = key;
    sayState();
    return isActive(facts) ? QUICK_MS : null;
  }

  const asking = poll(ask, (error) => verdict.replaceChildren(tools.problem(error)));
  async function start() {
    at = 0;
    tools.keep("verify", { d: about.number });
    try {
      await tools.post("api/verify/start", { d: about.number, decode: decode.checked });
      await asking.start();
    } catch (error) {
      verdict.replaceChildren(tools.problem(error));
    }
  }
  async function stop() {
    await tools.post("api/verify/stop", { d: about.number });
    await asking.start();
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
    if (event.key === "v" && !begin.disabled) start();
    if (event.key === "s" && !end.disabled) stop();
  }
  document.addEventListener("keydown", onKey);
  await asking.start();
  decode.checked = facts?.decode ?? false;
  return () => {
    asking.end();
    document.removeEventListener("keydown", onKey);
  };
}

// Thumbnails in packs: one request for several, and an error of one of them is no error of the others.
import { url } from "./tools.js";

const KEPT = 1200; // of which the pictures stay
const kept = new Map(); // in the order in which they were used

function keyOf(d, i, field, side) {
  return `${d}/${i}/${side}/${field ?? ""}`;
}

/** What is known already, without asking. */
export function known(d, i, field, side) {
  return kept.get(keyOf(d, i, field, side)) ?? null;
}

function keep(key, value) {
  kept.delete(key);
  kept.set(key, value);
  for (const [old, one] of kept) {
    if (kept.size <= KEPT) break;
    if (one.url) URL.revokeObjectURL(one.url);
    kept.delete(old);
  }
}

/**
 * Thumbnails of samples: calls `got(i, {url, width, height} or {error, isDamaged})` for each.
 * Those that are known already come at once.
 */
export async function load(d, indices, { field = null, side = 192, signal } = {}, got) {
  const missing = [];
  for (const i of indices) {
    const found = known(d, i, field, side);
    if (found) {
      keep(keyOf(d, i, field, side), found);
      got(i, found);
    } else missing.push(i);
  }
  if (!missing.length) return;
  const response = await fetch(url("picture/thumbnails", { d, i: missing.join(","), field, side }), { signal });
  if (!response.ok) {
    const error = (await response.json().catch(() => null))?.error ?? `the server answered ${response.status}`;
    for (const i of missing) got(i, { error });
    return;
  }
  const pack = await response.arrayBuffer();
  const size = new DataView(pack).getUint32(0, true);
  const about = JSON.parse(new TextDecoder().decode(new Uint8Array(pack, 4, size)));
  let at = 4 + size;
  for (const one of about) {
    let found = { error: one.error, isDamaged: one.is_damaged };
    if (one.error === undefined) {
      const blob = new Blob([new Uint8Array(pack, at, one.size)], { type: one.type });
      at += one.size;
      found = { url: URL.createObjectURL(blob), width: one.width, height: one.height };
    }
    keep(keyOf(d, one.i, field, side), found);
    got(one.i, found);
  }
}

// The example in the address: direction, K, quality, text and what was forced, so that a link brings it back.

/** Read an example from the part of the address behind '#'; nothing where there is none. */
export function readLink(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  if (!fields.has("q")) return null;
  return {
    source: fields.get("from") ?? "",
    target: fields.get("to") ?? "",
    segments: Number.parseInt(fields.get("k") ?? "", 10) || 0,
    quality: fields.get("quality") ?? "",
    text: fields.get("q"),
    forced: fields.getAll("force").map(readForced).filter(Boolean),
  };
}

/** Write an example as the part of an address behind '#'. */
export function writeLink({ source, target, segments, quality, text, forced }) {
  const fields = new URLSearchParams({ from: source, to: target, k: segments, ...(quality && { quality }), q: text });
  for (const f of forced) fields.append("force", `${f.sentence}.${f.segment}.${f.position}.${f.token}`);
  return `#${fields}`;
}

function readForced(text) {
  const match = text.match(/^(\d+)\.(\d+)\.(\d+)\.(.+)$/s);
  return match && { sentence: +match[1], segment: +match[2], position: +match[3], token: match[4] };
}

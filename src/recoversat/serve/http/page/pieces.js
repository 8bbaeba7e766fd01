// How pieces of words are shown: SentencePiece marks the beginning of a word, '@@' that it goes on.

const NAMES = { "</s>": "EOS", "<del>": "DEL" };

/** Say how a trace marks words: pieces of SentencePiece begin with a visible space somewhere. */
export function usesVisibleSpaces(trace) {
  return trace.some((sentence) =>
    sentence.segments.some((segment) => segment.tokens.some((token) => token.piece.startsWith("\u2581"))));
}

/** Give the text of a piece, and whether it is joined to what stands before or after it. */
export function shown(piece, visibleSpaces) {
  if (piece in NAMES) return { text: NAMES[piece], before: false, after: false };
  if (piece.endsWith("@@")) return { text: piece.slice(0, -2), before: false, after: true };
  const word = piece.replaceAll("\u2581", " ").trim();
  return { text: word || "␣", before: visibleSpaces && !piece.startsWith("\u2581"), after: false };
}

/** Write a piece with marks where it is joined to others. */
export function label(piece, visibleSpaces) {
  const { text, before, after } = shown(piece, visibleSpaces);
  return `${before ? "·" : ""}${text}${after ? "·" : ""}`;
}

/** Write a probability for people. */
export function percent(probability) {
  if (probability > 0 && probability < 0.01) return "< 1 %";
  return `${Math.round(100 * probability)} %`;
}

/** Put the pieces of a segment together; white space at its start is kept, it parts words from each other. */
export function assemble(pieces, visibleSpaces) {
  const words = pieces.filter((piece) => !(piece in NAMES));
  if (visibleSpaces) return words.join("").replaceAll("\u2581", " ");
  return words.length ? ` ${words.join(" ")} `.replaceAll("@@ ", "") : "";
}

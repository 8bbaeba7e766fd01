// Words of the user's own, and words the model doubts.

/** Read a glossary: a term a line, its translation behind a tab or "="; nothing where there is none. */
export function readGlossary(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter((line) => line && !line.startsWith("#"));
  const terms = lines.map((line) => line.match(/^(.+?)\s*(?:\t|=)\s*(.*)$/)?.slice(1) ?? [line, ""]);
  return terms.length ? Object.fromEntries(terms) : null;
}

/** Write a translation with the words marked that its sentences doubt. */
export function marked(text, sentences) {
  const nodes = [];
  let done = 0;
  let from = 0;
  for (const sentence of sentences) {
    const at = text.indexOf(sentence.text, from);
    if (at < 0 || !sentence.text) continue; // put together in another way, as HTML is
    from = at + sentence.text.length;
    const letters = [...sentence.text]; // the server counts characters, this language halves of some
    for (const [start, end] of sentence.doubtful) {
      const begin = at + letters.slice(0, start).join("").length;
      const word = letters.slice(start, end).join("");
      const mark = document.createElement("mark");
      mark.className = "doubtful";
      mark.textContent = word;
      nodes.push(text.slice(done, begin), mark);
      done = begin + word.length;
    }
  }
  return [...nodes, text.slice(done)];
}

// Draft and verify: what K segments have drafted, and what K = 1 has accepted and corrected of it.

import { fetchJson } from "./api.js";
import { label, usesVisibleSpaces } from "./pieces.js";

const find = (id) => document.getElementById(id);

export class Exact {
  /** Ask when somebody opens the box, not before: it takes a translation more. */
  constructor(report) {
    this.report = report;
    this.question = null;
    this.taken = ""; // the quality whose answer is shown
    find("exact").addEventListener("toggle", () => this.show());
  }

  /** Take up another text, drafted in K segments; null where there is nothing to verify. */
  load(question, segments) {
    this.question = question && { ...question, trace: 0, quality: "exact", segments };
    if (this.taken) find("exact").open = false; // nobody has opened it to ask for more
    this.taken = "";
    find("exact-name").textContent = "Exact";
    find("exact").hidden = !this.question;
    this.show();
  }

  /** Show what was verified because the dial stands so; whoever closes the box finds it closed as long as it does. */
  take(sentences, name) {
    this.question = null;
    find("exact-name").textContent = name;
    find("exact").hidden = false;
    if (this.taken !== name) find("exact").open = true;
    this.taken = name;
    this.draw(sentences);
  }

  async show() {
    const question = this.question;
    if (!question || !find("exact").open) return;
    try {
      const answer = await fetchJson("translate", question);
      if (question === this.question) this.draw(answer.trace);
    } catch (error) {
      this.report(error);
    }
  }

  draw(sentences) {
    const spaces = usesVisibleSpaces(sentences);
    const drafted = sentences.filter((sentence) => sentence.draft);
    const flags = drafted.flatMap((sentence) => sentence.draft.accepted);
    const accepted = flags.filter(Boolean).length;
    const steps = sentences.reduce((sum, sentence) => sum + sentence.steps, 0);
    find("exact-figures").textContent = drafted.length
      ? `${accepted} of ${flags.length} tokens accepted, ${flags.length - accepted} corrected, ${steps} calls of the model`
      : `So short a text is not drafted: ${steps} calls of the model`;
    find("draft").replaceChildren(...drafted.flatMap((sentence) => sentence.draft.pieces.map((piece) => chip(label(piece, spaces), ""))));
    find("verified").replaceChildren(...sentences.flatMap((sentence) => sentence.segments[0].tokens.map((token, at) =>
      chip(label(token.piece, spaces), !sentence.draft ? "" : sentence.draft.accepted[at] ? "accepted" : "corrected"))));
  }
}

function chip(text, kind) {
  const box = document.createElement("span");
  box.className = `chip ${kind}`;
  box.textContent = text;
  if (kind) box.title = kind;
  return box;
}

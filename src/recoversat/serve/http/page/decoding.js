// The lower half of the page: both ways of decoding, the replay, and what is forced.

import { Choices } from "./choices.js";
import { Grid } from "./grid.js";
import { assemble, label, usesVisibleSpaces } from "./pieces.js";
import { Player } from "./player.js";

const find = (id) => document.getElementById(id);
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

export class Decoding {
  /** `onForce(list)` is called when the list of forced tokens changes. */
  constructor(onForce) {
    this.onForce = onForce;
    this.choices = new Choices(find("choices"));
    this.many = new Grid(find("many"), (segment, position, button) => this.choose(segment, position, button));
    this.one = new Grid(find("one"), () => {});
    const names = ["play", "restart", "back", "forward", "position", "speed", "counter"];
    this.player = new Player(Object.fromEntries(names.map((name) => [name, find(name)])), (step, say) => this.show(step, say));
    this.sentence = 0;
    this.forced = [];
  }

  /** Take up a translation by segments, or a draft; after forcing, replay from where it was forced. */
  load(answer, forced, adapting, isDraft) {
    find("many-title").textContent = isDraft ? "The draft: all segments at once" : "All segments at once";
    const before = adapting ? this.trace : null;
    this.trace = answer.trace;
    this.details = answer.details;
    this.other = null;
    this.forced = forced;
    this.sentence = adapting ? Math.min(this.sentence, this.trace.length - 1) : 0;
    this.visibleSpaces = usesVisibleSpaces(this.trace);
    find("decoding").hidden = this.trace.length === 0;
    if (!this.trace.length) return;
    this.drawSentences();
    this.drawForced();
    this.draw(before?.[this.sentence], adapting ? Math.min(...forced.map((f) => f.position), Infinity) : 0);
  }

  /** Put autoregressive decoding of the same text beside it. */
  compare(answer) {
    this.other = answer;
    this.drawOther();
    this.player.extend(this.steps());
  }

  /** Say why there is nothing to compare with. */
  compareNothing(...nodes) {
    this.one.tell(...nodes);
    find("one-figures").textContent = "";
  }

  draw(before, from) {
    const sentence = this.trace[this.sentence];
    this.many.load(sentence, this.visibleSpaces, before);
    find("many-figures").replaceChildren(...figures(sentence, this.details, this.trace.length));
    this.drawOther();
    const start = Number.isFinite(from) ? from : 0;
    this.player.load(this.steps(), calm.matches ? this.steps() : start);
    if (!calm.matches) this.player.play();
  }

  drawOther() {
    const sentence = this.other?.trace[this.sentence];
    if (!sentence) return;
    this.one.load(sentence, usesVisibleSpaces(this.other.trace), null);
    find("one-figures").replaceChildren(...figures(sentence, this.other.details, this.other.trace.length));
    this.one.show(this.player.step);
  }

  steps() {
    return Math.max(this.trace[this.sentence].steps, this.other?.trace[this.sentence]?.steps ?? 0);
  }

  show(step, say) {
    if (!this.trace?.length) return;
    this.many.show(step);
    this.one.show(step);
    find("assembled").replaceChildren(...this.assembled(step));
    if (!say || !step) return;
    const words = this.many.words(step);
    const done = step >= this.trace[this.sentence].steps;
    find("said").textContent = `Step ${step}. ${words || "All segments are complete."}${done && words ? " Complete." : ""}`;
  }

  /** Write the sentence as far as it has come, with the numbers of its segments. */
  assembled(step) {
    return this.trace[this.sentence].segments.flatMap((segment, number) => {
      const said = step >= this.trace[this.sentence].steps ? segment.overlap : 0;
      const text = assemble(segment.tokens.slice(said, step).map((token) => token.piece), this.visibleSpaces);
      const part = document.createElement("span");
      const dropped = segment.ending === "del" && step >= segment.tokens.length;
      part.className = `part ${dropped ? "dropped" : ""}`;
      part.textContent = text.trim();
      const mark = document.createElement("sup");
      mark.textContent = String(number + 1);
      const gap = text.startsWith(" ") || dropped ? " " : "";
      return part.textContent ? [gap, mark, part] : [];
    });
  }

  choose(segment, position, button) {
    this.player.pause();
    const token = this.trace[this.sentence].segments[segment].tokens[position];
    this.choices.open(button, token, this.visibleSpaces, (piece) => this.force(segment, position, piece));
  }

  force(segment, position, token) {
    const place = { sentence: this.sentence, segment, position };
    const others = this.forced.filter((f) => !(f.sentence === this.sentence && f.segment === segment && f.position >= position));
    this.onForce([...others, { ...place, token }]);
  }

  drawSentences() {
    const box = find("sentences");
    box.hidden = this.trace.length < 2;
    box.replaceChildren(
      ...this.trace.map((sentence, at) => {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = String(at + 1);
        button.title = sentence.source;
        button.setAttribute("aria-label", `Sentence ${at + 1}: ${sentence.source}`);
        button.setAttribute("aria-pressed", String(at === this.sentence));
        button.addEventListener("click", () => {
          this.sentence = at;
          this.drawSentences();
          this.draw(null, 0);
        });
        return button;
      }),
    );
  }

  drawForced() {
    const box = find("forced");
    box.hidden = this.forced.length === 0;
    const words = document.createElement("span");
    words.textContent = "Forced:";
    const pins = this.forced.map((f) => {
      const where = `segment ${f.segment + 1}, step ${f.position + 1}`;
      return removal(`${label(f.token, this.visibleSpaces)}  (${where})  ✕`, `Release ${where}`, () =>
        this.onForce(this.forced.filter((other) => other !== f)));
    });
    const all = this.forced.length > 1 ? [removal("Release all", "Release all", () => this.onForce([]))] : [];
    box.replaceChildren(words, ...pins, ...all);
  }
}

function removal(text, name, release) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  button.setAttribute("aria-label", name);
  button.addEventListener("click", release);
  return button;
}

/** Steps of a sentence, and milliseconds of the whole text. */
function figures(sentence, details, sentences) {
  const steps = document.createElement("b");
  steps.textContent = String(sentence.steps);
  const milliseconds = document.createElement("b");
  milliseconds.textContent = details.milliseconds.toFixed(details.milliseconds < 10 ? 1 : 0);
  const rest = sentences > 1 ? " ms in all" : " ms";
  return [steps, " steps, ", milliseconds, rest];
}

// One sentence as segments side by side; row n holds what was written in step n.

import { label, percent, shown } from "./pieces.js";

const SPECIAL = { "</s>": "eos", "<del>": "del" };

export class Grid {
  /** Draw into `box`; `choose(segment, position, button)` is called for a chosen token. */
  constructor(box, choose) {
    this.box = box;
    this.choose = choose;
    this.columns = [];
    box.addEventListener("keydown", (event) => this.move(event));
  }

  /** Say something instead of a sentence. */
  tell(...nodes) {
    this.columns = [];
    const note = document.createElement("p");
    note.className = "note";
    note.append(...nodes);
    this.box.replaceChildren(note);
  }

  /** Take up a sentence; tokens that differ from `before` are marked as changed. */
  load(sentence, visibleSpaces, before) {
    this.sentence = sentence;
    const list = document.createElement("ol");
    list.className = "segments";
    this.columns = sentence.segments.map((segment, number) => {
      const column = this.column(segment, number, visibleSpaces, before?.segments[number]);
      list.append(column.item);
      return column;
    });
    this.box.replaceChildren(list);
    this.columns[0]?.buttons[0]?.setAttribute("tabindex", "0");
  }

  column(segment, number, visibleSpaces, before) {
    const item = document.createElement("li");
    item.className = "segment";
    const title = document.createElement("span");
    title.className = "number";
    title.textContent = String(number + 1);
    title.setAttribute("aria-label", `segment ${number + 1}`);
    const list = document.createElement("ol");
    const buttons = segment.tokens.map((token, position) => {
      const button = tokenButton(token, visibleSpaces);
      button.setAttribute("aria-label", spoken(token, number, position));
      if (before && before.tokens[position]?.piece !== token.piece) button.classList.add("changed");
      button.addEventListener("click", () => this.choose(number, position, button));
      const entry = document.createElement("li");
      entry.append(button);
      list.append(entry);
      return button;
    });
    item.append(title, list);
    return { item, buttons, segment };
  }

  /** Show what had been written after so many steps. */
  show(step) {
    for (const { item, buttons, segment } of this.columns) {
      buttons.forEach((button, position) => {
        button.classList.toggle("later", position >= step);
        button.classList.toggle("now", position === step - 1);
        button.classList.toggle("overlap", position < segment.overlap && step >= this.sentence.steps);
      });
      item.classList.toggle("deleted", segment.ending === "del" && step >= buttons.length);
      item.classList.toggle("writing", step > 0 && step <= buttons.length);
    }
    this.follow(step);
  }

  /** Keep the newest row in sight, scrolling inside the box only. */
  follow(step) {
    const newest = this.columns.map(({ buttons }) => buttons[step - 1]).find(Boolean);
    if (!newest || this.box.scrollHeight <= this.box.clientHeight) return;
    const end = newest.getBoundingClientRect().bottom - this.box.getBoundingClientRect().bottom;
    if (end > 0) this.box.scrollTop += end + 8;
  }

  /** Say in words what was written in a step. */
  words(step) {
    return this.columns
      .map(({ segment }, number) => [segment.tokens[step - 1], number + 1])
      .filter(([token]) => token)
      .map(([token, number]) => `segment ${number}: ${shown(token.piece, true).text}`)
      .join(", ");
  }

  /** Move between tokens with the arrow keys: one stop for the Tab key, not a hundred. */
  move(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const by = moves[event.key];
    const at = this.columns.findIndex(({ buttons }) => buttons.includes(event.target));
    if (!by || at < 0) return;
    event.preventDefault();
    const row = this.columns[at].buttons.indexOf(event.target);
    const column = this.columns[at + by[0]];
    const next = column?.buttons[Math.min(row + by[1], by[0] ? column.buttons.length - 1 : row + by[1])];
    if (!next || next.classList.contains("later")) return;
    event.target.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }
}

function tokenButton(token, visibleSpaces) {
  const button = document.createElement("button");
  button.type = "button";
  button.tabIndex = -1;
  button.className = `token ${SPECIAL[token.piece] ?? ""}`;
  if (token.forced) button.classList.add("forced-token");
  button.dataset.sure = String(Math.min(9, Math.floor(10 * token.probability)));
  const { text, before, after } = shown(token.piece, visibleSpaces);
  const word = document.createElement("b");
  word.textContent = text;
  button.append(...(before ? [join()] : []), word, ...(after ? [join()] : []));
  button.title = `${label(token.piece, visibleSpaces)}: ${percent(token.probability)}`;
  return button;
}

function join() {
  const mark = document.createElement("span");
  mark.className = "join";
  mark.textContent = "·";
  return mark;
}

function spoken(token, number, position) {
  const name = { "</s>": "end of segment", "<del>": "delete this segment" }[token.piece] ?? shown(token.piece, true).text;
  const forced = token.forced ? ", forced" : "";
  return `${name}, ${percent(token.probability)}${forced}; segment ${number + 1}, step ${position + 1}`;
}

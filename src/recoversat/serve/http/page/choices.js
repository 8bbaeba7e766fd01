// What else might stand at a place: a small window at the token, from which another one is forced.

import { label, percent } from "./pieces.js";

export class Choices {
  constructor(box) {
    this.box = box;
    this.opener = null;
    box.addEventListener("keydown", (event) => this.onKey(event));
    document.addEventListener("pointerdown", (event) => {
      if (!this.box.hidden && !this.box.contains(event.target) && event.target !== this.opener) this.close(false);
    });
  }

  /** Show the alternatives of a token beside its button; `force(piece)` is called for the chosen one. */
  open(opener, token, visibleSpaces, force) {
    this.opener = opener;
    this.box.querySelector("h3").textContent = `Instead of “${label(token.piece, visibleSpaces)}”`;
    const known = token.alternatives.some((other) => other.piece === token.piece);
    const offered = known ? token.alternatives : [...token.alternatives, token];
    this.box.querySelector("ol").replaceChildren(
      ...offered.map((other) => {
        const entry = document.createElement("li");
        entry.append(this.option(other, other.piece === token.piece, visibleSpaces, force));
        return entry;
      }),
    );
    this.box.hidden = false;
    this.place(opener);
    this.box.querySelector("button")?.focus();
  }

  option(other, current, visibleSpaces, force) {
    const button = document.createElement("button");
    button.type = "button";
    button.style.setProperty("--share", `${100 * other.probability}%`);
    const [word, share] = [document.createElement("span"), document.createElement("span")];
    word.textContent = label(other.piece, visibleSpaces);
    share.textContent = percent(other.probability);
    button.append(word, share);
    if (current) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => {
      this.close(true);
      force(other.piece);
    });
    return button;
  }

  place(opener) {
    const at = opener.getBoundingClientRect();
    const width = this.box.offsetWidth;
    const left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - width - 8));
    this.box.style.left = `${left + window.scrollX}px`;
    this.box.style.top = `${at.bottom + 6 + window.scrollY}px`;
  }

  close(backToToken) {
    this.box.hidden = true;
    if (backToToken) this.opener?.focus();
  }

  onKey(event) {
    const buttons = [...this.box.querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement);
    if (event.key === "Escape") this.close(true);
    else if (event.key === "ArrowDown") buttons[(at + 1) % buttons.length]?.focus();
    else if (event.key === "ArrowUp") buttons[(at - 1 + buttons.length) % buttons.length]?.focus();
    else if (event.key === "Tab") return this.close(true);
    else return;
    event.preventDefault();
  }
}

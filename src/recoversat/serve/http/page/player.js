// Replaying: which step is shown, and moving it by hand or by the clock.

const STEP_MS = 650;

export class Player {
  /** Control the replay with the given elements; `show(step, moved)` draws a step. */
  constructor(elements, show) {
    this.elements = elements;
    this.show = show;
    this.step = 0;
    this.last = 0;
    this.timer = 0;
    elements.play.addEventListener("click", () => (this.timer ? this.pause() : this.play()));
    elements.restart.addEventListener("click", () => this.moveTo(0));
    elements.back.addEventListener("click", () => this.moveTo(this.step - 1));
    elements.forward.addEventListener("click", () => this.moveTo(this.step + 1));
    elements.position.addEventListener("input", () => this.moveTo(Number(elements.position.value)));
    elements.speed.addEventListener("change", () => this.timer && this.play());
  }

  /** Take up a replay of so many steps, at a step. */
  load(last, step) {
    this.pause();
    this.last = last;
    this.elements.position.max = String(last);
    this.goTo(step, false);
  }

  /** Change how many steps there are; stay where we are. */
  extend(last) {
    const atEnd = !this.timer && this.step === this.last;
    this.last = last;
    this.elements.position.max = String(last);
    this.goTo(atEnd ? last : this.step, false);
  }

  play() {
    this.pause();
    if (this.step >= this.last) this.goTo(0, false);
    this.timer = window.setInterval(() => this.tick(), STEP_MS / Number(this.elements.speed.value));
    this.label();
  }

  pause() {
    window.clearInterval(this.timer);
    this.timer = 0;
    this.label();
  }

  moveTo(step) {
    this.pause();
    this.goTo(step, true);
  }

  tick() {
    this.goTo(this.step + 1, false);
    if (this.step >= this.last) {
      this.pause();
      this.show(this.step, true);
    }
  }

  goTo(step, byHand) {
    this.step = Math.max(0, Math.min(step, this.last));
    const { position, counter, back, restart, forward } = this.elements;
    position.value = String(this.step);
    position.setAttribute("aria-valuetext", `step ${this.step} of ${this.last}`);
    counter.textContent = `step ${this.step} of ${this.last}`;
    back.disabled = restart.disabled = this.step === 0;
    forward.disabled = this.step === this.last;
    this.show(this.step, byHand);
  }

  label() {
    const { play } = this.elements;
    play.classList.toggle("playing", Boolean(this.timer));
    play.setAttribute("aria-label", this.timer ? "Pause" : "Play");
  }
}

// The dial: how the text is written. Forced tokens name a place in one division, so they go without it.

const find = (id) => document.getElementById(id);
const SAYS = {
  fast: "K segments, as they are written",
  balanced: "drafted in K segments; what K = 1 finds nearly as likely as its own words may stand",
  best: "drafted in K segments; K = 1 lets less of them stand",
  exact: "drafted in K segments; what stands are the very words of K = 1",
};
const VERIFYING = ["balanced", "best", "exact"];

export class Quality {
  constructor(onChange) {
    this.select = find("quality");
    this.select.addEventListener("change", () => {
      this.show();
      onChange();
    });
    this.isForced = false;
  }

  /** What the dial stands at. */
  get value() {
    return this.select.value;
  }

  /** What a request is to ask for; nothing where it goes without. */
  get asked() {
    return this.isForced ? "" : this.value;
  }

  /** Say whether K = 1 verifies what K segments draft. */
  get verifies() {
    return VERIFYING.includes(this.asked);
  }

  /** The word of the dial, as a title has it. */
  get name() {
    return this.value.charAt(0).toUpperCase() + this.value.slice(1);
  }

  /** Offer what a model can do, and choose `wanted` if that is among it. */
  offer(model, wanted) {
    this.isForced = false;
    this.canVerify = model.choices.includes(1);
    for (const option of this.select.options) option.disabled = VERIFYING.includes(option.value) && !this.canVerify;
    this.select.value = [...this.select.options].some((option) => option.value === wanted && !option.disabled) ? wanted : "";
    this.show();
  }

  /** Step aside while tokens are forced. */
  stepAside(isForced) {
    this.isForced = isForced;
    this.show();
  }

  show() {
    this.select.disabled = this.isForced;
    find("quality-says").textContent = this.isForced
      ? "Forced tokens stand in K plain segments: release them to choose a quality."
      : this.value ? `${this.name}: ${SAYS[this.value]}.`
      : this.canVerify ? "" : "This model has not learnt K = 1, which verifies drafts: it writes as it is set, or fast.";
  }
}

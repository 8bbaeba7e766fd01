// The upper half of the page, and the flow: ask, show, compare.

import { fetchJson, Trouble } from "./api.js";
import { Decoding } from "./decoding.js";
import { Exact } from "./exact.js";
import { readLink, writeLink } from "./link.js";
import { percent } from "./pieces.js";
import { Quality } from "./quality.js";
import { marked, readGlossary } from "./words.js";

const find = (id) => document.getElementById(id);
const SAMPLES = {
  en: "The house is old, but the garden is large and there are many trees and flowers.",
  de: "Der Lehrer bat die Kinder, ihre Bücher zu öffnen und die erste Seite zu lesen.",
  fr: "La maison est vieille, mais le jardin est très beau, et il y a beaucoup de fleurs.",
};
const SHOWN = 6; // alternatives at each position

const state = { models: [], names: {}, limit: 0, request: 0, last: null };
const decoding = new Decoding((forced) => translate(forced, true));
const exact = new Exact(report);
const quality = new Quality(() => translate([], false));

async function start() {
  const [models, languages, settings] = await Promise.all(["models", "languages", "frontend/settings"].map((path) => fetchJson(path)));
  state.models = models;
  state.names = Object.fromEntries(languages.map(({ code, name }) => [code, name]));
  state.limit = settings.charLimit;
  find("key-row").hidden = !settings.keyRequired;
  find("choose-file").hidden = !settings.filesTranslation;
  find("file").accept = settings.supportedFilesFormat.join(",");
  find("direction").replaceChildren(...models.map((model, at) => new Option(`${state.names[model.source]} → ${state.names[model.target]}`, at)));
  find("direction").disabled = false;
  await restore(find("text").value);
}

let starting = null;
const begin = () => (starting ??= start().catch(report).finally(() => (starting = null)));

/** Bring back the example of the address, or begin with a sample; what was typed before the page had started stays, and who is about to type finds no sample. */
async function restore(typed) {
  const linked = readLink(location.hash);
  const example = typed && typed !== linked?.text ? { ...linked, text: typed, forced: [] } : linked;
  const at = example ? state.models.findIndex((m) => m.source === example.source && m.target === example.target) : 0;
  find("direction").value = String(Math.max(at, 0));
  takeModel(example?.segments, example?.quality);
  const aboutToType = document.activeElement === find("text");
  find("text").value = example?.text ?? (aboutToType ? "" : SAMPLES[model().source] ?? "");
  count();
  if (find("text").value.trim() && find("key-row").hidden) await translate(example?.forced ?? [], false);
}

function model() {
  return state.models[Number(find("direction").value)];
}

function takeModel(segments, wanted) {
  const { max_segments: most, segments: usual, target } = model();
  find("segments").max = String(most);
  find("segments").value = String(segments && segments <= most ? segments : usual);
  find("segments").disabled = most === 1;
  find("into").textContent = state.names[target];
  find("translation").lang = target;
  find("text").lang = model().source;
  quality.offer(model(), wanted);
  showK();
}

function showK() {
  const { choices } = model();
  const k = Number(find("segments").value);
  find("k").textContent = String(k);
  const known = choices.includes(k) || (k === 1 && model().autoregressive);
  find("learnt").textContent = known ? "" : `learnt with K = ${choices.join(", ")}: others may read worse`;
}

function count() {
  const length = [...find("text").value].length;
  find("count").textContent = `${length} / ${state.limit}`;
  find("count").classList.toggle("over", length > state.limit);
}

/** Translate; a page that has not started starts, and translates what stands there then. */
function go(forced, adapting) {
  return state.models.length ? translate(forced, adapting) : begin();
}

/** Translate what stands there; `adapting` means that only forced tokens have changed. */
async function translate(forced, adapting) {
  const turn = ++state.request;
  const current = () => turn === state.request; // a newer question makes this answer worthless
  const { source, target } = model();
  const segments = Number(find("segments").value);
  const text = find("text").value;
  complain(null);
  if (!text.trim()) return complain("There is nothing to translate yet: type a sentence first.");
  const key = find("key").value;
  const judging = model().autoregressive && { confidence: true };
  const question = { q: text, source, target, details: true, trace: SHOWN, ...judging, ...(key && { api_key: key }) };
  const glossary = forced.length ? null : readGlossary(find("glossary").value); // what is forced names its own words
  state.last = { forced, adapting };
  quality.stepAside(forced.length > 0);
  const verifies = quality.verifies && segments > 1;
  find("translation").classList.add("waiting");
  try {
    const asked = { ...(quality.asked && { quality: quality.asked }), ...(verifies && { trace: 0 }) };
    const answer = await fetchJson("translate", { ...question, segments, ...asked, ...(forced.length && { forced }), ...(glossary && { glossary }) });
    if (!current()) return;
    find("translation").replaceChildren(...marked(answer.translatedText, answer.trace));
    find("sure").textContent = answer.confidence ? `confidence ${percent(answer.confidence)}` : "";
    if (verifies) exact.take(answer.trace, quality.name);
    else exact.load(model().choices.includes(1) && segments > 1 ? question : null, segments);
    history.replaceState(null, "", writeLink({ source, target, segments, quality: quality.value, text, forced }));
    const written = verifies ? await fetchJson("translate", { ...question, confidence: false, segments, quality: "fast" }) : answer;
    if (!current()) return;
    decoding.load(written, forced, adapting, verifies);
    await compare(question, segments, current);
  } catch (error) {
    if (!(error instanceof Trouble)) throw error;
    if (current()) complain(error.message);
  } finally {
    if (current()) find("translation").classList.remove("waiting");
  }
}

async function compare(question, segments, current) {
  if (segments === 1) return decoding.compareNothing("With K = 1 both are the same: raise K to compare.");
  if (!model().autoregressive) {
    const command = document.createElement("code");
    command.textContent = `--model ${question.source}-${question.target}=TEACHER`;
    return decoding.compareNothing("This model has not learnt to write with K = 1. To compare, serve its teacher too: ", command);
  }
  const answer = await fetchJson("translate", { ...question, segments: 1 });
  if (current()) decoding.compare(answer);
}

/** Have a file translated, and offer it for download. */
async function translateFile() {
  const [file] = find("file").files;
  if (!file) return;
  if (!state.models.length) await begin(); // it may be chosen before the page has started
  if (!state.models.length) return; // why is said already
  const { source, target } = model();
  const form = new FormData();
  const key = find("key").value;
  for (const [name, value] of Object.entries({ file, source, target, ...(key && { api_key: key }) })) form.append(name, value);
  complain(null);
  find("fetch-file").hidden = true;
  find("choose-file").disabled = true;
  find("choose-file").textContent = `Working on ${file.name}`;
  try {
    const { translatedFileUrl } = await fetchJson("translate_file", form);
    find("fetch-file").href = new URL(translatedFileUrl).pathname.slice(1); // of this server, however it is reached
    find("fetch-file").hidden = false;
    find("fetch-file").focus();
  } catch (error) {
    if (!(error instanceof Trouble)) throw error;
    complain(error.message);
  } finally {
    find("file").value = "";
    find("choose-file").disabled = false;
    find("choose-file").textContent = "Choose a file";
  }
}

function complain(message) {
  const box = find("error");
  box.hidden = !message;
  box.querySelector("p").textContent = message ?? "";
}

async function copyLink() {
  const done = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
  find("link").textContent = done ? "Link copied" : "The link is in the address bar";
  window.setTimeout(() => (find("link").textContent = "Copy link"), 2500);
}

find("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  go([], false);
});
find("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) find("ask").requestSubmit();
});
find("text").addEventListener("input", count);
find("segments").addEventListener("input", showK);
find("segments").addEventListener("change", () => translate([], false));
find("direction").addEventListener("change", () => {
  takeModel(undefined, quality.value);
  translate([], false);
});
find("link").addEventListener("click", copyLink);
find("choose-file").addEventListener("click", () => find("file").click());
find("file").addEventListener("change", translateFile);
find("error").querySelector("button").addEventListener("click", () => go(state.last?.forced ?? [], state.last?.adapting ?? false));
window.addEventListener("hashchange", () => restore());

function report(error) {
  complain(error instanceof Trouble ? error.message : "This page could not start.");
}

begin();

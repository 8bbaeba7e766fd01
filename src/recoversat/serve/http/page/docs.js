// The API for people, drawn from its own description at /spec.

const element = (name, attributes = {}, ...children) => {
  const node = Object.assign(document.createElement(name), attributes);
  node.append(...children);
  return node;
};

function kind(schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.filter((one) => one.type !== "null").map(kind).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(", ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return `list of ${kind(schema.items ?? {})}`;
  return schema.type ?? "any";
}

function bounds(schema) {
  const all = [schema, ...(schema.anyOf ?? [])];
  const found = (name) => all.map((one) => one[name]).find((value) => value !== undefined);
  const [least, most] = [found("minimum"), found("maximum")];
  const [longest, many] = [found("maxLength"), found("maxItems")];
  return [
    least !== undefined && most !== undefined ? `${least} to ${most}` : "",
    longest ? `at most ${longest} characters` : "",
    many ? `at most ${many} entries` : "",
  ].filter(Boolean).join("; ");
}

function fieldTable(schema) {
  const rows = Object.entries(schema.properties).map(([name, field]) =>
    element("tr", {},
      element("th", { scope: "row" }, name),
      element("td", {}, kind(field)),
      element("td", {}, schema.required?.includes(name) ? "required" : ""),
      element("td", {}, [field.description, bounds(field)].filter(Boolean).join("; "))));
  return element("div", { className: "scroll" }, element("table", {}, element("tbody", {}, ...rows)));
}

function tryOut(method, path, example) {
  const answer = element("pre", { hidden: true, tabIndex: 0 });
  const button = element("button", { type: "button" }, "Try it");
  button.addEventListener("click", async () => {
    const options = example && { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(example) };
    answer.hidden = false;
    try {
      const response = await fetch(path.slice(1), options);
      answer.textContent = `${response.status} ${response.statusText}\n${await response.text()}`.slice(0, 4000);
    } catch {
      answer.textContent = "The server cannot be reached.";
    }
  });
  return [button, answer];
}

function operationCard(path, method, operation) {
  const body = operation.requestBody?.content["application/json"];
  const form = operation.requestBody?.content["multipart/form-data"];
  const address = new URL(path.slice(1), document.baseURI);
  const sent = body ? ` \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body.example)}'` : "";
  const data = form ? " \\\n  -F file=@report.docx -F source=en -F target=de" : sent;
  const statuses = Object.entries(operation.responses).map(([code, { description }]) => `${code} ${description}`);
  const title = element("h2", {}, element("span", { className: "method" }, method.toUpperCase()), path);
  return element("section", { className: "card operation" }, title,
    element("p", {}, operation.summary ?? ""),
    ...(body ? [element("h3", {}, "Fields, as JSON or as a form"), fieldTable(body.schema)] : []),
    ...(form ? [element("h3", {}, "Fields of a form"), fieldTable(form.schema)] : []),
    element("h3", {}, "Example"),
    element("pre", { tabIndex: 0 }, `curl ${address}${data}`),
    ...(form || path.includes("{") ? [] : tryOut(method.toUpperCase(), path, body?.example)),
    element("h3", {}, "Answers"),
    element("p", {}, statuses.join(" · ")));
}

const spec = await (await fetch("spec")).json();
document.getElementById("operations").replaceChildren(
  ...Object.entries(spec.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => operationCard(path, method, operation))));

// Talking to the server; what goes wrong becomes a sentence a person can act on.

export class Trouble extends Error {}

/** Fetch JSON from the server; `fields` are sent as JSON, or as they are if they are a form. */
export async function fetchJson(path, fields) {
  const options = fields && (fields instanceof FormData
    ? { method: "POST", body: fields }
    : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(fields) });
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Trouble("The server cannot be reached. Is it still running?");
  }
  const content = await response.json().catch(() => ({}));
  if (response.ok) return content;
  throw new Trouble(explanation(response, content.error ?? ""));
}

function explanation(response, message) {
  const wait = response.headers.get("Retry-After");
  const later = wait ? ` Try again in ${wait} second${wait === "1" ? "" : "s"}.` : "";
  const size = message.match(/request \((\d+)\) exceeds text limit \((\d+)\)/);
  if (size) return `This text is too long: ${size[1]} characters, and ${size[2]} are allowed.`;
  if (/missing q/.test(message)) return "There is nothing to translate yet: type a sentence first.";
  if (response.status === 403) return "This API key is not known here. Check it and try again.";
  if (/API key/.test(message)) return "This server asks for an API key: enter yours beside the button.";
  if (response.status === 429) return `That was a little too fast.${later}`;
  if (response.status === 503) return `The server is busy just now.${later}`;
  if (response.status >= 500) return "Something went wrong on the server. Its log says what.";
  return message.replace(/^Invalid request: /, "") || `The server answered ${response.status}.`;
}

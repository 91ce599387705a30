// Follows server-sent events with fetch: the EventSource of browsers cannot send an API key.

import { fetchWithKey } from "./login.js";

const AGAIN_MS = 3000; // pause before a lost connection is made again

// Calls handlers[event](data) for each event, handlers.opened() for each connection, and handlers.lost() where the service
// does not answer with events. Returns a function that ends the stream.
export function follow(address, handlers) {
  const ended = new AbortController();
  read(address, handlers, ended.signal);
  return () => ended.abort();
}

async function read(address, handlers, signal) {
  while (!signal.aborted) {
    try {
      const response = await fetchWithKey(address, { signal, headers: { Accept: "text/event-stream" } });
      if (!response.ok) return handlers.lost();
      handlers.opened();
      await dispatch(response.body, handlers);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof TypeError)) throw error; // fetch throws a TypeError where the network fails
    }
    if (!signal.aborted) await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
}

async function dispatch(body, handlers) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (text + value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s, 2)));
      handlers[fields.event]?.(fields.data);
    }
  }
}

import { setTimeout as delay } from 'node:timers/promises';

const component = `export default {
  props: { http: '$.interface.http' },
  run({ body }) { this.$emit({ hello: body.name }); },
};`;
const patienceMs = 120_000;

/** Calls `look` until it answers, and returns the answer. Throws after two minutes with what was waited for. */
export async function until<T>(what: string, look: () => Promise<T | undefined | false>): Promise<T> {
  const deadline = performance.now() + patienceMs;
  let cause: unknown;
  while (performance.now() < deadline) {
    try {
      const found = await look();
      if (found) return found;
    } catch (error) {
      cause = error;
    }
    await delay(100);
  }
  throw new Error(`waited ${patienceMs} ms in vain for: ${what}`, { cause });
}

/** One request to the API of an installed service. Throws with its answer when that is an error. */
export async function request(
  service: { url: string; apiKey: string },
  method: string,
  path: string,
  body?: object,
): Promise<{ data: Record<string, unknown> & { id: string } }> {
  const response = await fetch(new URL(path, service.url), {
    method,
    headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text);
}

/** What a person does first: deploys a source, sends a request to it, and reads the event. Returns the source's id. */
export async function makeEvent(service: { url: string; apiKey: string }): Promise<string> {
  const { data: source } = await request(service, 'POST', '/v1/sources', { component_code: component });
  const props = source.configured_props as { http: { endpoint_url: string } };
  const { pathname } = new URL(props.http.endpoint_url);
  await fetch(new URL(pathname, service.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"name":"Ada"}',
  });
  await until('the event', () => hasEvent(service, source.id));
  return source.id;
}

export async function hasEvent(service: { url: string; apiKey: string }, sourceId: string): Promise<boolean> {
  const { data } = await request(service, 'GET', `/v1/sources/${sourceId}/event_summaries?expand=event`);
  return JSON.stringify(data).includes('{"hello":"Ada"}');
}

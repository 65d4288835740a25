/** Where requests of an old endpoint go now. */
export interface ForwardTarget {
  /** Host of the old endpoint, or its URL; `*`: all requests that the step gets. */
  from: string;
  to: string;
}

/**
 * The text of a code step for the platform where senders still send to: it passes each request to the new endpoint and the answer back.
 * It uses nothing but `fetch` and `$.respond`, so it runs there and here.
 */
export function forwarderCode(
  targets: readonly ForwardTarget[],
  options: { timeoutSeconds: number },
): string {
  const table = Object.fromEntries(targets.map(({ from, to }) => [hostOf(from), to.replace(/\/$/, '')]));
  return `// Passes each request to its new endpoint, and the answer back to the sender. Made by \`millrace forward\`.
// Put it as the only step into the workflow with the old HTTP trigger, and let that trigger return a custom response.
// The trigger gives the body as it was parsed. JSON is written again, so that spaces and the order of numbers' digits may differ: a
// signature over the body holds only where the event has bodyRaw. Files of multipart forms are not passed on.
const targets = ${JSON.stringify(table, null, 2)};
const timeoutMs = ${options.timeoutSeconds * 1000};
// Of this connection alone, or of the platform in between; fetch makes its own.
const left = /^(?:host|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|content-length|accept-encoding|expect|forwarded|x-forwarded-.*|x-amzn-.*|cf-.*)$/;
const leftOfAnswer = /^(?:connection|keep-alive|proxy-.*|trailer|transfer-encoding|upgrade|content-length|content-encoding|date|server)$/;
const mark = 'x-millrace-forwarded';

export default defineComponent({
  async run({ steps, $ }) {
    const event = steps.trigger.event;
    const headers = new Headers();
    for (const [name, value] of Object.entries(event.headers ?? {}))
      if (!left.test(name.toLowerCase())) headers.set(name, Array.isArray(value) ? value.join(', ') : String(value));
    if (headers.has(mark)) return fail(508, 'the request was forwarded already: the new endpoint leads back to the old one');
    headers.set(mark, '1');
    const target = targets[String(event.headers?.host ?? '').toLowerCase()] ?? targets['*'];
    if (target === undefined) return fail(502, 'there is no new endpoint for ' + event.headers?.host);
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(event.query ?? {}))
      for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
    const path = event.path === undefined || event.path === '/' ? '' : event.path;
    const url = target + path + (query.size === 0 ? '' : '?' + query);
    const method = event.method ?? 'POST';
    const type = headers.get('content-type') ?? '';
    if (/^multipart\\//i.test(type) && typeof event.bodyRaw !== 'string')
      return fail(502, 'multipart forms cannot be forwarded: send this request to ' + target);
    let body;
    if (method !== 'GET' && method !== 'HEAD') body = bodyOf(event, type);
    try {
      const answer = await fetch(url, { method, headers, body, redirect: 'manual', signal: AbortSignal.timeout(timeoutMs) });
      const bytes = Buffer.from(await answer.arrayBuffer());
      const answered = {};
      for (const [name, value] of answer.headers) if (!leftOfAnswer.test(name)) answered[name] = value;
      await $.respond({ status: answer.status, headers: answered, body: bytes });
      return { forwarded: url, status: answer.status };
    } catch (error) {
      if (error.name === 'TimeoutError') return fail(504, 'the new endpoint gave no answer within ' + timeoutMs / 1000 + ' seconds; it may have got the request');
      return fail(502, 'the new endpoint cannot be reached: ' + (error.cause?.code ?? error.message));
    }

    async function fail(status, error) {
      await $.respond({ status, headers: { 'content-type': 'application/json', 'retry-after': '30' }, body: JSON.stringify({ error }) });
      throw new Error(error);
    }
  },
});

function bodyOf({ bodyRaw, body }, type) {
  if (typeof bodyRaw === 'string' && bodyRaw !== '') return bodyRaw;
  if (body === undefined || body === null || typeof body === 'string') return body ?? undefined;
  if (/^application\\/x-www-form-urlencoded/i.test(type)) return new URLSearchParams(body).toString();
  return JSON.stringify(body);
}
`;
}

function hostOf(from: string): string {
  if (from === '*') return from;
  const withScheme = from.includes('://') ? from : `https://${from}`;
  return URL.canParse(withScheme) ? new URL(withScheme).host : from.toLowerCase();
}

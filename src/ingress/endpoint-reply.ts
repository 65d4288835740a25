import type { FastifyReply } from 'fastify';
import type { HttpReply } from '#runner/call-outcome.ts';

/** Sends what user code replied. */
export function sendHttpReply(reply: FastifyReply, answer: HttpReply): FastifyReply {
  const { originalUrl, raw } = reply.request;
  // With a host of its own the path was made from that host; without one, pages share the origin of the API.
  const sharesOrigin = originalUrl === raw.url;
  const headers = withoutOurs(answer.headers);
  reply.code(answer.status).headers(sharesOrigin ? apartFromOrigin(headers) : headers);
  // An empty body is of no type; given the bytes, fastify would name one.
  return answer.body.length === 0 ? reply.send() : reply.send(answer.body);
}

/**
 * Names of headers that are ours to write: how the message is framed, and what leads to the request and its run. Components hand
 * on those of another service.
 */
const ourHeaders = new Set([
  'x-request-id',
  'x-millrace-run-id',
  'idempotency-replayed',
  'connection',
  'content-length',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

function withoutOurs(headers: HttpReply['headers']): HttpReply['headers'] {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !ourHeaders.has(name.toLowerCase())));
}

/**
 * Headers with which one answer decides over the whole origin: its workers, its storage, how it is reached, and where each
 * request to it is reported. Reports of a browser (NEL) hold whole URLs, so also those that are keys by themselves.
 */
const originHeaders = new Set([
  ...['service-worker-allowed', 'clear-site-data', 'strict-transport-security', 'alt-svc'],
  ...['nel', 'report-to'],
]);

/**
 * Pages may do all they like but be of this origin: there they could read and send the forms of the pages on which accounts
 * are connected. Several policies apply together, so that of the user stays too.
 */
const sandboxPolicy =
  'sandbox allow-scripts allow-forms allow-modals allow-downloads allow-popups allow-popups-to-escape-sandbox';

/** Our cookies, also written without a name, which browsers send alike. */
const ownCookie = /^[\s=]*millrace_/i;

/** For an answer on the origin of the service: nothing in it reaches beyond the answer itself. */
function apartFromOrigin(headers: HttpReply['headers']): HttpReply['headers'] {
  const kept: HttpReply['headers'] = {};
  const policies: string[] = [];
  for (const [name, value] of Object.entries(headers)) {
    const lower = name.toLowerCase();
    const values = [value].flat();
    if (lower === 'content-security-policy') policies.push(...values);
    else if (lower === 'set-cookie') kept[name] = values.filter((cookie) => !ownCookie.test(cookie));
    else if (!originHeaders.has(lower)) kept[name] = value;
  }
  return { ...kept, 'content-security-policy': [...policies, sandboxPolicy].join(', ') };
}

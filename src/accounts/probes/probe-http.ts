import type { AppTest } from '#accounts/apps/app-definition.ts';
import { splitUrlTemplate } from '#accounts/apps/url-template.ts';
import { parseForm, type SignedRequest } from '#accounts/oauth/oauth1-signature.ts';
import { valueAt } from '#accounts/oauth/value-at.ts';
import { parseAnswer } from '#egress/answer-json.ts';
import { type GuardedResponse, guardedFetch } from '#egress/guarded-fetch.ts';
import {
  codeOf,
  ProbeFailure,
  type ProbeOptions,
  type TestOutcome,
  UnfitCredentials,
} from './account-probe.ts';

type HttpTest = Extract<AppTest, { kind: 'http' }>;

const bodyBytesMax = 256 * 1024;
const redirectsMax = 3;
/** Statuses that speak of the moment, not of the credentials, beside 5xx. */
const momentStatuses = new Set([408, 425, 429]);
const redirectStatuses = new Set([301, 302, 303, 307, 308]);

/** One request with the credentials in it. They go to no other origin than the one they are for. */
export async function probeHttp(test: HttpTest, options: ProbeOptions): Promise<TestOutcome> {
  const { fill } = options;
  const url = fill(test.url, 'url');
  const origin = URL.parse(url)?.origin;
  if (origin === undefined || !/^https?:/.test(url)) {
    throw new UnfitCredentials('the address that the fields of the account make is no http(s) URL');
  }
  // The path as the template has it, with the names of the fields in place of their values: some are secrets.
  const path = splitUrlTemplate(test.url)?.rest.replace(/[?].*$/s, '') ?? '';
  const asked = `${test.method} ${origin}${path}`;
  const headers = headersOf(test, fill);
  const request = {
    method: test.method,
    headers,
    ...(test.body === undefined ? {} : { body: fill(test.body, bodyModeOf(test.body, headers)) }),
  };
  const answer = await ask(asked, { url, origin, request }, options);
  return judge(test, asked, answer);
}

function headersOf(test: HttpTest, fill: ProbeOptions['fill']): Record<string, string> {
  const headers: Record<string, string> = { accept: 'application/json', 'user-agent': 'Millrace' };
  for (const [name, template] of Object.entries(test.headers))
    headers[name.toLowerCase()] = fill(template, 'text');
  if (test.basic !== undefined) {
    const pair = `${fill(test.basic.username, 'text')}:${fill(test.basic.password, 'text')}`;
    headers.authorization = `Basic ${Buffer.from(pair).toString('base64')}`;
  }
  for (const [name, value] of Object.entries(headers)) {
    // What HTTP takes in a field; anything else (a line break that was pasted along) is no credential.
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) {
      throw new UnfitCredentials(`a credential has characters that cannot stand in the header ${name}`);
    }
  }
  return headers;
}

/** How values are encoded in the body: by its content type, which is JSON if there is none and the body looks like JSON. */
function bodyModeOf(body: string, headers: Record<string, string>): 'json' | 'form' | 'text' {
  const type = headers['content-type'] ?? (/^\s*[[{]/.test(body) ? 'application/json' : '');
  if (type !== '') headers['content-type'] = type;
  if (type.includes('json')) return 'json';
  return type.includes('x-www-form-urlencoded') ? 'form' : 'text';
}

async function ask(
  asked: string,
  target: {
    url: string;
    origin: string;
    request: { method: string; headers: Record<string, string>; body?: string };
  },
  options: ProbeOptions,
): Promise<GuardedResponse> {
  const { dispatcher, signal, sign } = options;
  let { url, request } = target;
  for (let followed = 0; ; followed += 1) {
    const signed = sign && { authorization: await sign(whatIsSigned(url, request)) };
    const answer = await guardedFetch(url, {
      dispatcher,
      ...request,
      headers: { ...request.headers, ...signed },
      maxRedirects: 0,
      maxBytes: bodyBytesMax,
      onOverflow: 'truncate',
      signal,
    }).catch((error: unknown) => {
      if (codeOf(error) === 'ERR_INVALID_URL') {
        throw new UnfitCredentials('the address that the fields of the account make is no http(s) URL');
      }
      throw new ProbeFailure(asked, error);
    });
    const next = redirectStatuses.has(answer.status) ? URL.parse(answer.headers.location ?? '', url) : null;
    if (next === null || next.origin !== target.origin || followed === redirectsMax) return answer;
    url = next.href;
    if (answer.status === 303 || (request.method === 'POST' && answer.status < 303)) {
      const { 'content-type': _type, ...headers } = request.headers;
      request = { method: 'GET', headers };
    }
  }
}

function whatIsSigned(
  url: string,
  { method, headers, body }: { method: string; headers: Record<string, string>; body?: string },
): SignedRequest {
  const isForm = headers['content-type']?.includes('x-www-form-urlencoded') === true;
  return { method, url: new URL(url), form: isForm && body !== undefined ? parseForm(body) : [] };
}

function judge(test: HttpTest, asked: string, answer: GuardedResponse): TestOutcome {
  const { status, headers } = answer;
  const message = `${asked} answered ${status}`;
  const isListed = test.statuses.includes(status);
  if (isListed || (test.statuses.length === 0 && status >= 200 && status < 300)) {
    return test.expect === undefined
      ? { outcome: 'works', message }
      : judgeBody(test.expect, message, answer);
  }
  const isLimit = 'retry-after' in headers || headers['x-ratelimit-remaining'] === '0';
  if (status >= 500 || momentStatuses.has(status) || (status === 403 && isLimit)) {
    return { outcome: 'unreachable', message };
  }
  if (status >= 400) return { outcome: 'refused', message };
  const isRedirect = redirectStatuses.has(status);
  return {
    outcome: 'unreachable',
    message: isRedirect
      ? `${message}, a redirect that credentials do not follow`
      : `${message}, which was not expected`,
  };
}

function judgeBody(
  { path, equals }: { path: string; equals: unknown },
  message: string,
  { body, truncated }: GuardedResponse,
): TestOutcome {
  if (truncated)
    return { outcome: 'unreachable', message: `${message} with more than ${bodyBytesMax / 1024} KB` };
  let json: unknown;
  try {
    json = parseAnswer(body);
  } catch {
    return { outcome: 'unreachable', message: `${message} with no JSON that could be read` };
  }
  if (JSON.stringify(valueAt(json, path)) === JSON.stringify(equals)) return { outcome: 'works', message };
  return { outcome: 'refused', message: `${message}, where ${path} is not ${JSON.stringify(equals)}` };
}

import { Readable } from 'node:stream';
import { Busboy } from '@fastify/busboy';

/** A request as it reached an endpoint. */
export interface EndpointRequest {
  method: string;
  /** Path below the endpoint, beginning with `/`. */
  path: string;
  /** Without the question mark. */
  queryString: string;
  /** Host and path, as the caller wrote it. */
  url: string;
  /** Lower-case names, as Node gives them. */
  headers: Record<string, string | string[] | undefined>;
  body: Buffer;
  clientIp: string;
}

const formFieldsMax = 1000;

/**
 * JSON text of the argument of `run` (component contract, 1.7): method, path, query, headers, bodyRaw (the exact
 * text), body (parsed by content type, else the text), client_ip, url.
 */
export async function requestEventJson(request: EndpointRequest): Promise<string> {
  const bodyRaw = request.body.toString('utf8');
  const head = JSON.stringify({
    method: request.method,
    path: request.path,
    query: queryObject(request.queryString),
    headers: plainHeaders(request.headers),
    client_ip: request.clientIp,
    url: request.url,
  });
  const body = await bodyJson(request, bodyRaw);
  // The body is placed as JSON text: it was checked to be JSON, and printing it again would be most of the cost.
  return `${head.slice(0, -1)},"bodyRaw":${JSON.stringify(bodyRaw)}${body === undefined ? '' : `,"body":${body}`}}`;
}

async function bodyJson(request: EndpointRequest, bodyRaw: string): Promise<string | undefined> {
  if (request.body.length === 0) return undefined;
  const contentType = String(request.headers['content-type'] ?? '').toLowerCase();
  const mediaType = contentType.split(';', 1)[0]?.trim() ?? '';
  if (mediaType === 'application/json' || mediaType.endsWith('+json')) {
    return isJson(bodyRaw) ? bodyRaw : JSON.stringify(bodyRaw);
  }
  if (mediaType === 'application/x-www-form-urlencoded') return JSON.stringify(queryObject(bodyRaw));
  if (mediaType === 'multipart/form-data') {
    return JSON.stringify((await multipartObject(request).catch(() => undefined)) ?? bodyRaw);
  }
  // Callers that send JSON without saying so are common; anything else stays text.
  return /^\s*[[{]/.test(bodyRaw) && mediaType === '' && isJson(bodyRaw) ? bodyRaw : JSON.stringify(bodyRaw);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** `a=1&b=2&b=3` -> `{a: '1', b: ['2', '3']}`, without a prototype to tamper with. */
export function queryObject(queryString: string): Record<string, string | string[]> {
  const object: Record<string, string | string[]> = Object.create(null);
  for (const [name, value] of new URLSearchParams(queryString)) {
    const before = object[name];
    if (before === undefined) object[name] = value;
    else if (Array.isArray(before)) before.push(value);
    else object[name] = [before, value];
  }
  return object;
}

function plainHeaders(headers: EndpointRequest['headers']): Record<string, string> {
  const plain: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) plain[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return plain;
}

/** Fields as they are; a file part as `{filename, mimetype, url}`, its content in a data: URL. */
function multipartObject(request: EndpointRequest): Promise<Record<string, unknown>> {
  return new Promise((resolve, reject) => {
    const object: Record<string, unknown> = Object.create(null);
    const add = (name: string, value: unknown) => {
      const before = object[name];
      if (before === undefined) object[name] = value;
      else if (Array.isArray(before)) before.push(value);
      else object[name] = [before, value];
    };
    const headers = { 'content-type': String(request.headers['content-type']) };
    const parser = new Busboy({
      headers,
      limits: { fields: formFieldsMax, files: formFieldsMax, fieldSize: request.body.length + 1 },
    });
    parser.on('field', (name, value) => add(name, value));
    parser.on('file', (name, stream, filename, _encoding, mimetype) => {
      const chunks: Buffer[] = [];
      // A file that breaks off fails by itself; unheard, its error would end the process.
      stream.on('error', reject);
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () =>
        add(name, {
          filename,
          mimetype,
          url: `data:${mimetype};base64,${Buffer.concat(chunks).toString('base64')}`,
        }),
      );
    });
    parser.on('error', reject);
    parser.on('finish', () => resolve(object));
    Readable.from([request.body]).pipe(parser);
  });
}

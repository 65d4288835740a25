import { Readable } from 'node:stream';
import { Busboy } from '@fastify/busboy';
import { isDeeperThan } from '#lib/json-depth.ts';

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

/** Maximum of fields of a form; a form with more stays text. */
export const formFieldsMax = 1000;
/** A form is read in pieces, so that reading can end before its end. */
const sliceBytes = 16 * 1024;

/** A file in a form. */
export interface FormFile {
  filename: string;
  mimetype: string;
  content: Buffer;
}

/** Stores a file of a form; its URL. */
export type KeepFile = (file: FormFile) => Promise<string>;

/** Files up to this many bytes are in the event itself, as data: URLs. */
const inlineFileBytesMax = 4 * 1024;

/**
 * JSON text of the argument of `run` (component contract, 1.7) and of `steps.trigger.event`: method, path, query,
 * headers, bodyRaw (the exact text), body (parsed by content type, else the text), client_ip, url. Throws what
 * `keepFile` throws.
 */
export async function requestEventJson(request: EndpointRequest, keepFile: KeepFile): Promise<string> {
  const bodyRaw = request.body.toString('utf8');
  const head = JSON.stringify(eventHead(request));
  const body = await bodyJson(request, bodyRaw, keepFile);
  // The body is placed as JSON text: it was checked to be JSON, and printing it again would be most of the cost.
  return `${head.slice(0, -1)},"bodyRaw":${JSON.stringify(bodyRaw)}${body === undefined ? '' : `,"body":${body}`}}`;
}

/** The event of a request whose body was set aside: it is at `url`, and not in the event. */
export function setAsideEventJson(request: EndpointRequest, url: string): string {
  return JSON.stringify({ ...eventHead(request), body: { raw_body_url: url } });
}

/** What a run gets of the request that resumed it: method, path, query, headers, client_ip and the body, parsed. */
export async function requestObject(request: EndpointRequest): Promise<object> {
  const { url: _url, ...head } = eventHead(request);
  // Files stay in the object: there are at most as many bytes of them as a body may have.
  const body = await bodyJson(request, request.body.toString('utf8'), (file) =>
    Promise.resolve(dataUrl(file)),
  );
  return { ...head, ...(body === undefined ? {} : { body: JSON.parse(body) }) };
}

function eventHead(request: EndpointRequest) {
  return {
    method: request.method,
    path: request.path,
    query: queryObject(request.queryString),
    headers: plainHeaders(request.headers),
    client_ip: request.clientIp,
    url: request.url,
  };
}

async function bodyJson(
  request: EndpointRequest,
  bodyRaw: string,
  keepFile: KeepFile,
): Promise<string | undefined> {
  if (request.body.length === 0) return undefined;
  const contentType = String(request.headers['content-type'] ?? '').toLowerCase();
  const mediaType = contentType.split(';', 1)[0]?.trim() ?? '';
  if (mediaType === 'application/json' || mediaType.endsWith('+json')) {
    return isJson(bodyRaw) ? bodyRaw : JSON.stringify(bodyRaw);
  }
  if (mediaType === 'application/x-www-form-urlencoded')
    return JSON.stringify(hasFewFields(bodyRaw) ? queryObject(bodyRaw) : bodyRaw);
  if (mediaType === 'multipart/form-data') {
    const form = await readForm(request).catch(() => undefined);
    if (form === undefined) return JSON.stringify(bodyRaw);
    await Promise.all(
      form.files.map(async ({ value, content }) => {
        value.url = await urlOfFile({ ...value, content }, keepFile);
      }),
    );
    return JSON.stringify(form.object);
  }
  // Callers that send JSON without saying so are common; anything else stays text.
  return /^\s*[[{]/.test(bodyRaw) && mediaType === '' && isJson(bodyRaw) ? bodyRaw : JSON.stringify(bodyRaw);
}

/** Half a megabyte of `a&a&…` would keep the service from everything else for most of a second: such a form stays text. */
function hasFewFields(form: string): boolean {
  let fields = 1;
  for (let at = form.indexOf('&'); at !== -1 && fields <= formFieldsMax; at = form.indexOf('&', at + 1))
    fields += 1;
  return fields <= formFieldsMax;
}

/** As deep as the bodies of the API. To parse a body of brackets alone takes fifty times as long as another of its size. */
const jsonDepthMax = 500;

function isJson(text: string): boolean {
  if (isDeeperThan(text, jsonDepthMax)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** `a=1&b=2&b=3` -> `{a: '1', b: ['2', '3']}`, without a prototype to tamper with. */
function queryObject(queryString: string): Record<string, string | string[]> {
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

function urlOfFile(file: FormFile, keepFile: KeepFile): Promise<string> | string {
  return file.content.length > inlineFileBytesMax ? keepFile(file) : dataUrl(file);
}

function dataUrl({ mimetype, content }: FormFile): string {
  return `data:${mimetype};base64,${content.toString('base64')}`;
}

/** A file as the event contains it. */
interface FileValue {
  filename: string;
  mimetype: string;
  url: string;
}

interface Form {
  /** Fields as they are, and `FileValue`s, whose URLs are still to be put in. */
  object: Record<string, unknown>;
  files: { value: FileValue; content: Buffer }[];
}

function readForm(request: EndpointRequest): Promise<Form> {
  return new Promise((resolve, reject) => {
    const form: Form = { object: Object.create(null), files: [] };
    const add = (name: string, value: unknown) => {
      const before = form.object[name];
      if (before === undefined) form.object[name] = value;
      else if (Array.isArray(before)) before.push(value);
      else form.object[name] = [before, value];
    };
    const headers = { 'content-type': String(request.headers['content-type']) };
    const parser = new Busboy({
      headers,
      limits: { parts: formFieldsMax, fieldSize: request.body.length + 1 },
    });
    // Nothing of a form is dropped, and reading on would take time for nothing.
    let isRefused = false;
    parser.on('partsLimit', () => {
      isRefused = true;
      reject(new Error('the form has too many fields'));
    });
    parser.on('field', (name, value) => add(name, value));
    // A part without a name can be a file by its type.
    parser.on('file', (name, stream, filename: string | undefined, _encoding, mimetype) => {
      const chunks: Buffer[] = [];
      // A file that breaks off fails by itself; unheard, its error would end the process.
      stream.on('error', reject);
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        const value = { filename: filename ?? 'file', mimetype, url: '' };
        add(name, value);
        form.files.push({ value, content: Buffer.concat(chunks) });
      });
    });
    parser.on('error', reject);
    parser.on('finish', () => resolve(form));
    const slices = function* () {
      for (let at = 0; at < request.body.length && !isRefused; at += sliceBytes)
        yield request.body.subarray(at, at + sliceBytes);
    };
    Readable.from(slices()).pipe(parser);
  });
}

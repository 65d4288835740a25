import { mkdir, writeFile } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import type { Step } from '../step.ts';

interface HttpResponse {
  status: number;
  statusText: string;
  headers: Record<string, string | string[]>;
  data: unknown;
}

/** Maximum characters of a response in the message of the error about it. */
const reasonCharactersMax = 300;

/** `this` of the actions that send a request. */
export interface RequestAction {
  httpRequest: {
    method?: string;
    url?: string;
    execute(options?: { responseType?: 'arraybuffer' }): Promise<HttpResponse>;
  };
  saveTo?: string;
}

/** The props of an action whose request has this method, unless the user chooses another one. */
export function requestProps(method: string) {
  return {
    httpRequest: {
      type: 'http_request',
      label: 'Request',
      description:
        'The request: `{"method": "POST", "url": "https://example.com/orders", "headers": [{"name": "x-source", "value": "millrace"}], "params": [], "body": {"contentType": "application/json", "mode": "raw", "raw": "{\\"id\\": 1}"}, "auth": {"type": "bearer", "token": "{{process.env.TOKEN}}"}}`. `auth.type` is `none`, `basic` (`username`, `password`) or `bearer` (`token`). A field of a multipart body with `"type": "file"` has the path of a file as its value, and `"mode": "file"` with `"file"` sends a file as the body',
      default: { method },
    },
    saveTo: {
      type: 'string',
      label: 'Save the response to a file',
      description:
        'Path of a file below `/tmp`, such as `/tmp/report.pdf`. The body is written to it as it is, and the step returns `path`, `name`, `size` and `content_type` instead of the body',
      optional: true,
    },
  } as const;
}

/**
 * Sends the request. Returns the body: JSON as its value, text as text, anything else as a Buffer. Exports `response` with status and
 * headers, also of a refused request, whose error is thrown.
 */
export async function runRequest(action: RequestAction, $: Step): Promise<unknown> {
  const { httpRequest, saveTo } = action;
  const isSaved = saveTo !== undefined && saveTo !== '';
  let response: HttpResponse;
  try {
    response = await httpRequest.execute(isSaved ? { responseType: 'arraybuffer' } : {});
  } catch (error) {
    const refused = (error as { response?: HttpResponse }).response;
    if (refused !== undefined) {
      $.export('response', { ...headOf(refused), data: refused.data });
      $.export('$summary', `${describeRequest(httpRequest)}: ${statusOf(refused)}`);
      addReason(error as Error, refused.data);
    }
    throw error;
  }
  $.export('response', headOf(response));
  $.export('$summary', `${describeRequest(httpRequest)}: ${statusOf(response)}`);
  return isSaved ? save(response, saveTo) : response.data;
}

/** Services say in the body why they refuse a request. */
function addReason(error: Error, data: unknown): void {
  const text = (typeof data === 'string' ? data : (JSON.stringify(data) ?? '')).trim();
  if (text === '' || Buffer.isBuffer(data)) return;
  const { message, stack } = error;
  error.message = `${message}: ${text.length > reasonCharactersMax ? `${text.slice(0, reasonCharactersMax)}…` : text}`;
  if (stack !== undefined) error.stack = stack.replace(message, () => error.message);
}

function headOf({ status, statusText, headers }: HttpResponse) {
  return { status, statusText, headers };
}

function statusOf({ status, statusText }: HttpResponse): string {
  return `${status} ${statusText}`.trim();
}

/** The URL without its query and credentials, which may be secrets. */
function describeRequest({ method, url }: RequestAction['httpRequest']): string {
  const parsed = URL.parse(String(url ?? '').trim());
  return `${String(method || 'GET').toUpperCase()} ${parsed === null ? '' : parsed.origin + parsed.pathname}`;
}

async function save({ data, headers }: HttpResponse, path: string) {
  const bytes = data as Buffer;
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, bytes);
  const type = headers['content-type'];
  return {
    path,
    name: basename(path),
    size: bytes.length,
    content_type: typeof type === 'string' ? type : null,
  };
}

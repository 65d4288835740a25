/** Feeds of real sites stay far below; a larger answer is a mistake or an attack. */
const feedBytesMax = 10 * 1024 * 1024;

/** From the request to the last byte. */
const fetchTimeoutMs = 60_000;

/** What the server said to recognise this version of the feed by. Sent back, it may answer "not modified". */
export interface Validators {
  etag?: string;
  lastModified?: string;
}

export type FetchedFeed =
  | { status: 'not_modified' }
  /** `url`: where the feed was found, after redirects. */
  | { status: 'fetched'; text: string; url: string; validators: Validators };

/** Downloads a feed. Throws an Error with a message for the user who entered the URL. */
export async function fetchFeed(url: string, validators: Validators = {}): Promise<FetchedFeed> {
  const { address, headers } = requestFor(url, validators);
  try {
    const response = await fetch(address, { headers, signal: AbortSignal.timeout(fetchTimeoutMs) });
    if (response.status === 304) {
      await response.body?.cancel();
      return { status: 'not_modified' };
    }
    if (!response.ok) {
      await response.body?.cancel();
      throw new FeedError(`it answered HTTP ${response.status} ${response.statusText}`.trim());
    }
    const bytes = await readBody(response);
    const text = decode(bytes, response.headers.get('content-type') ?? '');
    return { status: 'fetched', text, url: response.url, validators: validatorsOf(response.headers) };
  } catch (error) {
    throw new Error(`Could not read the feed at ${address}: ${reasonOf(error)}`, { cause: error });
  }
}

class FeedError extends Error {}

function requestFor(url: string, validators: Validators): { address: URL; headers: Record<string, string> } {
  const address = URL.parse(url.trim());
  if (address === null || !/^https?:$/.test(address.protocol)) {
    throw new Error(
      `Not the URL of a feed: ${JSON.stringify(url)}. It has to start with https:// or http://`,
    );
  }
  const headers: Record<string, string> = {
    accept:
      'application/rss+xml, application/atom+xml, application/feed+json, application/xml;q=0.9, */*;q=0.5',
    'user-agent': 'Mozilla/5.0 (compatible; Millrace feed reader)',
  };
  if (validators.etag !== undefined) headers['if-none-match'] = validators.etag;
  if (validators.lastModified !== undefined) headers['if-modified-since'] = validators.lastModified;
  // fetch refuses a name and password in the URL; sent as a header they also stay out of error messages.
  if (address.username !== '' || address.password !== '') {
    const pair = `${decodeURIComponent(address.username)}:${decodeURIComponent(address.password)}`;
    headers.authorization = `Basic ${Buffer.from(pair).toString('base64')}`;
    address.username = '';
    address.password = '';
  }
  return { address, headers };
}

function validatorsOf(headers: Headers): Validators {
  const validators: Validators = {};
  const etag = headers.get('etag');
  if (etag !== null) validators.etag = etag;
  const lastModified = headers.get('last-modified');
  if (lastModified !== null) validators.lastModified = lastModified;
  return validators;
}

async function readBody(response: Response): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  // Leaving the loop by throwing cancels the download.
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > feedBytesMax) throw new FeedError(`it is larger than ${feedBytesMax / 1024 / 1024} MB`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** The encoding, by falling authority: byte order mark, `content-type`, the XML declaration, UTF-8. */
function decode(bytes: Buffer, contentType: string): string {
  const declared =
    markOf(bytes) ??
    /charset\s*=\s*"?([^\s;"]+)/i.exec(contentType)?.[1] ??
    /^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([^"']+)["']/i.exec(bytes.toString('latin1', 0, 300))?.[1];
  try {
    return new TextDecoder(declared).decode(bytes);
  } catch {
    // An unknown label: most feeds are UTF-8 whatever they say.
    return new TextDecoder().decode(bytes);
  }
}

function markOf(bytes: Buffer): string | undefined {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return 'utf-8';
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le';
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be';
  return undefined;
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return `no complete answer within ${fetchTimeoutMs / 1000} seconds`;
  const { cause } = error;
  // fetch says only "fetch failed"; its cause knows what happened.
  if (!(cause instanceof Error)) return error.message;
  const { code } = cause as { code?: unknown };
  return cause.message || (typeof code === 'string' ? code : error.message);
}

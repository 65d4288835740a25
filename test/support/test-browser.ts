/** What a browser ended up with. */
export interface Visit {
  status: number;
  url: string;
  headers: Headers;
  text: string;
  /** Every URL on the way, the last one included. */
  trail: string[];
}

interface Cookie {
  origin: string;
  path: string;
  value: string;
}

/**
 * Follows redirects and keeps cookies, by origin and path, as far as tests need it. No scripts. On a page that has nothing
 * to fill in, only a button to agree with, it presses that one.
 */
export class TestBrowser {
  readonly #cookies = new Map<string, Cookie & { name: string }>();

  /** `stopBefore`: a URL that matches is not asked for; then it is `url`, and the status that of the redirect. */
  async visit(
    url: string,
    options: { form?: Record<string, string>; stopBefore?: (url: string) => boolean } = {},
  ): Promise<Visit> {
    const trail = [url];
    let { form } = options;
    let next = url;
    let pressed = false;
    for (let hops = 0; hops < 20; hops += 1) {
      const response = await fetch(next, {
        method: form === undefined ? 'GET' : 'POST',
        redirect: 'manual',
        headers: { cookie: this.#cookieHeader(next) },
        ...(form === undefined ? {} : { body: new URLSearchParams(form) }),
      });
      this.#keep(next, response.headers.getSetCookie());
      const text = await response.text();
      const location = response.headers.get('location');
      const visit = { status: response.status, url: next, headers: response.headers, text, trail };
      const isRedirect = response.status >= 300 && response.status <= 399 && location !== null;
      const agreement = formToAgree(text);
      const target = isRedirect ? new URL(location, next).href : pressed ? refreshOf(text) : undefined;
      if (agreement !== undefined && form === undefined && !pressed) {
        pressed = true;
        form = agreement;
        continue;
      }
      if (target === undefined) return visit;
      form = undefined;
      next = target;
      trail.push(next);
      if (options.stopBefore?.(next) === true) return { ...visit, url: next };
    }
    throw new Error(`too many redirects: ${trail.join('\n')}`);
  }

  /** A request as a page of this browser sends it, with the cookies of its origin. Redirects are not followed. */
  async ask(
    method: string,
    url: string,
    options: { headers?: Record<string, string>; body?: unknown } = {},
  ): Promise<Response> {
    const { headers = {}, body } = options;
    const response = await fetch(url, {
      method,
      redirect: 'manual',
      headers: {
        cookie: this.#cookieHeader(url),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    this.#keep(url, response.headers.getSetCookie());
    return response;
  }

  get cookies(): string[] {
    return [...this.#cookies.values()].map(({ name, value }) => `${name}=${value}`);
  }

  #cookieHeader(url: string): string {
    const { origin, pathname } = new URL(url);
    return [...this.#cookies.values()]
      .filter((cookie) => cookie.origin === origin && pathname.startsWith(cookie.path))
      .map(({ name, value }) => `${name}=${value}`)
      .join('; ');
  }

  #keep(url: string, headers: string[]): void {
    for (const header of headers) {
      const [pair = '', ...attributes] = header.split(';').map((part) => part.trim());
      const at = pair.indexOf('=');
      const name = pair.slice(0, at);
      const value = pair.slice(at + 1);
      const path = attributes.find((part) => /^path=/i.test(part))?.slice(5) ?? '/';
      const { origin } = new URL(url);
      const key = `${origin} ${path} ${name}`;
      if (value === '' || attributes.some((part) => /^max-age=0$/i.test(part))) this.#cookies.delete(key);
      else this.#cookies.set(key, { origin, path, name, value });
    }
  }
}

/** The fields of a form that has hidden ones alone; undefined: there is none, or a user has to fill it in. */
function formToAgree(html: string): Record<string, string> | undefined {
  const form = /<form method="post".*?<\/form>/s.exec(html)?.[0];
  if (form === undefined || /<(input type="(?!hidden)|textarea|select)|<input (?!type=)/.test(form))
    return undefined;
  const inputs = form.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)">/g);
  return Object.fromEntries([...inputs].map(([, name = '', value = '']) => [name, value]));
}

function refreshOf(html: string): string | undefined {
  return /http-equiv="refresh" content="0;url=([^"]+)"/.exec(html)?.[1]?.replaceAll('&amp;', '&');
}

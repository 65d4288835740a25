import { CallerError } from '#lib/errors.ts';

/** True when a text that names a component is a URL, and not a key or an id. */
export function isComponentUrl(text: string): boolean {
  return /^https?:\/\//i.test(text);
}

/** Throws CallerError `invalid_parameter`, which never shows a password. */
export function requireComponentUrl(text: string): void {
  const url = URL.parse(text);
  if (url !== null && (url.username !== '' || url.password !== '')) {
    throw new CallerError(
      'invalid_parameter',
      `component_url: found a user name or password in the URL of ${JSON.stringify(url.host)}, expected a URL without; the code has to be readable without signing in, or is sent as component_code`,
      { parameter: 'component_url' },
    );
  }
  if (url === null || !/^https?:$/.test(url.protocol)) {
    // A text that cannot be read as a URL may have a password anywhere before its last "@".
    const shown = text.replace(/^.*@/s, '…@').slice(0, 200);
    throw new CallerError(
      'invalid_parameter',
      `component_url: found ${JSON.stringify(shown)}, expected an http or https URL`,
      { parameter: 'component_url' },
    );
  }
}

import { createHash } from 'node:crypto';
import { must } from '#lib/assert.ts';

/** The id of an app: derived from the slug, so it is the same everywhere and always, also for apps without a description. */
export function appIdOf(slug: string): string {
  const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
  const digest = createHash('sha256').update(`app ${slug}`).digest();
  const characters = [...digest.subarray(0, 12)].map((byte) =>
    must(alphabet[byte % alphabet.length], 'character'),
  );
  return `app_${characters.join('')}`;
}

export function isAppId(text: string): boolean {
  return /^app_[0-9A-Za-z]{12}$/.test(text);
}

export function isAppSlug(text: string): boolean {
  return /^[a-z0-9][a-z0-9_-]{0,63}$/.test(text);
}

/** The name of an app without a description: `google_sheets` is shown as Google Sheets. */
export function appNameOf(slug: string): string {
  return slug
    .split(/[_-]+/)
    .filter((word) => word !== '')
    .map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`)
    .join(' ');
}

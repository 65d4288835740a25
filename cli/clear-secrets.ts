import { isObject } from './api.ts';
import { replaceSecrets } from './find-secrets.ts';

/** What the API shows in place of a secret; sent back, it means "unchanged". Files have it for secrets that stand in clear, too. */
export const maskedSecret = '••••••••';

type Fields = Readonly<Record<string, unknown>>;

/**
 * Props with the secrets that stand in clear masked, in a text only the part that is secret. `onSecret` gets the path of each and its value,
 * `onUnsure` the place of each text that may be a secret and stays.
 */
export function maskProps(
  props: Fields,
  {
    onSecret,
    onUnsure,
  }: { onSecret: (path: string, value: string) => void; onUnsure: (place: string) => void },
): Record<string, unknown> {
  return replaceSecrets(props, {
    replace({ path, value, quote }) {
      onSecret(path, value);
      return `${quote}${maskedSecret}${quote}`;
    },
    onUnsure,
  });
}

/**
 * Props with what the service has in place of each mask. `present`: the props there. `secretAt` answers for a mask that nothing is there for; the
 * second mask of a text has `#2` behind its place, and so on.
 */
export function unmaskProps(
  props: Fields,
  present: Fields,
  place: string,
  secretAt: (place: string) => unknown,
): Record<string, unknown> {
  const secrets = new Map<string, string[]>();
  maskProps(present, {
    onSecret: (path, value) => secrets.set(path, [...(secrets.get(path) ?? []), value]),
    onUnsure: () => {},
  });
  const find = { secretAt, secretsOf: (path: string) => secrets.get(path) ?? [] };
  return Object.fromEntries(
    Object.entries(props).map(([name, value]) => [
      name,
      unmask(value, { present: present[name], path: name, place: `${place}.${name}` }, find),
    ]),
  );
}

/** The value of the service with its path, and the place of the one that is unmasked. */
interface Counterpart {
  present: unknown;
  path: string;
  place: string;
}

interface FindSecrets {
  secretAt: (place: string) => unknown;
  /** Those that stand in clear in a text of the service. */
  secretsOf: (path: string) => readonly string[];
}

function unmask(value: unknown, there: Counterpart, find: FindSecrets): unknown {
  const { present, path, place } = there;
  // The service masks what it keeps as a secret, and takes the mask for it.
  if (value === maskedSecret) return typeof present === 'string' ? present : find.secretAt(place);
  if (typeof value === 'string') return value.includes(maskedSecret) ? unmaskText(value, there, find) : value;
  if (Array.isArray(value)) {
    const before: readonly unknown[] = Array.isArray(present) ? present : [];
    return value.map((one, index) => {
      const at = indexOfPair(one, index, before);
      return unmask(one, { present: before[at], path: `${path}[${at}]`, place: `${place}[${index}]` }, find);
    });
  }
  if (!isObject(value)) return value;
  const before = isObject(present) ? present : {};
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [
      name,
      unmask(one, { present: before[name], path: `${path}.${name}`, place: `${place}.${name}` }, find),
    ]),
  );
}

/** A text with masks in it: with its secrets there when it has as many there. */
function unmaskText(
  text: string,
  { path, place }: Counterpart,
  { secretAt, secretsOf }: FindSecrets,
): string {
  const [first = '', ...rest] = text.split(maskedSecret);
  const known = secretsOf(path);
  const secrets =
    known.length === rest.length
      ? known
      : rest.map((_part, index) => secretAt(index === 0 ? place : `${place}#${index + 1}`));
  return first + rest.map((part, index) => `${String(secrets[index] ?? '')}${part}`).join('');
}

/** A header is the same one when it has the same name, wherever it stands. */
function indexOfPair(one: unknown, index: number, before: readonly unknown[]): number {
  if (!isObject(one) || typeof one.name !== 'string') return index;
  const there = before[index];
  if (isObject(there) && there.name === one.name) return index;
  return before.findIndex((other) => isObject(other) && other.name === one.name);
}

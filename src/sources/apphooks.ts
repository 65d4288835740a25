import type { PropDefinition } from '#components/component-shape.ts';
import { isRecord } from '#components/validate-props.ts';
import { CallerError } from '#lib/errors.ts';

/** Events of one app that a source listens to, by name. */
export interface Apphook {
  prop: string;
  /** Slug. */
  app: string;
  /** As in the component; `*` matches any text. */
  names: string[];
}

/** Names of one source, all its apphooks together. */
export const eventNamesMax = 1_000;
export const eventNameCharactersMax = 255;
/** `*` in one name: what each costs is paid for every event. */
const starsMax = 10;
/** Maximum length of the slug of an app. */
export const appCharactersMax = 100;
/** What a prop listens to that names nothing: all events of its app. */
const everything = '*';

export function hasApphook(definitions: readonly PropDefinition[]): boolean {
  return definitions.some(isApphook);
}

/** True when only the code knows the names of the events. */
export function asksEventNames(definitions: readonly PropDefinition[]): boolean {
  return definitions.some((definition) => isApphook(definition) && !Array.isArray(definition.eventNames));
}

/**
 * What the apphook props of a source listen to: `eventNames` and `static`, or all events of the app where there is neither.
 * `answered`: the code's answers, by prop; null: none. Throws CallerError `invalid_component` that names the prop.
 */
export function apphooksIn(
  definitions: readonly PropDefinition[],
  answered: Record<string, unknown>,
  redact: (text: string) => string,
): Apphook[] {
  const apphooks = definitions.filter(isApphook).map((definition): Apphook => {
    const { name } = definition;
    const app = appOf(definition, definitions);
    const fixed = namesIn(name, 'static', definition.static ?? []);
    const given = Array.isArray(definition.eventNames) ? definition.eventNames : answered[name];
    const chosen = given === undefined || given === null ? undefined : namesIn(name, 'eventNames', given);
    const names = chosen === undefined && fixed.length === 0 ? [everything] : [...fixed, ...(chosen ?? [])];
    // Names are kept and shown in clear.
    if (names.some((one) => redact(one) !== one))
      throw apphookError(name, 'an event name has a secret of the source in it, and would be kept in clear');
    return { prop: name, app, names: [...new Set(names)] };
  });
  const count = apphooks.reduce((sum, { names }) => sum + names.length, 0);
  if (count > eventNamesMax)
    throw apphookError(
      apphooks[0]?.prop ?? '',
      `a source may listen to ${eventNamesMax} event names, found ${count}`,
    );
  return apphooks;
}

/** True when a source that listens to `name` gets an event that is pushed under `pushed`. */
export function isNamed(name: string, pushed: string): boolean {
  return name.includes('*') ? matchesGlob(name, pushed) : name === pushed || pushed.startsWith(`${name}:`);
}

/** The look-up key of a name: itself or, with a `*` in it, its part up to and including the first one. */
export function lookupOf(name: string): string {
  const at = name.indexOf('*');
  return at === -1 ? name : name.slice(0, at + 1);
}

/** Every `lookupOf` of names that may match an event pushed under `pushed`. */
export function lookupsFor(pushed: string): string[] {
  const lookups = [pushed];
  for (let at = 0; at <= pushed.length; at += 1) {
    const before = pushed.slice(0, at);
    lookups.push(`${before}*`);
    if (pushed[at] === ':') lookups.push(before);
  }
  return lookups;
}

function isApphook(definition: PropDefinition): boolean {
  return definition.type === '$.interface.apphook';
}

/** By the name of the app's prop or, as some components have it, by the app's slug; most have one app only. */
function appOf(definition: PropDefinition, definitions: readonly PropDefinition[]): string {
  const { appProp } = definition;
  const apps = definitions.filter(({ type }) => type === 'app');
  const found =
    apps.find(({ name }) => name === appProp) ??
    apps.find(({ app }) => app === appProp) ??
    (apps.length === 1 ? apps[0] : undefined);
  if (typeof found?.app === 'string' && found.app !== '') {
    if (found.app.length <= appCharactersMax && isStorable(found.app)) return found.app;
    throw apphookError(
      definition.name,
      `the slug of its app must have at most ${appCharactersMax} characters, all of them text`,
    );
  }
  const names = apps.map(({ name }) => name).join(', ');
  throw apphookError(
    definition.name,
    `appProp ${JSON.stringify(appProp) ?? 'is missing, which'} names no app prop; there ${apps.length === 0 ? 'is none' : `are ${names}`}`,
  );
}

/** Half characters would all be stored as the same one. */
function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0');
}

/** Ids of channels may be numbers, and chosen options may come with their label. */
function namesIn(prop: string, attribute: string, value: unknown): string[] {
  const values: unknown[] = Array.isArray(value) ? value : [value];
  return values.map((item) => {
    const plain = isRecord(item) && 'value' in item ? item.value : item;
    const name = typeof plain === 'number' ? String(plain) : plain;
    if (typeof name !== 'string' || name === '' || name.length > eventNameCharactersMax || !isStorable(name))
      throw apphookError(
        prop,
        `${attribute} must be texts of 1 to ${eventNameCharactersMax} characters, found ${found(item)}`,
      );
    if (name.split('*').length > starsMax + 1)
      throw apphookError(prop, `${attribute} may have ${starsMax} "*" in a name, found ${found(item)}`);
    return name;
  });
}

function found(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

function apphookError(prop: string, message: string): CallerError {
  return new CallerError('invalid_component', `prop ${JSON.stringify(prop)}: ${message}`, {
    parameter: 'component_id',
    prop,
  });
}

/**
 * Each text between two `*` is looked for from where the one before ended; the first such place is as good as any. A
 * regular expression with many `*` would try them all, and one made of steps in here takes ten times as long.
 */
function matchesGlob(pattern: string, text: string): boolean {
  const [first = '', ...others] = pattern.split('*');
  const last = others.pop() ?? '';
  if (!text.startsWith(first) || !text.endsWith(last)) return false;
  const end = text.length - last.length;
  let at = first.length;
  for (const part of others) {
    const found = text.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return at <= end;
}

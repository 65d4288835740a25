import { CallerError } from '#lib/errors.ts';

/** A part of a definition, as an answer names it. */
export interface Place {
  /** Such as `steps[1]`. */
  parameter: string;
  /** The step's, so that a step of a template is recognised too. */
  namespace?: string;
  /** What parts of it are called where they are checked, and are called here: `{ configured_props: 'steps[1].props' }`. */
  names?: Readonly<Record<string, string>>;
}

/** Does the work; its errors name a parameter below this place. */
export async function atParameter<T>(place: Place, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof CallerError ? relocated(error, place) : error;
  }
}

function relocated(error: CallerError, { parameter: whole, namespace, names = {} }: Place): CallerError {
  const before = typeof error.details.parameter === 'string' ? error.details.parameter : undefined;
  const from = Object.keys(names).find(
    (name) => before === name || before?.startsWith(`${name}.`) || before?.startsWith(`${name}[`),
  );
  const parameter =
    before === undefined || from === undefined ? whole : `${names[from]}${before.slice(from.length)}`;
  const prefix = `${before}: `;
  const message = error.message.startsWith(prefix) ? error.message.slice(prefix.length) : error.message;
  const details = { ...error.details, parameter, ...(namespace === undefined ? {} : { namespace }) };
  // The requested object exists; the one that the definition names does not, or belongs to another owner, so the definition is wrong.
  const code = error.code === 'not_found' ? 'invalid_parameter' : error.code;
  return new CallerError(code, `${parameter}: ${message}`, details, { cause: error });
}

/** A value of a definition that cannot be used. */
export function invalidAt(parameter: string, message: string, code = 'invalid_parameter'): CallerError {
  return new CallerError(code, `${parameter}: ${message}`, { parameter });
}

/** PostgreSQL cannot store it in text. */
export function refuseNul(text: string | undefined, parameter: string): void {
  if (text?.includes('\u0000') === true) throw invalidAt(parameter, 'must not contain the character U+0000');
}

export function refuseUnknownFields(value: object, known: readonly string[], at: string): void {
  const unknown = Object.keys(value).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw invalidAt(
    `${at}.${unknown}`,
    `there is no such field; there ${known.length === 0 ? 'is none' : `are ${known.join(', ')}`}`,
    'unknown_parameter',
  );
}

export function quoted(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

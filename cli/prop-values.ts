import { readFile } from 'node:fs/promises';
import type { ConfigurableProp } from '#sdk';
import { isObject } from './api.ts';
import { usageError } from './exit-codes.ts';
import type { Session } from './session.ts';

/** Props that the platform provides or that are only shown. The user is not asked for them. */
const notAsked = new Set(['$.interface.http', '$.interface.apphook', '$.service.db', 'alert']);

export interface GivenProps {
  /** From a file of JSON: as they are. */
  values: Readonly<Record<string, unknown>>;
  /** From `--prop name=value`: texts, read by the type of the prop. */
  texts: ReadonlyMap<string, string>;
}

export async function readGivenProps(
  session: Session,
  options: { prop?: readonly string[]; props?: string },
): Promise<GivenProps> {
  const texts = new Map<string, string>();
  for (const pair of options.prop ?? []) {
    const at = pair.indexOf('=');
    if (at < 1) throw usageError(`--prop ${pair}: expected name=value`);
    texts.set(pair.slice(0, at), pair.slice(at + 1));
  }
  const values = options.props === undefined ? {} : await readJsonFile(session, options.props, '--props');
  if (!isObject(values)) throw usageError('--props: expected a JSON object of props');
  return { values, texts };
}

/** JSON of a file, or of standard input for `-`. */
export async function readJsonFile(session: Session, file: string, option: string): Promise<unknown> {
  const text = await readTextFile(session, file, option);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw usageError(
      `${option} ${file}: found text that is not JSON, expected JSON: ${(error as Error).message}`,
    );
  }
}

/** Text of a file, or of standard input for `-`. */
export async function readTextFile(session: Session, file: string, option: string): Promise<string> {
  if (file === '-') {
    const chunks: Buffer[] = [];
    for await (const chunk of session.terminal.streams.stdin) chunks.push(Buffer.from(chunk as Uint8Array));
    return Buffer.concat(chunks).toString();
  }
  const path = session.path(file);
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT')
      throw usageError(`${option}: there is no file ${path}`);
    throw usageError(`${option} ${file}: ${(error as Error).message}`);
  }
}

export function isAskedFor({ type, hidden, disabled, static: fixed }: ConfigurableProp): boolean {
  return !notAsked.has(type) && hidden !== true && disabled !== true && fixed === undefined;
}

export function isNeeded(definition: ConfigurableProp): boolean {
  return isAskedFor(definition) && definition.optional !== true && definition.default === undefined;
}

/** The name of a prop in a question. */
export function titleOf({ label, name, type }: ConfigurableProp): string {
  return label === undefined || label === name ? `${name} (${type})` : `${label} (${name}, ${type})`;
}

/** Parses a text as a value of a prop. Throws a usage error that says what was expected. */
export function readPropText(definition: ConfigurableProp, text: string): unknown {
  const { name, type } = definition;
  switch (type) {
    case 'string':
      return text;
    case 'integer':
    case 'number': {
      const value = Number(text);
      if (text.trim() === '' || !Number.isFinite(value) || (type === 'integer' && !Number.isInteger(value)))
        throw usageError(
          `prop ${name}: expected ${type === 'integer' ? 'an integer' : 'a number'}, found ${JSON.stringify(text)}`,
        );
      return value;
    }
    case 'boolean':
      if (text === 'true' || text === 'false') return text === 'true';
      throw usageError(`prop ${name}: expected true or false, found ${JSON.stringify(text)}`);
    case 'app':
      return text.startsWith('{') ? readJson(name, text) : { authProvisionId: text };
    case '$.interface.timer':
      if (/^\d+$/.test(text)) return { intervalSeconds: Number(text) };
      return text.startsWith('{') ? readJson(name, text) : { cron: text };
    case 'object':
      return readJson(name, text);
    case 'any':
    case 'sql':
    case 'http_request':
      return jsonOrText(text);
    default:
      return type.endsWith('[]') ? readArray(definition, text) : jsonOrText(text);
  }
}

/** A JSON array, or values with commas between them. */
function readArray({ name, type, ...rest }: ConfigurableProp, text: string): unknown[] {
  if (text.trimStart().startsWith('[')) {
    const value = readJson(name, text);
    if (Array.isArray(value)) return value;
  }
  if (text.trim() === '') return [];
  return text.split(',').map((part) => readPropText({ ...rest, name, type: type.slice(0, -2) }, part.trim()));
}

function readJson(name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw usageError(`prop ${name}: expected JSON: ${(error as Error).message}`);
  }
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

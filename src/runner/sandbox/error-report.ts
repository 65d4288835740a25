import { withoutPackageFolders } from './package-imports.ts';
import { jsonStringify } from './primordials.ts';
import { mapStack, withoutPlaces } from './source-map.ts';

export interface ErrorReport {
  name: string;
  message: string;
  stack: string;
  code?: string;
}

/** Maximum characters of an error text. It is shown to users and stored. */
const messageCharactersMax = 64 * 1024;
const stackCharactersMax = 16 * 1024;
const nameCharactersMax = 200;
/** Maximum reported causes of an error, each the cause of the one before. */
const causesMax = 5;

/**
 * Turns any thrown value (null, a Proxy, an error with throwing getters) into four short texts. The stack has only lines of the component's own
 * files. Never throws.
 */
export function reportError(thrown: unknown): ErrorReport {
  try {
    return describeThrown(thrown);
  } catch {
    return { name: 'Error', message: 'a value was thrown that cannot be read', stack: '' };
  }
}

function describeThrown(thrown: unknown): ErrorReport {
  if ((typeof thrown !== 'object' && typeof thrown !== 'function') || thrown === null) {
    const message = typeof thrown === 'string' ? thrown : `thrown: ${String(thrown)}`;
    return { name: 'Error', message: cut(message, messageCharactersMax), stack: '' };
  }
  const name = read(thrown, 'name');
  const message = read(thrown, 'message');
  const stack = read(thrown, 'stack');
  const code = read(thrown, 'code');
  const report: ErrorReport = {
    name: typeof name === 'string' && name !== '' ? cut(name, nameCharactersMax) : 'Error',
    message: cut(
      typeof message === 'string'
        ? withoutPlaces(withoutPackageFolders(message))
        : `thrown: ${inspectPlainly(thrown)}`,
      messageCharactersMax,
    ),
    stack: cut((typeof stack === 'string' ? shownStack(stack) : '') + causesOf(thrown), stackCharactersMax),
  };
  if (typeof code === 'string' || typeof code === 'number')
    report.code = cut(String(code), nameCharactersMax);
  return report;
}

/** Adds the causes to the message: `fetch failed` alone does not say that the connection was refused, and by which host. */
function causesOf(thrown: object): string {
  let text = '';
  let cause = read(thrown, 'cause');
  for (let told = 0; told < causesMax && typeof cause === 'object' && cause !== null; told += 1) {
    const stack = read(cause, 'stack');
    const message = read(cause, 'message');
    const shown = typeof stack === 'string' && stack !== '' ? shownStack(stack) : message;
    if (typeof shown !== 'string') break;
    text += `\nCaused by: ${cut(shown, stackCharactersMax)}`;
    cause = read(cause, 'cause');
  }
  return text;
}

/** Cuts the stack first, because code may have set one of any length. */
function shownStack(stack: string): string {
  return withoutPlaces(withoutPackageFolders(mapStack(cut(stack, stackCharactersMax))));
}

function read(from: object, key: string): unknown {
  try {
    return (from as Record<string, unknown>)[key];
  } catch {
    return undefined;
  }
}

function inspectPlainly(value: object): string {
  try {
    return jsonStringify(value) ?? typeof value;
  } catch {
    return typeof value;
  }
}

function cut(text: string, charactersMax: number): string {
  return text.length > charactersMax ? `${text.slice(0, charactersMax)}… [cut]` : text;
}

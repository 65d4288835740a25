import { isDeepStrictEqual } from 'node:util';
import { type Document, parseDocument, Scalar, stringify, visit } from 'yaml';
import { CliError } from './exit-codes.ts';
import { visible } from './visible-text.ts';

/** Aliases in one file; we write none, and a few lines of them can stand for gigabytes. */
const aliasesMax = 100;
const yamlBytesMax = 4 * 1024 * 1024;

/** Characters that are invisible or end a line for some readers: escaped, so that a reviewer sees them. A joiner inside an emoji is none. */
const invisible = /[\u007f-\u009f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
/** Text of which a block of lines would hide or lose something: line ends, spaces at ends of lines and invisible characters. */
const needsQuotes =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
  /[ \t](?:\n|$)|^[ \t\n]|\n\n$|[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\p{Cs}]/u;

const textOptions = {
  // A line that is folded changes all lines after the word that was changed.
  lineWidth: 0,
  // Readers of YAML 1.1 take Yes, 0777 and 12:30 for something else than text.
  compat: 'yaml-1.1',
  aliasDuplicateObjects: false,
} as const;

/** Always the same text for the same value, in the order of its fields; reading it gives the value. */
export function yamlText(value: object, comment?: string): string {
  const head = comment === undefined ? '' : `${comment.replace(/^/gm, '# ')}\n`;
  const text = escaped(stringify(quoted(value), textOptions));
  if (isDeepStrictEqual(parseDocument(text).toJS({ maxAliasCount: 0 }), value)) return head + text;
  return head + escaped(stringify(value, { ...textOptions, defaultStringType: 'QUOTE_DOUBLE' }));
}

function escaped(text: string): string {
  return text.replace(invisible, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

function quoted(value: unknown): unknown {
  if (typeof value === 'string') {
    if (!needsQuotes.test(value)) return value;
    const scalar = new Scalar(value);
    scalar.type = 'QUOTE_DOUBLE';
    return scalar;
  }
  if (Array.isArray(value)) return value.map(quoted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, quoted(one)]));
}

/** The document of a file, so that comments stay when it is changed. Throws what is wrong, with its line. */
export function readYamlDocument(text: string, file: string): Document.Parsed {
  if (text.length > yamlBytesMax) throw unreadable(file, `more than ${yamlBytesMax} characters`);
  if (/^(?:<{7}|>{7}) /m.test(text))
    throw unreadable(file, 'it has conflict markers of Git: resolve them first');
  const document = parseDocument(text, { prettyErrors: true });
  const [error] = document.errors;
  if (error !== undefined) throw unreadable(file, error.message);
  return document;
}

/** The value of a file, which must be an object. */
export function readYaml(text: string, file: string): Record<string, unknown> {
  const document = readYamlDocument(text, file);
  let value: unknown;
  try {
    value = document.toJS({ maxAliasCount: aliasesMax });
  } catch (error) {
    throw unreadable(file, (error as Error).message);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw unreadable(file, 'expected fields');
  return value as Record<string, unknown>;
}

/** Texts that a changed document was given are quoted as those of `yamlText`. */
export function documentText(document: Document): string {
  visit(document, {
    Scalar(_key, node) {
      if (typeof node.value === 'string' && needsQuotes.test(node.value)) node.type = 'QUOTE_DOUBLE';
    },
  });
  return document.toString(textOptions);
}

function unreadable(file: string, why: string): CliError {
  return new CliError('failed', `${visible(file)}: ${why.trim()}`);
}

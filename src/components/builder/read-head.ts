import { transform } from 'esbuild';
import type { ComponentHead, PackageFile } from './build-messages.ts';
import { type Token, tokensOf } from './js-tokens.ts';

const fields = ['type', 'key', 'name', 'version', 'description', 'app'] as const;

/**
 * What a file says of the component it exports, by reading: the literal properties of the exported object, wherever
 * `export default`, `module.exports` or a function around it (`defineAction({…})`) has it. Nothing is evaluated, so a value
 * that is computed is not known. `problem` says where the text does not parse.
 */
export async function readHead({
  path,
  text,
}: PackageFile): Promise<{ head: ComponentHead | null; problem?: string }> {
  try {
    return { head: headOf([...tokensOf(await normalise(path, text))]) };
  } catch (error) {
    return { head: null, problem: messageOf(error) };
  }
}

/** The same program without comments and types, with strings in one form and put together where they are added up. */
async function normalise(path: string, text: string): Promise<string> {
  const options = { minifySyntax: true, charset: 'utf8', legalComments: 'none', logLevel: 'silent' } as const;
  const asTypeScript = () => transform(text, { ...options, loader: 'ts' });
  if (/\.[mc]?ts$/.test(path)) return (await asTypeScript()).code;
  return (await transform(text, { ...options, loader: 'js' })).code;
}

/** Messages quote the text, and one token of it may be as long as the file. */
const messageMax = 300;

function messageOf(error: unknown): string {
  const message = fullMessageOf(error);
  return message.length <= messageMax ? message : `${message.slice(0, messageMax).toWellFormed()}…`;
}

function fullMessageOf(error: unknown): string {
  const first = (error as { errors?: { text: string; location: { line: number; column: number } | null }[] })
    .errors?.[0];
  if (first === undefined) return error instanceof Error ? error.message : String(error);
  return first.location === null
    ? first.text
    : `${first.text} (${first.location.line}:${first.location.column + 1})`;
}

function headOf(tokens: readonly Token[]): ComponentHead | null {
  const exported = exportedAt(tokens);
  const at = exported === undefined ? undefined : objectAt(tokens, exported, 0);
  if (at === undefined) return null;
  const head: ComponentHead = {};
  let depth = 0;
  for (let index = at; index < tokens.length; index += 1) {
    const token = tokens[index] as Token;
    if (isOpening(token)) depth += 1;
    else if (isClosing(token)) depth -= 1;
    if (depth === 0) break;
    const before = tokens[index - 1];
    const startsProperty = depth === 1 && before !== undefined && (is(before, '{') || is(before, ','));
    const name = fields.find((field) => field === token.text);
    if (!startsProperty || name === undefined || token.kind === 'punctuation') continue;
    const after = tokens[index + 1];
    const end = tokens[index + 3];
    // `key,` is the same as `key: key`; anything longer than one token is computed.
    const isShort = after !== undefined && (is(after, ',') || is(after, '}'));
    const value = isShort ? token : tokens[index + 2];
    if (!isShort && !(after !== undefined && is(after, ':') && end !== undefined && endsValue(end))) continue;
    const literal = value === undefined ? undefined : literalOf(tokens, value);
    if (literal !== undefined) head[name] = literal;
  }
  return head;
}

function endsValue(token: Token): boolean {
  return is(token, ',') || is(token, '}');
}

/** Index of the first token of what the file exports. */
function exportedAt(tokens: readonly Token[]): number | undefined {
  for (let index = 0; index + 2 < tokens.length; index += 1) {
    const [first, second, third, fourth] = tokens.slice(index, index + 4) as [Token, Token, Token, Token?];
    if (isWord(first, 'export') && isWord(second, 'default')) return index + 2;
    if (isWord(first, 'module') && is(second, '.') && isWord(third, 'exports') && fourth && is(fourth, '='))
      return index + 4;
    // export { name as default }
    if (isWord(second, 'as') && isWord(third, 'default') && first.kind === 'word') return index;
  }
  return undefined;
}

/** Index of the brace of the object that the expression at `index` gives: itself, by its name, or in a call. */
function objectAt(tokens: readonly Token[], index: number, level: number): number | undefined {
  const token = tokens[index];
  const next = tokens[index + 1];
  if (token === undefined || level > 4) return undefined;
  if (is(token, '{')) return index;
  if (is(token, '(')) return objectAt(tokens, index + 1, level + 1);
  if (token.kind !== 'word') return undefined;
  if (next !== undefined && is(next, '(')) return objectAt(tokens, index + 2, level + 1);
  const declared = declarationOf(tokens, token.text);
  return declared === undefined || declared === index ? undefined : objectAt(tokens, declared, level + 1);
}

/** Index of the first token of the value of `const name = …`. */
function declarationOf(tokens: readonly Token[], name: string): number | undefined {
  const at = tokens.findIndex((token, index) => {
    const [before, after] = [tokens[index - 1], tokens[index + 1]];
    return (
      isWord(token, name) &&
      after !== undefined &&
      is(after, '=') &&
      before !== undefined &&
      (['const', 'let', 'var'].some((word) => isWord(before, word)) || is(before, ','))
    );
  });
  return at === -1 ? undefined : at + 2;
}

function literalOf(tokens: readonly Token[], value: Token): string | undefined {
  if (value.kind === 'string') return value.text;
  if (value.kind !== 'word') return undefined;
  const declared = declarationOf(tokens, value.text);
  const found = declared === undefined ? undefined : tokens[declared];
  return found?.kind === 'string' ? found.text : undefined;
}

function isWord(token: Token, text: string): boolean {
  return token.kind === 'word' && token.text === text;
}

function is(token: Token, text: string): boolean {
  return token.kind === 'punctuation' && token.text === text;
}

function isOpening(token: Token): boolean {
  return token.kind === 'punctuation' && '{[('.includes(token.text);
}

function isClosing(token: Token): boolean {
  return token.kind === 'punctuation' && '}])'.includes(token.text);
}

import { compileFunction } from 'node:vm';

type Compiled = (steps: unknown, event: unknown) => unknown;

/** An expression in a text. */
export interface ExpressionPart {
  /** The source without its braces. */
  text: string;
  /** The index of the source in the text. */
  at: number;
  /** The compiled form, which evaluates it; undefined when it does not compile. */
  run: Compiled | undefined;
  /** Why it does not compile. */
  error?: unknown;
}

/** A part of a text: a literal, or an expression. */
export type Part = string | ExpressionPart;

export const opening = '{{';
export const closing = '}}';
/** Maximum attempts beyond the first `}}` to find the ends of the expressions in one text. */
const endsMax = 500;

/** What a compilation costs beside the characters of the expression, as a number of characters. Else `{{}}` would cost nothing, and take 0.05 ms. */
const compilationCharacters = 90;

/** What precedes an expression on the first line of what is compiled. */
const before = 'return (';
const fileName = 'expression';

/** How much may be tried to find the ends of expressions. */
export interface Tries {
  /** Attempts beyond the first `}}`. */
  left: number;
  /** Characters to compile; absent: any number. */
  characters?: number;
}

/** The parts of a text in their order. Nothing is evaluated. When `tries.characters` runs out, the rest is one literal. */
export function partsOfText(text: string, tries: Tries = { left: endsMax }): Part[] {
  const parts: Part[] = [];
  let at = 0;
  while ((tries.characters ?? 0) >= 0) {
    const start = text.indexOf(opening, at);
    const found = start === -1 ? undefined : partAt(text, start + opening.length, tries);
    if (found === undefined) break;
    if (start > at) parts.push(text.slice(at, start));
    parts.push(found.part);
    at = found.end;
  }
  if (at < text.length) parts.push(text.slice(at));
  return parts;
}

/**
 * Compiles the expression that begins at `start`. It ends at the first `}}` up to which the text compiles, so braces in texts, templates,
 * regular expressions and comments need no own parser. Undefined when no `}}` follows.
 */
export function partAt(
  text: string,
  start: number,
  tries: Tries = { left: endsMax },
): { part: ExpressionPart; end: number } | undefined {
  const firstEnd = text.indexOf(closing, start);
  if (firstEnd === -1) return undefined;
  let firstError: unknown;
  for (let end = firstEnd; end !== -1; end = text.indexOf(closing, end + 1)) {
    const expression = text.slice(start, end);
    if (tries.characters !== undefined) tries.characters -= expression.length + compilationCharacters;
    try {
      const run = compile(expression);
      return { part: { text: expression, at: start, run }, end: end + closing.length };
    } catch (error) {
      if (end === firstEnd) firstError = error;
    }
    tries.left -= 1;
    if (tries.left < 0 || (tries.characters ?? 0) < 0) break;
  }
  return {
    part: { text: text.slice(start, firstEnd), at: start, run: undefined, error: firstError },
    end: firstEnd + closing.length,
  };
}

function compile(expression: string): Compiled {
  // The newline ends a comment at the end of the expression.
  const run = compileFunction(`${before}${expression}\n);`, ['steps', 'event'], { filename: fileName });
  return (steps, event) => run.call(undefined, steps, event);
}

/** What the compiler says of an expression that does not compile. */
export function compileErrorOf({ text, error }: ExpressionPart): string {
  const message = messageOf(error);
  // The compiler may name the parenthesis that follows the expression, which its author has not written.
  return message === "Unexpected token ')'" && !text.includes(')') ? 'it ends too early' : message;
}

/** Where the compiler stopped, as an index in the text of the expression; its end when that is where it is. */
export function compileErrorAt({ text, error }: ExpressionPart): number {
  const [place = '', , carets = ''] = (error instanceof Error ? (error.stack ?? '') : '').split('\n');
  const line = Number(/^expression:(\d+)$/.exec(place)?.[1] ?? 0) - 1;
  const lines = text.split('\n');
  if (line < 0 || !carets.includes('^')) return 0;
  if (line >= lines.length) return text.length;
  const column = carets.indexOf('^') - (line === 0 ? before.length : 0);
  const start = lines.slice(0, line).reduce((sum, one) => sum + one.length + 1, 0);
  return Math.min(start + Math.max(column, 0), text.length);
}

export function messageOf(cause: unknown): string {
  return typeof cause === 'object' && cause !== null && 'message' in cause
    ? String(cause.message)
    : `thrown: ${String(cause)}`;
}

import { parseEnv } from 'node:util';

/** A .env file: its variables in the order of the file, and what is worth a word to its author. */
export interface EnvFile {
  variables: { name: string; value: string; line: number }[];
  /** Lines that set nothing, and variables that are set more than once. */
  remarks: string[];
}

/**
 * Reads a .env file. The values are those that `parseEnv` of Node finds; the lines are found here, because it reports neither them nor what it
 * leaves out.
 */
export function readEnvFile(text: string): EnvFile {
  const values = parseEnv(text);
  const lineOf = new Map<string, number>();
  const remarks: string[] = [];
  const lines = text.split(/\r?\n/);
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at]?.trim() ?? '';
    if (line === '' || line.startsWith('#')) continue;
    const number = at + 1;
    const [, name = '', rest = ''] = /^(?:export\s+)?([^=]*?)\s*=\s*(.*)$/.exec(line) ?? [];
    if (name === '') {
      remarks.push(`line ${number} sets nothing: expected NAME=value`);
      continue;
    }
    const before = lineOf.get(name);
    if (before !== undefined)
      remarks.push(`line ${number} sets ${name} again: its value counts, not that of line ${before}`);
    lineOf.set(name, number);
    at += linesOfValue(rest, lines.slice(at + 1));
  }
  const variables = Object.entries(values).map(([name, value = '']) => ({
    name,
    value,
    line: lineOf.get(name) ?? 1,
  }));
  for (const { name, value, line } of variables)
    if (/\$\{\w+\}/.test(value))
      remarks.push(`line ${line}: ${name} keeps its references: they are not expanded`);
  return { variables, remarks };
}

/** How many of the following lines belong to a value that begins with a quote. A quote without its end is an ordinary character. */
function linesOfValue(rest: string, following: readonly string[]): number {
  const quote = /^["'`]/.exec(rest)?.[0];
  if (quote === undefined || rest.indexOf(quote, 1) !== -1) return 0;
  return following.findIndex((line) => line.includes(quote)) + 1;
}

import type { KnownStep } from './code-context.ts';
import type { Known } from './dollar.ts';

const previewLength = 60;
/** Maximum of names that are read of one value. */
const namesMax = 500;

/** True when the text can follow a dot. */
export function isName(text: string): boolean {
  return /^[A-Za-z_$][\w$]*$/.test(text);
}

/** `steps` as far as it is known. */
export function knownSteps(steps: readonly KnownStep[]): Record<string, unknown> {
  return Object.fromEntries(steps.map(({ namespace, sample }) => [namespace, sample]));
}

/** The names that the value at a path has, each with what stood there last. Undefined: nothing is known there. */
export function knownIn(value: unknown, path: readonly string[]): Known[] | undefined {
  let here = value;
  for (const name of path) {
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, name)) return undefined;
    here = (here as Record<string, unknown>)[name];
  }
  if (typeof here !== 'object' || here === null || Array.isArray(here)) return undefined;
  return Object.entries(here)
    .slice(0, namesMax)
    .map(([name, found]) => ({ name, detail: ` ${typeName(found)}`, info: previewOf(found) }));
}

/** `steps.a.b` for each name down to some levels, for expressions: shortest first. */
export function pathsOf(steps: readonly KnownStep[], max: number): string[] {
  const paths: string[] = [];
  let level: [string, unknown][] = [['steps', knownSteps(steps)]];
  while (level.length > 0 && paths.length < max) {
    const next: [string, unknown][] = [];
    for (const [path, value] of level) {
      if (typeof value !== 'object' || value === null || Array.isArray(value)) continue;
      for (const [name, below] of Object.entries(value).slice(0, namesMax)) {
        const at = isName(name) ? `${path}.${name}` : `${path}[${JSON.stringify(name)}]`;
        paths.push(at);
        next.push([at, below]);
      }
    }
    level = next;
  }
  return paths.slice(0, max);
}

function typeName(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? `array of ${value.length}` : typeof value;
}

function previewOf(value: unknown): string {
  if (value === undefined) return 'Not known yet: there was no run with it.';
  const text =
    typeof value === 'object' && value !== null ? Object.keys(value).slice(0, 20).join(', ') : String(value);
  const shown = text.length > previewLength ? `${text.slice(0, previewLength)}…` : text;
  return `Last time: ${typeof value === 'object' && value !== null && !Array.isArray(value) ? `{ ${shown} }` : shown}`;
}

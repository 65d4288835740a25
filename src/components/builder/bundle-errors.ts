import { basename, sep } from 'node:path';
import type { Message } from 'esbuild';
import type { BuildProblem } from './build-messages.ts';
import { pathOfOwnModule } from './own-module-name.ts';

/** esbuild's messages without what they quote: no source lines, no absolute paths. */
export function describeErrors(errors: Message[], folder: string): BuildProblem {
  const own = errors.find((error) => isProblem(error.detail));
  const places = errors.slice(0, 5).map((error) => place(error, folder));
  if (own !== undefined && isProblem(own.detail)) {
    const { file, line, column } = place(own, folder);
    return {
      ...own.detail,
      details: { ...(file === undefined ? {} : { file, line, column }), ...own.detail.details },
    };
  }
  const first = places[0] ?? { message: 'the component could not be built' };
  const { message, ...where } = first;
  const at = where.file === undefined ? '' : ` (${where.file}:${where.line}:${where.column})`;
  return {
    kind: 'caller',
    code: 'invalid_component_code',
    message: message + at,
    details: { ...where, ...(places.length > 1 ? { errors: places } : {}) },
  };
}

function place(
  error: Message,
  folder: string,
): { message: string; file?: string; line?: number; column?: number } {
  const message = error.text
    .replaceAll(folder + sep, '')
    .replaceAll(/(?<![\w:./])\/(?:[\w.@+-]+\/)+[\w.@+-]+/g, (path) => basename(path));
  if (error.location === null) return { message };
  const file = pathOfOwnModule(error.location.file.replace(/^own:/, ''));
  return {
    message,
    file: file.startsWith('..') ? basename(file) : file,
    line: error.location.line,
    column: error.location.column + 1,
  };
}

function isProblem(detail: unknown): detail is BuildProblem {
  return typeof detail === 'object' && detail !== null && 'code' in detail && 'kind' in detail;
}

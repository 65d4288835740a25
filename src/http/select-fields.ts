import type { FastifyRequest } from 'fastify';
import { noteAnswer } from '#audit/audit-context.ts';
import { parameterOf } from './route-support.ts';

/**
 * Narrows an object, or each object of an array, to the top-level fields the request asks for: `include` first, then
 * `exclude`; unknown names are ignored. Called on what goes into `data`, never on the envelope. The type stays that of
 * the whole object, because that is what the route documents.
 */
export function selectFields<T extends object>(request: Pick<FastifyRequest, 'query' | 'body'>, value: T): T {
  noteAnswer(value);
  const include = namesIn(parameterOf(request, 'include'));
  const exclude = namesIn(parameterOf(request, 'exclude'));
  if (include.size === 0 && exclude.size === 0) return value;
  const narrow = (item: unknown): unknown => {
    if (typeof item !== 'object' || item === null || Array.isArray(item)) return item;
    return Object.fromEntries(
      Object.entries(item).filter(
        ([name]) => (include.size === 0 || include.has(name)) && !exclude.has(name),
      ),
    );
  };
  return (Array.isArray(value) ? value.map(narrow) : narrow(value)) as T;
}

function namesIn(text: unknown): Set<string> {
  if (typeof text !== 'string') return new Set();
  return new Set(
    text
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== ''),
  );
}

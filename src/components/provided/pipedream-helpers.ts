import { STATUS_CODES } from 'node:http';

/**
 * What a component gets for `import … from '@pipedream/helpers'`: errors of HTTP answers, and lists from what users
 * type. Written here from the documented behaviour; bundled into components.
 */

/** Named by the status (`HTTP404Error`); the message says its meaning in parentheses first. */
export class HTTPError extends Error {
  readonly statusCode: number;

  constructor(code: number, name: string, message: string) {
    super(`(${name}) ${message}`);
    this.name = `HTTP${code}Error`;
    this.statusCode = code;
  }
}

/** An address without `http://` or the like. */
export class NoProtocolError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'NoProtocolError';
  }
}

/** A maker of errors of one status: `createHTTPError(404, 'NotFoundError')('no such list')`. */
export function createHTTPError(code: number, name: string): (message: string) => HTTPError {
  return (message) => new HTTPError(code, name, message);
}

/** Such a maker for each status from 400 on that has a meaning: `generateHTTPErrorClasses()[404]('no such list')`. */
export function generateHTTPErrorClasses(): Record<number, (message: string) => HTTPError> {
  const refused = Object.entries(STATUS_CODES).filter(([code]) => Number(code) >= 400);
  return Object.fromEntries(
    refused.map(([code, meaning = '']) => [
      code,
      createHTTPError(Number(code), `${meaning.replaceAll(/\W/g, '')}Error`),
    ]),
  );
}

/**
 * The value of a list prop, which may come as options (`{label, value}`, of which the values are taken) or as a text
 * (`["a", "b"]`, `a, b`). Throws for anything else.
 */
export function sanitizedArray(value: unknown): unknown[] {
  if (Array.isArray(value)) return value.map(valueOfOption);
  if (typeof value !== 'string') throw new Error(`${value} is not an array or an array-like`);
  if (value === '') return [];
  const inner = value.replace(/^\[/, '').replace(/\]$/, '').trim();
  const unquoted = inner.replace(/^["']/, '').replace(/["']$/, '');
  return unquoted.split(/["']?\s*,\s*["']?/);
}

function valueOfOption(item: unknown): unknown {
  const isOption = typeof item === 'object' && item !== null && 'value' in item;
  return isOption && item.value !== undefined ? item.value : item;
}

import { ConfigurationError } from '../action.ts';

/** A text between slashes is a regular expression with flags: `/colou?r/i`. */
const inSlashes = /^\/(.+)\/([a-z]*)$/s;

/** The regular expression that a text between slashes means, with `flags` added; undefined for any other text. */
export function patternIn(prop: string, text: string, flags: string): RegExp | undefined {
  const [, source, given = ''] = inSlashes.exec(text) ?? [];
  return source === undefined ? undefined : patternOf(prop, source, flags + given);
}

/** Throws a ConfigurationError for text that is no regular expression. */
export function patternOf(prop: string, source: string, flags: string): RegExp {
  try {
    return new RegExp(source, [...new Set(flags)].join(''));
  } catch (error) {
    throw new ConfigurationError(`${prop}: found no regular expression (${(error as Error).message})`);
  }
}

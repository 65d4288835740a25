/** A mistake in the values of props: the service shows the message to the user who configures the step. */
export class ConfigurationError extends Error {
  override readonly name = 'ConfigurationError';
}

/** A value as error messages show it. */
export function shown(value: unknown): string {
  if (value === undefined || value === null || value === '') return 'nothing';
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object') return 'an object';
  const text = typeof value === 'string' ? JSON.stringify(value) : String(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

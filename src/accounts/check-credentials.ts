import { CallerError } from '#lib/errors.ts';
import type { AppDefinition } from './apps/app-definition.ts';
import { fieldsOf, isBlank } from './apps/fill-template.ts';

/**
 * The credentials of an account of `app` as they are stored: the given ones, and the defaults of custom fields that were
 * not. An app with keys needs all its required fields; credentials of an OAuth app that a caller sends, and those of
 * apps without a description, are taken as they are. Throws CallerError `missing_parameter`, or `invalid_parameter` for a
 * custom field that is an object, naming `credentials.<field>`.
 */
export function completeCredentials(
  app: AppDefinition | undefined,
  credentials: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  if (app === undefined) return { ...credentials };
  const fields = fieldsOf(app, credentials);
  if (app.authType === 'keys') {
    const missing = app.customFields.find((field) => !field.optional && isBlank(fields[field.name]));
    if (missing !== undefined) {
      const parameter = `credentials.${missing.name}`;
      throw new CallerError('missing_parameter', `${parameter}: required by ${app.name} (${missing.label})`, {
        parameter,
      });
    }
  }
  const odd = Object.keys(fields).find((name) => typeof fields[name] === 'object');
  if (odd !== undefined) {
    const parameter = `credentials.${odd}`;
    const message = `${parameter}: expected a text, as ${app.name} asks for it`;
    throw new CallerError('invalid_parameter', message, { parameter });
  }
  return { ...credentials, ...fields };
}

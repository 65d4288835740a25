import type { AppDefinition, CustomField } from '#accounts/apps/app-definition.ts';
import { CallerError } from '#lib/errors.ts';

/** A private key or a certificate fits; the whole of an account has 64 KB. */
const valueCharactersMax = 16_000;

/** Custom fields without a value: the page in the browser asks for them. */
export function missingFields(
  app: Pick<AppDefinition, 'customFields'>,
  fields: Readonly<Record<string, unknown>>,
): CustomField[] {
  return app.customFields.filter(({ name }) => !Object.hasOwn(fields, name));
}

/** True when an account cannot be made without a value for the field. */
export function isNeeded(field: CustomField): boolean {
  return !field.optional && field.default === undefined;
}

/** Custom fields that the API was given. Throws CallerError `invalid_parameter`. */
export function checkFields(
  app: Pick<AppDefinition, 'customFields' | 'slug'>,
  fields: Readonly<Record<string, unknown>>,
  /** The parameter that has them. */
  parameter = 'fields',
): Record<string, string> {
  const known = new Set(app.customFields.map(({ name }) => name));
  const checked: Record<string, string> = {};
  const invalid = (name: string, expected: string) =>
    new CallerError('invalid_parameter', `${parameter}.${name}: ${expected}`, {
      parameter: `${parameter}.${name}`,
    });
  for (const [name, value] of Object.entries(fields)) {
    if (!known.has(name)) {
      throw invalid(name, `${app.slug} has no such field; it has ${[...known].join(', ') || 'none'}`);
    }
    if (value === null || value === '') continue;
    if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean')
      throw invalid(name, 'expected a string');
    const text = String(value);
    if (text.length > valueCharactersMax)
      throw invalid(name, `expected at most ${valueCharactersMax} characters`);
    checked[name] = text;
  }
  return checked;
}

/** What a form was filled in with, or by field what is wrong with it. Empty ones have their default. */
export function readForm(
  asked: readonly CustomField[],
  form: URLSearchParams,
): { values: Record<string, string>; problems: Map<string, string> } {
  const values: Record<string, string> = {};
  const problems = new Map<string, string>();
  for (const field of asked) {
    // Pasted with the blanks around it, which no value has; several lines are those of a private key.
    const text = (form.get(formName(field)) ?? '').trim().replaceAll('\r\n', '\n');
    const value = text === '' ? (field.default ?? '') : text;
    if (value.length > valueCharactersMax) problems.set(field.name, 'This is too long.');
    else if (value !== '') values[field.name] = value;
    else if (isNeeded(field)) problems.set(field.name, 'Please fill this in.');
  }
  return { values, problems };
}

/** The name of the field's input, which no field of the form itself has. */
export function formName(field: Pick<CustomField, 'name'>): string {
  return `field_${field.name}`;
}

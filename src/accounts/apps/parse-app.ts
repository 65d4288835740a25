import type { AppDefinition, CustomField } from './app-definition.ts';
import { isAppSlug } from './app-id.ts';
import { checkTemplate, type KnownFields } from './check-template.ts';
import { expected, missing, ObjectReader, textItem } from './object-reader.ts';
import { oauthCredentials, parseOAuth } from './parse-oauth.ts';
import { parseTest } from './parse-test.ts';

const customFieldsMax = 50;
const categoriesMax = 10;

/**
 * The JSON of an app, as a file or the API gives it (docs/apps.md), with the defaults filled in. Throws CallerError
 * `missing_parameter`, `invalid_parameter` or `unknown_parameter` that names the place.
 */
export function parseApp(json: unknown): AppDefinition {
  const reader = new ObjectReader(json, '');
  const slug = reader.text('slug');
  if (!isAppSlug(slug)) {
    throw expected('slug', 'at most 64 lower-case letters, digits, _ and -, a letter or digit first');
  }
  const name = reader.text('name', 100);
  const description = reader.optionalText('description') ?? '';
  const categories = reader.list('categories', categoriesMax, textItem);
  const authType = reader.choice('auth_type', ['oauth', 'keys', 'none']);
  const customFields = customFieldsOf(reader);
  const fields: KnownFields = new Map(
    customFields.map((field) => [field.name, isSure(field) ? 'good' : 'may be missing']),
  );
  if (authType === 'none' && customFields.length > 0) {
    throw expected('custom_fields', 'none: an app with auth_type none has no accounts');
  }
  const oauthReader = reader.object('oauth');
  if (authType === 'oauth' && oauthReader === undefined) throw missing('oauth');
  if (authType !== 'oauth' && oauthReader !== undefined) {
    throw expected('oauth', 'nothing: it is for auth_type oauth');
  }
  const oauth = oauthReader && parseOAuth(oauthReader, fields);
  const testReader = reader.object('test_request');
  if (authType === 'none' && testReader !== undefined) {
    throw expected('test_request', 'nothing: an app with auth_type none has no accounts');
  }
  const test = testReader && parseTest(testReader, new Map([...fields, ...credentialsOf(oauth)]));
  reader.end();
  return { slug, name, description, categories, authType, customFields, oauth, test };
}

function customFieldsOf(reader: ObjectReader): CustomField[] {
  const fields = reader.list('custom_fields', customFieldsMax, customField);
  const names = fields.map((field) => field.name);
  const twice = names.findIndex((name, index) => names.indexOf(name) !== index);
  if (twice !== -1) throw expected(`custom_fields[${twice}].name`, 'another name than those before');
  return fields;
}

function customField(value: unknown, place: string): CustomField {
  const reader = new ObjectReader(value, place);
  const name = reader.text('name', 64);
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) || name === '__proto__') {
    throw expected(reader.placeOf('name'), 'letters, digits and _, a letter or _ first');
  }
  if (oauthCredentials.includes(name)) {
    throw expected(reader.placeOf('name'), 'a name that OAuth itself does not use');
  }
  const field: CustomField = {
    name,
    label: reader.optionalText('label', 100) ?? name,
    description: reader.optionalText('description') ?? '',
    default: reader.optionalText('default'),
    optional: reader.flag('optional', false),
    secret: reader.flag('secret', soundsSecret(name)),
  };
  // A default is a value, not a template.
  checkTemplate(field.default ?? '', reader.placeOf('default'), new Map());
  reader.end();
  return field;
}

function soundsSecret(name: string): boolean {
  return /(key|token|secret|password|passphrase|pwd)/i.test(name);
}

function isSure(field: CustomField): boolean {
  return !field.optional || (field.default ?? '') !== '';
}

function credentialsOf(oauth: AppDefinition['oauth']): [string, 'good'][] {
  if (oauth === undefined) return [];
  const names = ['oauth_access_token', 'oauth_client_id', 'oauth_uid'];
  const more = oauth.version === 2 ? Object.keys(oauth.responseFields) : [];
  return [...names, ...more].map((name) => [name, 'good']);
}

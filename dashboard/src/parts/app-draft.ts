/** The definition of an app that is being edited: what the API takes (docs/apps.md), and whatever else was typed as JSON. */
export type AppDraft = Readonly<Record<string, unknown>>;

export interface FieldDraft {
  name: string;
  label?: string;
  secret?: boolean;
  optional?: boolean;
  [more: string]: unknown;
}

export const emptyApp: AppDraft = {
  slug: '',
  name: '',
  auth_type: 'keys',
  custom_fields: [{ name: 'api_key', label: 'API key' }],
};

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The text at a path; what is no text there is not for a form. */
export function textAt(draft: AppDraft, path: readonly string[]): string {
  let value: unknown = draft;
  for (const name of path) value = isObject(value) ? value[name] : undefined;
  if (Array.isArray(value)) return value.join(' ');
  return typeof value === 'string' ? value : '';
}

/** With another value at a path; undefined takes it out, and objects that are empty then. */
export function withValue(draft: AppDraft, path: readonly string[], value: unknown): AppDraft {
  const [name, ...rest] = path;
  if (name === undefined) return draft;
  const { [name]: before, ...others } = draft;
  if (rest.length === 0) return value === undefined ? others : { ...draft, [name]: value };
  const inner = withValue(isObject(before) ? before : {}, rest, value);
  return Object.keys(inner).length === 0 ? others : { ...draft, [name]: inner };
}

/** The draft with another kind: fields that this kind cannot have are left out. */
export function withKind(draft: AppDraft, kind: string): AppDraft {
  const { oauth, ...others } = draft;
  const changed = { ...others, auth_type: kind };
  if (kind !== 'oauth') return changed;
  return { ...changed, oauth: oauth ?? { authorization_url: '', token_url: '', scopes: [] } };
}

export function fieldsIn(draft: AppDraft): FieldDraft[] {
  const fields = draft.custom_fields;
  return Array.isArray(fields) ? fields.filter((field): field is FieldDraft => isObject(field)) : [];
}

/** undefined: it is no JSON object. */
export function parsedDraft(text: string): AppDraft | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

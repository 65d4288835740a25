/** Every prop type a component may use (component contract, 1.3). Another one is an error at deploy. */
const valueTypes = new Set([
  'string',
  'integer',
  'boolean',
  'object',
  'any',
  'number',
  'string[]',
  'integer[]',
  'boolean[]',
  'number[]',
  'object[]',
  'any[]',
]);

const platformTypes = new Set([
  'app',
  'alert',
  'data_store',
  'dir',
  'sql',
  'http_request',
  '$.interface.timer',
  '$.interface.http',
  '$.interface.apphook',
  '$.service.db',
  '$.airtable.baseId',
  '$.airtable.tableId',
  '$.airtable.table',
  '$.airtable.viewId',
  '$.airtable.fieldId',
  '$.discord.channel',
  '$.discord.channel[]',
]);

export function isKnownPropType(type: string): boolean {
  return valueTypes.has(type) || platformTypes.has(type);
}

export const knownPropTypes: readonly string[] = [...valueTypes, ...platformTypes];

/** Props whose value is the platform's, never the caller's. */
export function isPlatformProp(type: string): boolean {
  return (
    type === '$.interface.http' ||
    type === '$.interface.apphook' ||
    type === '$.service.db' ||
    type === 'alert'
  );
}

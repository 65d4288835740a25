import { CallerError } from '#lib/errors.ts';
import type { PropDefinition } from './component-shape.ts';

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

/** Throws `invalid_component` for a prop of an unknown type; `parameter` is where the definitions come from. */
export function refuseUnknownTypes(
  definitions: readonly Pick<PropDefinition, 'name' | 'type'>[],
  parameter: string,
): void {
  for (const { name, type } of definitions) {
    if (valueTypes.has(type) || platformTypes.has(type)) continue;
    const known = [...valueTypes, ...platformTypes].join(', ');
    throw new CallerError(
      'invalid_component',
      `${parameter}: prop ${JSON.stringify(name)} has the unknown type ${JSON.stringify(type)}; known types are ${known}`,
      { parameter, prop: name },
    );
  }
}

/** Props whose value is the platform's, never the caller's. */
export function isPlatformProp(type: string): boolean {
  return (
    type === '$.interface.http' ||
    type === '$.interface.apphook' ||
    type === '$.service.db' ||
    type === 'alert'
  );
}

/** Ids of things at Airtable and Discord, chosen in forms of their own. */
export function isIdProp(type: string): boolean {
  return type.startsWith('$.airtable.') || type.startsWith('$.discord.');
}

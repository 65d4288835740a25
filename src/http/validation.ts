import type { FastifySchemaCompiler } from 'fastify';
import type { TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { expectationOf } from '#identity/identity-rules.ts';
import { CallerError } from '#lib/errors.ts';
import { commonParameters } from './route-support.ts';

interface ObjectSchema {
  type: 'object';
  properties: Record<string, TSchema & { type?: string }>;
}

/**
 * Turns a schema into the check of one part of a request. Bodies are taken as they are: no coercion, no defaults, and
 * unknown top-level fields are refused. Query strings and path parameters are text, so numbers and booleans in them are
 * read here, by their one ordinary spelling. A failed check is a CallerError that names the parameter.
 */
export const compileCheck: FastifySchemaCompiler<TSchema> = ({ schema, httpPart = 'body' }) => {
  // Compiled at the first request: of four hundred schemas most instances use few, and all together take an eighth of a start.
  let compiled: Validator | undefined;
  const isBody = httpPart === 'body';
  return (value: unknown) => {
    // Bytes have no fields: only routes that read them get them.
    if (isBody && Buffer.isBuffer(value)) return { value };
    const part = isBody ? value : readText(schema, value);
    if (!isObject(part) && isObjectSchema(schema)) {
      return { error: new CallerError('invalid_body', `the ${partName(httpPart)} must be a JSON object`) };
    }
    const unknown = isBody ? unknownField(schema, part) : undefined;
    if (unknown !== undefined) {
      return {
        error: new CallerError(
          'unknown_parameter',
          `${unknown}: this operation has no such parameter; ${knownParameters(schema)}`,
          { parameter: unknown },
        ),
      };
    }
    compiled ??= Compile(schema);
    const validator = compiled;
    if (!validator.Check(part)) return { error: asCallerError(validator.Errors(part), httpPart) };
    const withNul = isObject(part) ? fieldWithNul(part) : undefined;
    if (withNul !== undefined) {
      return {
        error: new CallerError('invalid_parameter', `${withNul}: must not contain the character U+0000`, {
          parameter: withNul,
        }),
      };
    }
    return { value: part };
  };
};

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isObjectSchema(schema: unknown): schema is ObjectSchema {
  const { type, properties } = schema as { type?: unknown; properties?: unknown };
  return type === 'object' && typeof properties === 'object';
}

function unknownField(schema: unknown, value: unknown): string | undefined {
  if (!isObjectSchema(schema) || !isObject(value)) return undefined;
  // A schema that declares its additional properties takes any name.
  if ('additionalProperties' in schema) return undefined;
  return Object.keys(value).find((name) => !Object.hasOwn(schema.properties, name));
}

/** The parameters that the operation has of its own, in words; those that every operation takes tell nothing. */
function knownParameters(schema: unknown): string {
  const names = isObjectSchema(schema) ? Object.keys(schema.properties) : [];
  const own = names.filter((name) => !Object.hasOwn(commonParameters, name));
  return own.length === 0 ? 'it has none in its body' : `it has ${own.join(', ')}`;
}

/** PostgreSQL cannot store it in text; nested values are stored as JSON, where it is escaped. */
function fieldWithNul(value: Record<string, unknown>): string | undefined {
  return Object.keys(value).find((name) => {
    const field = value[name];
    return typeof field === 'string' && field.includes('\u0000');
  });
}

function readText(schema: unknown, value: unknown): unknown {
  if (!isObjectSchema(schema) || !isObject(value)) return value;
  const read: Record<string, unknown> = {};
  for (const [name, text] of Object.entries(value)) {
    read[name] = readScalar(
      Object.hasOwn(schema.properties, name) ? schema.properties[name]?.type : 'string',
      text,
    );
  }
  return read;
}

/** The value of a query parameter; text that is not of the type stays text, and the check refuses it. */
function readScalar(type: string | undefined, text: unknown): unknown {
  if (typeof text !== 'string') return text;
  if (type === 'integer' && /^-?\d{1,15}$/.test(text)) return Number(text);
  if (type === 'number' && /^-?\d{1,15}(\.\d{1,15})?$/.test(text)) return Number(text);
  if (type === 'boolean' && (text === 'true' || text === '1')) return true;
  if (type === 'boolean' && (text === 'false' || text === '0')) return false;
  return text;
}

interface CheckFailure {
  keyword: string;
  instancePath: string;
  params: object;
  message: string;
}

function asCallerError(failures: readonly CheckFailure[], httpPart: string): CallerError {
  // Where null would do too, that is not what was meant.
  const plain = failures.filter(({ keyword, message }) => keyword !== 'anyOf' && message !== 'must be null');
  // Of several allowed types, the error names the one that the value has.
  const choices = new Set(
    failures.filter(({ keyword }) => keyword === 'anyOf').map(({ instancePath }) => instancePath),
  );
  const ofItsType = plain.filter(
    ({ keyword, instancePath }) => keyword !== 'type' || !choices.has(instancePath),
  );
  const meant = ofItsType.length > 0 ? ofItsType : plain;
  // A wrong value says more than a missing one, because it was meant.
  const failure = meant.find(({ keyword }) => keyword !== 'required') ?? meant[0] ?? failures[0];
  const missing = (failure?.params as { requiredProperties?: readonly string[] } | undefined)
    ?.requiredProperties?.[0];
  const path = pathOf(failure?.instancePath ?? '');
  if (failure?.keyword === 'required' && missing !== undefined) {
    const parameter = written([...path, missing]);
    return new CallerError('missing_parameter', `${parameter}: required`, { parameter });
  }
  const parameter = path.length === 0 ? partName(httpPart) : written(path);
  if (failure?.keyword === 'boolean') {
    // The schema of what is not declared is `false`.
    return new CallerError('unknown_parameter', `${parameter}: there is no such field`, { parameter });
  }
  const description = (failure?.params as { allowedValues?: readonly unknown[] } | undefined)?.allowedValues;
  const { pattern } = (failure?.params ?? {}) as { pattern?: unknown };
  const inWords = typeof pattern === 'string' ? expectationOf(pattern) : undefined;
  const expectation =
    description === undefined
      ? inWords === undefined
        ? failure?.message
        : `expected ${inWords}`
      : `must be one of ${description.filter((value) => value !== '').join(', ')}`;
  return new CallerError('invalid_parameter', `${parameter}: ${expectation ?? 'is not valid'}`, {
    parameter,
  });
}

function pathOf(pointer: string): string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** As callers write it: `steps[1].namespace`. */
function written(path: readonly string[]): string {
  return path
    .map((part, index) => (index === 0 ? part : /^\d+$/.test(part) ? `[${part}]` : `.${part}`))
    .join('');
}

function partName(httpPart: string): string {
  return httpPart === 'querystring' ? 'query' : httpPart === 'params' ? 'path' : httpPart;
}

import type { RouteOptions } from 'fastify';
import { type TProperties, Type } from 'typebox';
import { assert } from '#lib/assert.ts';
import { commonParameters, ErrorBody, pageParameters } from './route-support.ts';

/**
 * What holds for every operation is added to its schema here, so that validation and the OpenAPI document have it from
 * one place: include, exclude, org_id and workspace_id in query and body; pagination in the body too where a list is
 * asked for by POST; and the form of errors. Called for each route as it is registered.
 */
export function addCommonParameters(route: RouteOptions): void {
  const { schema } = route;
  assert(schema !== undefined, `a schema for ${String(route.method)} ${route.url}`);
  schema.response = { ...(schema.response as object | undefined), '4xx': ErrorBody, '5xx': ErrorBody };
  if (route.config?.public === true) return;
  schema.security = [{ apiKey: [] }];
  schema.querystring = withParameters(schema.querystring, commonParameters);
  const takesBody = [route.method].flat().some((method) => bodyMethods.has(method));
  if (!takesBody) return;
  const paginated = 'after' in (schema.querystring as ObjectSchema).properties;
  schema.body = withParameters(schema.body, { ...commonParameters, ...(paginated ? pageParameters : {}) });
}

const bodyMethods: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);

interface ObjectSchema {
  properties: TProperties;
}

/** The schema with these optional parameters; those it has itself win. Schemas of something else than an object stay. */
function withParameters(schema: unknown, parameters: TProperties): unknown {
  if (schema === undefined) return Type.Object(parameters);
  const { properties } = schema as Partial<ObjectSchema>;
  return properties === undefined ? schema : { ...schema, properties: { ...parameters, ...properties } };
}

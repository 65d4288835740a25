import type { ApiParameter, Operation, Schema } from './api-document.ts';
import { clientMethods, hasMethod } from './client-methods.ts';

/** What the answer of an operation is to the caller of the client. */
export type AnswerKind = 'data' | 'page' | 'json' | 'text' | 'nothing' | 'stream';

/** One method of the client, as far as the document says it. */
export interface ClientOperation {
  readonly operation: Operation;
  readonly resource: string;
  readonly method: string;
  /** Parameters of the path in order, and what the method calls them. */
  readonly pathParameters: readonly { wire: string; name: string; description: string }[];
  readonly query: Schema | undefined;
  readonly body: { schema: Schema; required: boolean } | undefined;
  readonly answer: { kind: AnswerKind; schema: Schema };
}

/** Every method there has to be. Fails for operations without one, and for methods of operations that are gone. */
export function clientOperations(operations: readonly Operation[]): ClientOperation[] {
  const ids = new Set(operations.map(({ operationId }) => operationId));
  const missing = [...ids].filter((id) => clientMethods[id] === undefined);
  const gone = Object.keys(clientMethods).filter((id) => !ids.has(id));
  if (missing.length > 0 || gone.length > 0) {
    throw new Error(
      `scripts/client-methods.ts has no method for ${missing.join(', ') || 'nothing'}; and methods for what is no operation: ${gone.join(', ') || 'none'}`,
    );
  }
  const own = operations.filter(({ operationId }) => hasMethod(operationId));
  return own.map((operation) => {
    const [resource = '', method = ''] = methodOf(operation.operationId).split('.');
    const body = bodyOf(operation);
    return {
      operation,
      resource,
      method,
      pathParameters: pathParametersOf(operation),
      query:
        body === undefined || operation.method === 'DELETE'
          ? queryOf(operation)
          : withoutBody(operation, body.schema),
      body,
      answer: answerOf(operation),
    };
  });
}

function methodOf(operationId: string): string {
  return clientMethods[operationId] ?? '';
}

function pathParametersOf({ path, parameters = [] }: Operation) {
  const segments = path.split('/');
  return segments.flatMap((segment, at) => {
    const wire = /^\{(\w+)\}$/.exec(segment)?.[1];
    if (wire === undefined) return [];
    const description = parameters.find(({ name }) => name === wire)?.description ?? '';
    const name = wire === 'id' ? idName(segments[at - 1] ?? '') : camelCase(wire);
    return [{ wire, name, description }];
  });
}

const idNames: Readonly<Record<string, string>> = {
  orgs: 'workspaceId',
  pipelines: 'workflowId',
  quotas: 'ownerId',
  retention: 'workspaceId',
};

/** `data_stores` has `dataStoreId`s. */
function idName(collection: string): string {
  const singular = collection.replace(/ies$/, 'y').replace(/s$/, '');
  return idNames[collection] ?? `${camelCase(singular)}Id`;
}

export function camelCase(text: string): string {
  return text.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/** The JSON body; of a DELETE only one that is required, since other parameters may stand in the query, where nothing on the way drops them. */
function bodyOf({ method, requestBody }: Operation): ClientOperation['body'] {
  const schema = requestBody?.content['application/json']?.schema;
  if (schema === undefined || (method === 'DELETE' && (schema.required ?? []).length === 0)) return undefined;
  return { schema, required: requestBody?.required === true };
}

function queryOf({ parameters = [] }: Operation): Schema | undefined {
  const inQuery = parameters.filter((parameter) => parameter.in === 'query');
  if (inQuery.length === 0) return undefined;
  const required = inQuery.filter((parameter) => parameter.required === true).map(({ name }) => name);
  return {
    type: 'object',
    properties: Object.fromEntries(inQuery.map((parameter) => [parameter.name, described(parameter)])),
    ...(required.length > 0 && { required }),
  };
}

function described({ schema, description }: ApiParameter): Schema {
  return description === undefined ? schema : { ...schema, description };
}

/** Where there is a body, it takes every parameter of the query. */
function withoutBody(operation: Operation, body: Schema): undefined {
  const names = Object.keys(queryOf(operation)?.properties ?? {});
  const rest = names.filter((name) => body.properties?.[name] === undefined);
  if (rest.length > 0) throw new Error(`${operation.operationId} takes ${rest.join(', ')} in the query only`);
  return undefined;
}

function answerOf({ operationId, responses }: Operation): ClientOperation['answer'] {
  const [status = '', response] = Object.entries(responses).find(([code]) => code.startsWith('2')) ?? [];
  if (status === '204') return { kind: 'nothing', schema: {} };
  const [type = '', content] = Object.entries(response?.content ?? {})[0] ?? [];
  const schema = content?.schema;
  if (schema === undefined) throw new Error(`${operationId}: no answer is described`);
  if (type === 'text/event-stream') return { kind: 'stream', schema };
  if (type === 'text/plain' || type === 'application/x-ndjson') return { kind: 'text', schema };
  const names = Object.keys(schema.properties ?? {});
  const { data } = schema.properties ?? {};
  if (data !== undefined && names.includes('page_info')) return { kind: 'page', schema: data.items ?? {} };
  return data !== undefined && names.length === 1 ? { kind: 'data', schema: data } : { kind: 'json', schema };
}

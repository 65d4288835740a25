/** The parts of a schema by which tests make values. */
export interface ParameterSchema {
  type?: string;
  const?: unknown;
  enum?: unknown[];
  anyOf?: { const?: unknown }[];
  minimum?: number;
  maximum?: number;
}

/** The parts of the OpenAPI document that tests walk. */
export interface ApiOperation {
  method: string;
  /** With `{name}` for its parameters. */
  path: string;
  operationId: string;
  parameters: { name: string; in: string; schema: ParameterSchema }[];
  /** Fields of the JSON body and whether each is required; undefined when it takes none. */
  body: { properties: Record<string, ParameterSchema>; required: string[] } | undefined;
  isPublic: boolean;
}

interface Documented {
  operationId: string;
  parameters?: ApiOperation['parameters'];
  requestBody?: { content: Record<string, { schema: Partial<NonNullable<ApiOperation['body']>> }> };
  security?: unknown[];
}

/** Every operation of the document that a service answers at /openapi.json. */
export async function readApiOperations(serviceUrl: string): Promise<ApiOperation[]> {
  const response = await fetch(`${serviceUrl}/openapi.json`);
  const document = (await response.json()) as { paths: Record<string, Record<string, Documented>> };
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => {
      const schema = operation.requestBody?.content['application/json']?.schema;
      return {
        method: method.toUpperCase(),
        path,
        operationId: operation.operationId,
        parameters: operation.parameters ?? [],
        body:
          schema === undefined
            ? undefined
            : { properties: schema.properties ?? {}, required: schema.required ?? [] },
        isPublic: operation.security === undefined,
      };
    }),
  );
}

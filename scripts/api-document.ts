import { Registry } from 'prom-client';
import { createServer, type ServerOptions } from '#http/server.ts';
import { systemClock } from '#lib/clock.ts';
import { silentLogger } from '#lib/logger.ts';

/** The parts of a JSON schema that our routes use. */
export interface Schema {
  readonly type?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly additionalProperties?: boolean | Schema;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly default?: unknown;
  readonly format?: string;
}

export interface ApiParameter {
  readonly name: string;
  readonly in: 'path' | 'query';
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: Schema;
}

/** One operation of the document, with its place. */
export interface Operation {
  readonly operationId: string;
  /** In capitals. */
  readonly method: string;
  /** With `{name}` for its parameters. */
  readonly path: string;
  readonly summary: string;
  readonly tags?: readonly string[];
  readonly description?: string;
  readonly parameters?: readonly ApiParameter[];
  readonly requestBody?: {
    readonly required?: boolean;
    readonly content: Record<string, { schema: Schema }>;
  };
  readonly responses: Readonly<Record<string, { readonly content?: Record<string, { schema: Schema }> }>>;
  readonly security?: readonly unknown[];
}

/**
 * Every operation of the OpenAPI document, in its order, as a service answers it at /openapi.json. No service is started:
 * routes are registered with parts that fail when they are touched.
 */
export async function readOperations(): Promise<Operation[]> {
  const stated = {
    clock: systemClock,
    logger: silentLogger,
    metrics: new Registry(),
    settings: { publicUrl: '' },
    version: '',
  };
  const parts = new Proxy(stated, {
    get: (target, name) =>
      name in target ? Reflect.get(target, name) : optionalParts.has(name) ? undefined : untouchable,
  });
  const server = await createServer(parts as unknown as ServerOptions);
  await server.ready();
  const document = server.swagger() as unknown as { paths: Record<string, Record<string, Operation>> };
  await server.close();
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path })),
  );
}

const optionalParts: ReadonlySet<string | symbol> = new Set([
  'rewritePath',
  'tracer',
  'trustedProxies',
  'api',
  'ingress',
  'arrival',
]);

const untouchable: unknown = new Proxy(() => undefined, {
  get: (_target, name) => {
    throw new Error(`making the document used ${String(name)} of a part of the service`);
  },
});

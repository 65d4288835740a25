import swagger from '@fastify/swagger';
import { type FastifyInstance, fastify } from 'fastify';
import { Type } from 'typebox';
import { compressedFile } from '#web/compressed-file.ts';
import type { PageFile } from '#web/dashboard/page-files.ts';
import type { App } from './route-support.ts';
import { sendPageFile } from './send-page-file.ts';

const referencePrefix = '/docs/api';
// Everything the page needs comes from here; it may request nothing from other hosts.
const referencePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; " +
  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** The groups of operations, in the order of the page. */
const groups = [
  'sources',
  'events',
  'subscriptions',
  'webhooks',
  'deliveries',
  'workflows',
  'templates',
  'imports',
  'runs',
  'data stores',
  'variables',
  'components',
  'actions',
  'accounts',
  'apps',
  'users',
  'workspaces',
  'projects',
  'quotas',
  'sessions',
  'service accounts',
  'audit',
  'operations',
];
// The bar names the maker of the page and offers to load other documents, which its policy forbids.
const referenceStyle = '.swagger-ui .topbar { display: none; }';

/**
 * The OpenAPI document, made from the schemas of the routes registered after this. Without a public URL it names no
 * server: paths are then relative to where the document was read from.
 */
export async function describeRoutes(
  app: App,
  options: { publicUrl: string; version: string },
): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Millrace',
        version: options.version,
        description:
          'Event sources and workflows: deploy components, keep what they emit, read it over REST and server-sent ' +
          'events, have it delivered to webhooks and workflows. ' +
          'Operations tagged `addition` are not part of the original specification.',
      },
      tags: [
        ...groups.map((name) => ({ name })),
        { name: 'addition', description: 'Not part of the original specification' },
      ],
      ...(options.publicUrl === '' ? {} : { servers: [{ url: options.publicUrl.replace(/\/$/, '') }] }),
      components: {
        securitySchemes: {
          apiKey: { type: 'http', scheme: 'bearer', description: 'API key of a user, or access token' },
          session: {
            type: 'apiKey',
            in: 'cookie',
            name: 'millrace_session',
            description:
              'The session cookie of the dashboard (POST /v1/session), with the header x-millrace-csrf',
          },
        },
      },
    },
    transformObject: (document) => {
      if (!('openapiObject' in document)) return document.swaggerObject;
      const { paths } = document.openapiObject as { paths?: Record<string, Record<string, Operation>> };
      for (const operations of Object.values(paths ?? {}))
        for (const [method, operation] of Object.entries(operations)) correct(method, operation);
      return document.openapiObject;
    },
  });
}

/**
 * What the schemas of a route do not say: every POST of a caller accepts an `Idempotency-Key` (repeated-requests.ts), a body in
 * which nothing is required may be left out, and errors are JSON where the answer itself is something else.
 */
function correct(method: string, operation: Operation): void {
  const { requestBody, responses = {}, parameters = [], security } = operation;
  if (method === 'post' && security !== undefined && !parameters.includes(idempotencyKey))
    operation.parameters = [...parameters, idempotencyKey];
  if (requestBody !== undefined) {
    const schemas = Object.values(requestBody.content).map(({ schema }) => schema);
    requestBody.required = schemas.some(({ required = [] }) => required.length > 0);
    for (const type of Object.keys(requestBody.content))
      if (binaryTypes.has(type)) requestBody.content[type] = { schema: binary };
  }
  for (const [code, response] of Object.entries(responses)) {
    const [content] = Object.values(response.content ?? {});
    if (/^[45]/.test(code) && content !== undefined) response.content = { 'application/json': content };
  }
}

/** `/openapi.json`, and `/docs/api`, where its operations can be tried; the manual has them as pages, too. */
export async function serveReference(app: App): Promise<void> {
  app.get(
    '/openapi.json',
    {
      schema: {
        operationId: 'getOpenApiDocument',
        summary: 'This document',
        tags: ['operations', 'addition'],
        response: { 200: Type.Record(Type.String(), Type.Unknown()) },
      },
    },
    async (request, reply) => {
      // Two megabytes, which are written and compressed once: sixteen callers who asked for them kept the service from everything else.
      document ??= compressedFile('.json', JSON.stringify(app.swagger()));
      return sendPageFile(request, reply, await document) as never;
    },
  );
  let document: Promise<PageFile> | undefined;
  let pages: Promise<FastifyInstance> | undefined;
  const options = { schema: { hide: true } };
  for (const url of [referencePrefix, `${referencePrefix}/*`])
    app.get(url, options, async ({ method, url, headers }, reply) => {
      // Few ask for them, and they take longer to load than all our routes: at the first request, not at the start.
      pages ??= openReferencePages(app).catch((error: unknown) => {
        // The next request tries again.
        pages = undefined;
        throw error;
      });
      const answer = await (await pages).inject({ method: method as 'GET' | 'HEAD', url, headers });
      return reply.code(answer.statusCode).headers(answer.headers).send(answer.rawPayload);
    });
}

async function openReferencePages(app: App): Promise<FastifyInstance> {
  const { default: swaggerUi } = await import('@fastify/swagger-ui');
  const pages = fastify();
  // The pages ask for it; what they show is the document of `app`.
  await pages.register(swagger);
  await pages.register(swaggerUi, {
    routePrefix: referencePrefix,
    staticCSP: referencePolicy,
    transformSpecification: () => oncePerOperation(app.swagger() as unknown as Record<string, unknown>),
    theme: { title: 'Millrace API', css: [{ filename: 'millrace.css', content: referenceStyle }] },
    // Otherwise the page asks a validator on another host.
    uiConfig: { validatorUrl: null, docExpansion: 'list', deepLinking: true },
  });
  return pages;
}

/**
 * The document as the page shows it. A tag is a group there, where an operation should appear once: `addition` becomes
 * a mark in the summary.
 */
function oncePerOperation(document: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const paths = structuredClone(document.paths) as Record<string, Record<string, Operation>>;
  for (const operations of Object.values(paths)) {
    for (const operation of Object.values(operations)) {
      if (operation.tags?.includes('addition') !== true) continue;
      operation.tags = operation.tags.filter((tag) => tag !== 'addition');
      operation.summary = `${operation.summary} (addition)`;
    }
  }
  const tags = (document.tags as { name: string }[]).filter(({ name }) => name !== 'addition');
  return { ...document, tags, paths };
}

const binary = { type: 'string', format: 'binary' };
/** Bodies that are bytes and have no fields. */
const binaryTypes: ReadonlySet<string> = new Set(['application/zip', 'application/octet-stream']);

const idempotencyKey = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[\\x21-\\x7e]+$' },
  description:
    'A new random text, such as a UUID, for each request. For 24 hours a request with the same key and content is not carried out ' +
    'again, but answered as the first one, with the header Idempotency-Replayed.',
};

interface Operation {
  parameters?: object[];
  security?: unknown[];
  summary?: string;
  tags?: string[];
  requestBody?: {
    required?: boolean;
    content: Record<string, { schema: { required?: string[]; type?: string; format?: string } }>;
  };
  responses?: Record<string, { content?: Record<string, unknown> }>;
}

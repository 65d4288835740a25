import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import {
  createWebhook,
  pauseWebhook,
  redeliverAll,
  removeWebhook,
  resumeWebhook,
  rotateSecret,
  updateWebhook,
  viewWebhook,
  type WebhookOptions,
} from '#delivery/webhooks/manage-webhooks.ts';
import { findWebhook, pageOfWebhooks } from '#delivery/webhooks/webhook-store.ts';
import type { WebhookTargets } from '#delivery/webhooks/webhook-targets.ts';
import type { AddressPolicy } from '#egress/address-policy.ts';
import { type HealthState, newHealth } from '#health/health.ts';
import { healthOf } from '#health/health-store.ts';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import {
  type App,
  callerOf,
  DataOf,
  IdParams,
  NoContent,
  ownerForCreate,
  PageOf,
  parameterOf,
} from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { timeParameter } from '#http/time-parameter.ts';
import { readable, requireWorkspace, writable } from '#identity/permissions.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { WebhookTable } from '#storage/tables/delivery-tables.ts';
import type { Vault } from '#vault/vault.ts';
import {
  jsonParameters,
  nullable,
  signingSecret,
  textParameters,
  Webhook,
  WebhookQuery,
  webhookFields,
} from './webhook-shapes.ts';

const sinceDescription = 'Epoch seconds or ISO 8601: only what ended since then; default all';

export interface WebhookRouteOptions {
  store: Store;
  vault: Vault;
  clock: Clock;
  logger: Logger;
  /** Where webhooks may be. */
  policy: AddressPolicy;
  delivery: { targets: WebhookTargets };
  onJobs: () => void;
}

/** Specification, section 4, Webhooks. */
export function webhookRoutes(app: App, options: WebhookRouteOptions): void {
  const support = webhookSupport(options);
  webhookListRoutes(app, support);
  oneWebhookRoutes(app, support);
  webhookDeliveryRoutes(app, support);
}

type WebhookSupport = ReturnType<typeof webhookSupport>;

/** What the handlers of these routes share. */
function webhookSupport(routeOptions: WebhookRouteOptions) {
  const { store, clock, logger, delivery } = routeOptions;
  const options: WebhookOptions = { ...routeOptions, onChange: (id) => delivery.targets.forget(id) };
  const view = async (webhook: WebhookTable) => {
    const health = await healthOf(store.read, 'webhook', [webhook.id], clock.now());
    return viewWebhook(webhook, health.get(webhook.id) ?? newHealth('webhook'));
  };
  const listOf = async (request: Parameters<typeof pageRequest>[0], ownerId: string) => {
    const { health: state } = request.query as { health?: HealthState };
    const nowMs = clock.now();
    const filter = state === undefined ? undefined : { state, nowMs };
    const page = await pageOfWebhooks(store.read, ownerId, pageRequest(request), filter);
    const ids = page.rows.map(({ id }) => id);
    const health = await healthOf(store.read, 'webhook', ids, nowMs);
    const views = page.rows.map((webhook) =>
      viewWebhook(webhook, health.get(webhook.id) ?? newHealth('webhook')),
    );
    const cursors = page.rows.map((webhook) => encodeCursor(webhook.id));
    return pageResponse(selectFields(request, views), {
      totalCount: page.totalCount,
      cursorOf: (_webhook, index) => cursors[index] ?? '',
    });
  };
  const webhookFor = async (request: FastifyRequest, right: 'read' | 'write') => {
    const { id } = request.params as { id: string };
    const webhook = await findWebhook(store.read, id);
    const check = right === 'read' ? readable : writable;
    return check(store.read, callerOf(request), webhook, { what: 'webhook', id });
  };
  /** What the request does to the webhook, done by someone who may, and noted in the log. */
  const change = async <T>(
    request: FastifyRequest,
    event: string,
    work: (id: string) => Promise<T>,
  ): Promise<T> => {
    const { id, owner_id } = await webhookFor(request, 'write');
    const result = await work(id);
    logger.info({ webhook: id, owner: owner_id, user: callerOf(request).userId }, event);
    return result;
  };

  return { options, view, listOf, webhookFor, change, store, logger };
}

function webhookListRoutes(app: App, { listOf, store }: WebhookSupport): void {
  app.get(
    '/users/me/webhooks',
    {
      schema: {
        operationId: 'listMyWebhooks',
        tags: ['webhooks'],
        summary: 'Webhooks of the authenticated user',
        querystring: WebhookQuery,
        response: { 200: PageOf(Webhook) },
      },
    },
    (request) => listOf(request, callerOf(request).userId),
  );

  app.get(
    '/workspaces/:id/webhooks',
    {
      schema: {
        operationId: 'listWorkspaceWebhooks',
        tags: ['webhooks', 'addition'],
        summary: 'Webhooks of a workspace',
        params: IdParams('o_…'),
        querystring: WebhookQuery,
        response: { 200: PageOf(Webhook) },
      },
    },
    async (request) => {
      await requireWorkspace(store.read, callerOf(request), request.params.id, 'read');
      return listOf(request, request.params.id);
    },
  );
}

function oneWebhookRoutes(
  app: App,
  { options, view, webhookFor, change, store, logger }: WebhookSupport,
): void {
  app.post(
    '/webhooks',
    {
      schema: {
        operationId: 'createWebhook',
        tags: ['webhooks'],
        summary: 'Create a webhook; its id is used as listener_id',
        description:
          '`url` is required; parameters stand in the query or in the body, the query wins. Each event is a POST whose body is ' +
          'what was emitted, signed as Standard Webhooks says with the `signing_secret`, which only this answer has.',
        querystring: Type.Object(textParameters),
        body: Type.Object(jsonParameters),
        response: {
          200: DataOf(
            Type.Object({ ...webhookFields, signing_secret: signingSecret }, { additionalProperties: true }),
          ),
        },
      },
    },
    async (request) => {
      const ownerId = await ownerForCreate(store.read, request);
      const { userId } = callerOf(request);
      const { url: given, ...names } = changesOf(request);
      if (given === undefined)
        throw new CallerError('missing_parameter', 'url: required, in the query or in the body', {
          parameter: 'url',
        });
      const created = await createWebhook(options, { ...names, url: given, ownerId, userId });
      logger.info({ webhook: created.webhook.id, owner: ownerId, user: userId }, 'webhook.created');
      return {
        data: selectFields(request, {
          ...viewWebhook(created.webhook, newHealth('webhook')),
          signing_secret: created.signingSecret,
        }),
      };
    },
  );

  app.get(
    '/webhooks/:id',
    {
      schema: {
        operationId: 'getWebhook',
        tags: ['webhooks', 'addition'],
        summary: 'One webhook',
        params: IdParams('wh_…'),
        response: { 200: DataOf(Webhook) },
      },
    },
    async (request) => ({ data: selectFields(request, await view(await webhookFor(request, 'read'))) }),
  );

  app.put(
    '/webhooks/:id',
    {
      schema: {
        operationId: 'updateWebhook',
        tags: ['webhooks', 'addition'],
        summary: 'Change URL, name or description of a webhook',
        params: IdParams('wh_…'),
        querystring: Type.Object(textParameters),
        body: Type.Object(jsonParameters),
        response: { 200: DataOf(Webhook) },
      },
    },
    async (request) => {
      const webhook = await change(request, 'webhook.updated', (id) =>
        updateWebhook(options, id, changesOf(request)),
      );
      return { data: selectFields(request, await view(webhook)) };
    },
  );

  app.delete(
    '/webhooks/:id',
    {
      schema: {
        operationId: 'deleteWebhook',
        tags: ['webhooks'],
        summary: 'Remove a webhook and its subscriptions; what was to be sent to it is cancelled',
        params: IdParams('wh_…'),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      await change(request, 'webhook.deleted', (id) => removeWebhook(options, id));
      return reply.code(204).send(null);
    },
  );

  app.post(
    '/webhooks/:id/rotate_secret',
    {
      schema: {
        operationId: 'rotateWebhookSecret',
        tags: ['webhooks', 'addition'],
        summary: 'Give a webhook a new signing secret; the old one signs too for 24 hours',
        params: IdParams('wh_…'),
        response: {
          200: DataOf(
            Type.Object(
              {
                ...webhookFields,
                signing_secret: signingSecret,
                old_secret_valid_until: Type.Integer({ description: 'Epoch seconds' }),
              },
              { additionalProperties: true },
            ),
          ),
        },
      },
    },
    async (request) => {
      const rotated = await change(request, 'webhook.secret-rotated', (id) => rotateSecret(options, id));
      return {
        data: selectFields(request, {
          ...(await view(rotated.webhook)),
          signing_secret: rotated.signingSecret,
          old_secret_valid_until: epochSeconds(rotated.oldUntilMs),
        }),
      };
    },
  );
}

/** Routes that stop, continue and repeat what is sent to a webhook. */
function webhookDeliveryRoutes(
  app: App,
  { options, view, webhookFor, change, logger }: WebhookSupport,
): void {
  app.post(
    '/webhooks/:id/pause',
    {
      schema: {
        operationId: 'pauseWebhook',
        tags: ['webhooks', 'addition'],
        summary: 'Send nothing more; events are held until it is resumed',
        params: IdParams('wh_…'),
        response: { 200: DataOf(Webhook) },
      },
    },
    async (request) => {
      const webhook = await change(request, 'webhook.paused', (id) => pauseWebhook(options, id));
      return { data: selectFields(request, await view(webhook)) };
    },
  );

  app.post(
    '/webhooks/:id/resume',
    {
      schema: {
        operationId: 'resumeWebhook',
        tags: ['webhooks', 'addition'],
        summary: 'Make a paused or disabled webhook active again and send what was held',
        params: IdParams('wh_…'),
        response: { 200: DataOf(Webhook) },
      },
    },
    async (request) => {
      const webhook = await change(request, 'webhook.resumed', (id) => resumeWebhook(options, id));
      return { data: selectFields(request, await view(webhook)) };
    },
  );

  app.post(
    '/webhooks/:id/redeliver',
    {
      schema: {
        operationId: 'redeliverToWebhook',
        tags: ['webhooks', 'addition'],
        summary: 'Redeliver all dead letters, or those since a time',
        description: 'To a disabled webhook nothing is sent: resume it first.',
        params: IdParams('wh_…'),
        querystring: Type.Object({ since: Type.Optional(Type.String({ description: sinceDescription })) }),
        body: Type.Object({
          since: Type.Optional(
            Type.Union([Type.Integer(), Type.String()], { description: sinceDescription }),
          ),
        }),
        response: {
          200: DataOf(
            Type.Object({
              id: Type.String({ description: 'wh_…' }),
              since: nullable(Type.Integer({ description: 'Epoch seconds' })),
              queued: Type.Integer({ description: 'Deliveries that are being queued again' }),
            }),
          ),
        },
      },
    },
    async (request) => {
      const sinceMs = timeParameter(parameterOf(request, 'since'), 'since');
      const webhook = await webhookFor(request, 'write');
      const queued = await redeliverAll(options, webhook, sinceMs);
      const user = callerOf(request).userId;
      logger.info({ webhook: webhook.id, owner: webhook.owner_id, user, queued }, 'webhook.redelivered');
      const since = sinceMs === undefined ? null : epochSeconds(sinceMs);
      return { data: selectFields(request, { id: webhook.id, since, queued }) };
    },
  );
}

/** What the query or the body has of these; the query wins. */
function changesOf(request: FastifyRequest): {
  url?: string;
  name?: string | null;
  description?: string | null;
} {
  const entries = Object.keys(textParameters)
    .map((parameter) => [parameter, parameterOf(request, parameter)] as const)
    .filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as ReturnType<typeof changesOf>;
}

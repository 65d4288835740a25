import type { Registry } from 'prom-client';
import { Type } from 'typebox';
import { unwritableReason } from '#health/node-health.ts';
import { type App, OneOf } from '#http/route-support.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { type SandboxLevel, sandboxLevels } from '#runner/sandbox-grant.ts';
import { pingStore } from '#storage/ping-store.ts';
import type { Store } from '#storage/store.ts';
import {
  EgressProxyShape,
  type EgressProxyView,
  FileBucketShape,
  type FileBucketView,
} from './health-shapes.ts';

export interface HealthRouteOptions {
  store: Pick<Store, 'read' | 'checkWritable'>;
  metrics: Registry;
  /** Why this process should get no work although its store can be reached. */
  unreadyReason?: () => string | undefined;
  sandbox: () => SandboxView;
  /** Undefined: the content of files is in the store alone. */
  fileBucket: () => FileBucketView | undefined;
  /** Undefined: connections to the outside go through none. */
  egressProxy: () => EgressProxyView | undefined;
}

/** At which level user code runs. */
export interface SandboxView {
  level: SandboxLevel;
  /** Why it is not the kernel level; null: it is, or the operator chose another one. */
  reason: string | null;
  /** Why processes of user code have no control group each; null: they do. */
  cgroups_reason: string | null;
}

const Readiness = Type.Object({
  status: OneOf(['ready']),
  sandbox: Type.Optional(
    Type.Object(
      {
        level: OneOf(sandboxLevels),
        reason: Type.Union([Type.String(), Type.Null()], {
          description: 'Why it is not the kernel level; null: it is, or another one was asked for',
        }),
        cgroups_reason: Type.Union([Type.String(), Type.Null()], {
          description: 'Why processes of user code have no control group (cgroup) each; null: they do',
        }),
      },
      { description: 'Isolation of user code; only with an API key of the admin of the instance' },
    ),
  ),
  file_bucket: Type.Optional(FileBucketShape),
  egress_proxy: Type.Optional(EgressProxyShape),
});

const Status = Type.Object({ status: OneOf(['ok']) });
const tags = ['operations', 'addition'];

export function healthRoutes(app: App, options: HealthRouteOptions): void {
  const { store, metrics, unreadyReason, sandbox, fileBucket, egressProxy } = options;
  app.get(
    '/healthz',
    {
      schema: {
        operationId: 'getHealth',
        summary: 'Whether the process lives',
        tags,
        response: { 200: Status },
      },
    },
    async () => ({ status: 'ok' as const }),
  );

  app.get(
    '/readyz',
    {
      config: { takesKey: true },
      schema: {
        operationId: 'getReadiness',
        summary: 'Whether the store takes writes and the clock can be relied on; 503 when not',
        tags,
        response: { 200: Readiness },
      },
    },
    async ({ caller }) => {
      try {
        await pingStore(store);
      } catch (cause) {
        // Anyone may ask: the log has the rest.
        throw new UnavailableError('not_ready', unwritableReason(cause), { cause });
      }
      const reason = unreadyReason?.();
      if (reason !== undefined) throw new UnavailableError('not_ready', reason);
      if (caller?.isAdmin !== true) return { status: 'ready' as const };
      // A bucket or a proxy that is away stops what needs it and nothing else: the node is ready for all other work.
      const bucket = fileBucket();
      const proxy = egressProxy();
      return {
        status: 'ready' as const,
        sandbox: sandbox(),
        ...(bucket === undefined ? {} : { file_bucket: bucket }),
        ...(proxy === undefined ? {} : { egress_proxy: proxy }),
      };
    },
  );

  let gathering: Promise<string> | undefined;
  /** Callers that ask while the metrics are gathered get the same text. */
  const metricsText = (): Promise<string> => {
    gathering ??= metrics.metrics().finally(() => {
      gathering = undefined;
    });
    return gathering;
  };

  app.get(
    '/metrics',
    {
      config: { takesKey: true },
      schema: {
        operationId: 'getMetrics',
        summary: 'Metrics in the text format of Prometheus',
        description:
          'Without a key for who asks the node itself. A request that came through a proxy (`x-forwarded-for` or `forwarded`) needs an API key of the ' +
          'admin of the instance: a proxy that publishes everything does not publish who has how much.',
        tags,
        produces: ['text/plain'],
        response: { 200: Type.String() },
      },
    },
    async ({ headers, caller }, reply) => {
      const isForwarded = headers['x-forwarded-for'] !== undefined || headers.forwarded !== undefined;
      if (isForwarded && caller?.isAdmin !== true)
        throw new CallerError(
          'forbidden',
          'this request came through a proxy: ask the node itself for its metrics, or send an API key of the admin of the instance',
        );
      const text = await metricsText();
      return reply.type(metrics.contentType).serializer(String).send(text);
    },
  );
}

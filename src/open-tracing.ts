import type { Settings } from '#config/settings.ts';
import { createGuardedDispatcher, type GuardedDispatcherOptions } from '#egress/guarded-dispatcher.ts';
import { guardedPost, postTarget } from '#egress/guarded-post.ts';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import { parseRatio, samplerOf } from '#telemetry/sampler.ts';
import { parseExportHeaders, SpanExporter } from '#telemetry/span-exporter.ts';
import { noTracer, Tracer } from '#telemetry/tracer.ts';

/** What is read of the answer of a receiver. */
const answerBytesMax = 4_096;

export interface Tracing {
  tracer: Tracer;
  /** Undefined when tracing is off. */
  exporter: SpanExporter | undefined;
  /** Sends the last spans, and closes the connections to the receiver. */
  close(): Promise<void>;
}

/** Opens the way to the receiver that the settings name; without one tracing is off. The exporter is not started yet. */
export function openTracing(
  settings: Settings,
  service: {
    version: string;
    node: string;
    clock: Clock;
    logger: Logger;
    /** How connections to the receiver are made. */
    egress: Pick<GuardedDispatcherOptions, 'policy' | 'extraCa'>;
  },
): Tracing {
  if (settings.traceEndpoint === '') return { tracer: noTracer, exporter: undefined, close: async () => {} };
  const { version, node, clock, logger } = service;
  const dispatcher = createGuardedDispatcher(service.egress);
  const target = postTarget(`${settings.traceEndpoint.replace(/\/+$/, '')}/v1/traces`);
  const headers = {
    ...parseExportHeaders(settings.traceHeaders),
    'content-type': 'application/json',
    'user-agent': `Millrace/${version}`,
  };
  const exporter = new SpanExporter({
    post: (body, { timeoutMs, signal }) =>
      guardedPost(dispatcher, target, { headers, body, timeoutMs, signal, bodyBytesMax: answerBytesMax }),
    receiver: target.origin,
    resource: {
      version,
      attributes: {
        'service.name': settings.traceServiceName,
        'service.version': version,
        'service.instance.id': node,
      },
    },
    logger,
  });
  const sampler = samplerOf(settings.traceSampler, parseRatio(settings.traceSamplerArg) ?? 1);
  return {
    tracer: new Tracer({ exporter, sampler, nowMs: () => clock.now() }),
    exporter,
    async close() {
      await exporter.stop();
      await dispatcher.destroy();
    },
  };
}

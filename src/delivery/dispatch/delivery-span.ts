import type { HeldDelivery } from '#delivery/delivery.ts';
import type { Span } from '#telemetry/span.ts';
import type { Tracer } from '#telemetry/tracer.ts';
import type { AttemptOutcome } from './delivery-retries.ts';

/** Starts the span of one attempt; undefined when tracing is off, and for an event that was emitted when it was. */
export function startDeliverySpan(tracer: Tracer, delivery: HeldDelivery): Span | undefined {
  if (!tracer.isOn || delivery.trace === null) return undefined;
  const { id, ownerId, listenerId, emitterId, emitId, attempts } = delivery;
  return tracer.start(
    {
      name: 'delivery.attempt',
      kind: listenerId.startsWith('wh_') ? 'client' : 'producer',
      attributes: {
        'millrace.owner.id': ownerId,
        'millrace.delivery.id': id,
        'millrace.listener.id': listenerId,
        'millrace.emitter.id': emitterId,
        'millrace.event.emit_id': emitId,
        'millrace.delivery.attempt': attempts + 1,
      },
    },
    delivery.trace,
  );
}

export function endDeliverySpan(span: Span | undefined, outcome: AttemptOutcome): void {
  if (span === undefined) return;
  const { status, error } = 'attempt' in outcome ? outcome.attempt : {};
  if (outcome.kind === 'failed' || outcome.kind === 'gone')
    span.fail(error ?? `the receiver answered ${status}, expected 2xx`);
  span.end({ 'millrace.delivery.outcome': outcome.kind, 'http.response.status_code': status });
}

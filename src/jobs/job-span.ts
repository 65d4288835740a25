import type { Span } from '#telemetry/span.ts';
import type { Tracer } from '#telemetry/tracer.ts';
import type { LeasedJob } from './job-store.ts';

/**
 * Starts the span of a job; undefined when tracing is off, and for jobs that belong to no trace. A run of a workflow has one span over
 * all waits and restarts, from its start to its end, which is exported by what ends the run.
 */
export function startJobSpan(tracer: Tracer, job: LeasedJob): Span | undefined {
  if (!tracer.isOn) return undefined;
  const { trace } = job.payload as { trace?: string };
  const { id, kind, ownerId, attempts } = job;
  const common = { kind: 'consumer', attributes: { 'millrace.owner.id': ownerId } } as const;
  if (kind === 'run_workflow') {
    const { workflow_id: workflowId } = job.payload as { workflow_id: string };
    const attributes = {
      ...common.attributes,
      'millrace.workflow.id': workflowId,
      'millrace.run.id': id,
    };
    return tracer.resume(
      { ...common, id, name: 'workflow.run', startMs: job.createdAtMs, attributes },
      trace,
    );
  }
  if (kind !== 'run_source' && trace === undefined) return undefined;
  const { source_id: sourceId } = job.payload as { source_id?: string };
  const attributes = {
    ...common.attributes,
    'millrace.job.id': id,
    'millrace.job.attempt': attempts,
    'millrace.source.id': sourceId,
  };
  return tracer.start({ ...common, name: spanNames[kind] ?? kind, attributes }, trace);
}

/** False for a job whose span lasts longer than one attempt. */
export function endsWithAttempt({ kind }: Pick<LeasedJob, 'kind'>): boolean {
  return kind !== 'run_workflow';
}

const spanNames: Partial<Record<LeasedJob['kind'], string>> = {
  run_source: 'source.run',
  fan_out_event: 'event.fan_out',
  deliver_scheduled_event: 'event.deliver_scheduled',
  send_from_run: 'workflow.send',
};

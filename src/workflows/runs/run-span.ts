import { toError } from '#lib/errors.ts';
import type { RunState, RunTable } from '#storage/tables/workflow-tables.ts';
import { currentSpan, inSpan, type Span } from '#telemetry/span.ts';

/** One try of a step. */
interface StepTry {
  strand: { readonly iteration: string; tryAt(position: number): number };
  step: { readonly id: string; readonly namespace: string };
  position: number;
}

/** An error of a run or step; its texts are redacted. */
interface RedactedError {
  code: string;
  msg: string;
}

interface StepOutcome {
  status: string;
  error?: RedactedError | undefined;
  flow?: { kind: string } | undefined;
}

/** Runs one try of a step in a span of its own, below that of the run. */
export function inStepSpan<R extends StepOutcome>(
  run: RunTable,
  at: StepTry,
  work: () => Promise<R>,
): Promise<R> {
  const span = startStepSpan(run, at);
  return span === undefined ? work() : observed(span, work);
}

async function observed<R extends StepOutcome>(span: Span, work: () => Promise<R>): Promise<R> {
  try {
    const result = await inSpan(span, work);
    if (result.error !== undefined) span.fail(errorText(result.error));
    span.set({ 'millrace.step.state': result.status, 'millrace.step.flow': result.flow?.kind });
    return result;
  } catch (error) {
    span.fail(toError(error).message);
    span.set({ 'millrace.step.state': 'interrupted' });
    throw error;
  } finally {
    span.end();
  }
}

function startStepSpan(run: RunTable, { strand, step, position }: StepTry): Span | undefined {
  return currentSpan()?.child({
    name: 'workflow.step',
    attributes: {
      'millrace.owner.id': run.owner_id,
      'millrace.workflow.id': run.workflow_id,
      'millrace.run.id': run.id,
      'millrace.step.id': step.id,
      'millrace.step.namespace': step.namespace,
      'millrace.step.iteration': strand.iteration === '' ? undefined : strand.iteration,
      'millrace.step.try': strand.tryAt(position),
    },
  });
}

/**
 * Ends the span of the run that the caller works on, and exports it. To be called once the end is on disk.
 * @param end.error JSON of the run's error, redacted; null: it has none
 */
export function endRunSpan(end: { state: RunState; error: string | null }): void {
  const span = currentSpan();
  if (span === undefined) return;
  if (end.error !== null) span.fail(errorText(JSON.parse(end.error) as RedactedError));
  span.end({ 'millrace.run.state': end.state });
}

function errorText({ code, msg }: RedactedError): string {
  return `${code}: ${msg}`;
}

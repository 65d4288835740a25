import { syncBuiltinESMExports } from 'node:module';
import type { StepWork } from './step-work.ts';

/**
 * Makes `process.env` one of steps: the ids of the run are those of the call that reads them, since calls of several
 * runs share the process. Before any code of a component is loaded.
 */
export function makeStepEnvironment(current: () => StepWork | undefined): void {
  const environment: Record<string, string | undefined> = { ...process.env };
  const define = (name: string, read: (step: StepWork) => unknown): void => {
    Object.defineProperty(environment, name, {
      get: () => {
        const step = current();
        const value = step === undefined ? undefined : read(step);
        return typeof value === 'string' ? value : undefined;
      },
      enumerable: true,
      configurable: true,
    });
  };
  define('PIPEDREAM_WORKFLOW_ID', (step) => step.workflowId);
  define('PIPEDREAM_TRACE_ID', (step) => step.traceId);
  process.env = environment;
  syncBuiltinESMExports();
}

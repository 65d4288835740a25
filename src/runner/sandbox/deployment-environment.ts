import { syncBuiltinESMExports } from 'node:module';
import type { StepWork } from './step-work.ts';
import { reportUnset } from './unset-variables.ts';

/** Environment variables by name: what the code of a deployment finds in `process.env`. */
export type Environment = Record<string, string | undefined>;

/** Environment variables of every deployment: those that the process was started with, `TZ` alone (`launcher.ts`). */
const common: Environment = { ...process.env };
// Bubblewrap sets it to a folder without meaning.
delete common.PWD;

/** The environment of a source's code. */
export function sourceEnvironment(deploymentId: string): Environment {
  return { ...common, PD_COMPONENT: deploymentId };
}

/**
 * The environment of steps: the variables of the workflow, and the IDs of the run. Calls of several runs overlap, so these are the IDs of
 * the call that reads them.
 */
export function stepEnvironment(
  current: () => StepWork | undefined,
  variables: Readonly<Record<string, string>>,
): Environment {
  const environment: Environment = { ...common, ...variables };
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
  return environment;
}

/**
 * Makes `process.env` the environment of the deployment whose code reads it. `import { env } from 'node:process'` is one object for all code of
 * the process, so it is a view of that environment. Called before any code of a component is loaded.
 */
export async function shareEnvironment(
  current: () => { environment: Environment } | undefined,
): Promise<void> {
  const view = viewOf(() => current()?.environment ?? common);
  Object.defineProperty(process, 'env', {
    get: () => current()?.environment ?? view,
    set: (value: unknown) => {
      const place = current();
      if (place !== undefined && typeof value === 'object' && value !== null)
        place.environment = environmentOf(
          Object.fromEntries(Object.entries(value).map(([name, one]) => [name, String(one)])),
        );
    },
    enumerable: true,
    configurable: true,
  });
  // Node reads what a module exports to `import` when it is first imported, and when it is synchronized.
  await import('node:process');
  syncBuiltinESMExports();
}

/** Values become text when they are set, as in Node's own `process.env`. */
export function environmentOf(values: Environment): Environment {
  return new Proxy(values, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name);
      if (value === undefined && typeof name === 'string') reportUnset(name);
      return value;
    },
    set: (target, name, value) => Reflect.set(target, name, String(value)),
  });
}

function viewOf(own: () => Environment): Environment {
  return new Proxy(common, {
    get: (_, name) => Reflect.get(own(), name),
    set: (_, name, value) => Reflect.set(own(), name, value),
    has: (_, name) => Reflect.has(own(), name),
    deleteProperty: (_, name) => Reflect.deleteProperty(own(), name),
    ownKeys: () => Reflect.ownKeys(own()),
    getOwnPropertyDescriptor: (_, name) => Reflect.getOwnPropertyDescriptor(own(), name),
  });
}

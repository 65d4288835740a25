import { syncBuiltinESMExports } from 'node:module';
import { makeFolder, removeFolder } from './primordials.ts';
import type { StepWork } from './step-work.ts';
import { reportUnset } from './unset-variables.ts';

type Environment = Record<string, string | undefined>;

/** Environment variables and the `/tmp` that a deployment has for itself among others in its process. */
export class DeploymentPlace {
  readonly deploymentId: string;
  /** What `process.env` is. */
  environment: Environment;
  readonly #folder: string;
  #hasFolder = false;

  /** `name` is unique in the process; `base` is the folder of the process. */
  constructor(name: string, options: { deploymentId: string; base: string; environment: Environment }) {
    this.deploymentId = options.deploymentId;
    this.environment = environmentOf(options.environment);
    this.#folder = `${options.base}/of-${name}`;
  }

  /** Made at its first use. */
  get folder(): string {
    if (!this.#hasFolder) makeFolder(this.#folder, { recursive: true });
    this.#hasFolder = true;
    return this.#folder;
  }

  /** What cannot be removed goes with the process. */
  remove(): void {
    if (!this.#hasFolder) return;
    this.#hasFolder = false;
    void removeFolder(this.#folder, { recursive: true, force: true }).catch(() => undefined);
  }
}

/** What every deployment finds in its environment. */
const common: Environment = { ...process.env };
// Bubblewrap sets it, to a folder that says nothing.
delete common.PWD;

/** As code of a source finds it. */
export function sourceEnvironment(deploymentId: string): Environment {
  return { ...common, PD_COMPONENT: deploymentId };
}

/**
 * As steps find it: the variables of the workflow, and the ids of the run, which are those of the call that reads them, since calls of
 * several runs go on at once.
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
 * Makes `process.env` that of the deployment whose code reads it. `import { env } from 'node:process'` is one object for all
 * code of the process: a view of the same. Before any code of a component is loaded.
 */
export async function shareEnvironment(current: () => DeploymentPlace | undefined): Promise<void> {
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
  // What a module exports to `import` is read when it is first imported, and when it is told to.
  await import('node:process');
  syncBuiltinESMExports();
}

/** Values become text when they are set, as Node does it with those of a process. */
function environmentOf(values: Environment): Environment {
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

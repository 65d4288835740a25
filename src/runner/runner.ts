import type { ShareCounts, ShareResource } from '#metering/share-records.ts';
import type { BundleFormat } from '#storage/tables/component-tables.ts';
import type { CallOutcome, HttpReply, LogLine, UserCodeError } from './call-outcome.ts';
import type { KernelPrograms, SandboxLevel } from './sandbox-grant.ts';

/**
 * Runs user code. Promises:
 * - the outcome of a call is a value; a call never rejects because of user code;
 * - a process serves one trust domain in its life, so one owner; it starts with an empty environment;
 * - the deployments in it have their own code, environment and `/tmp`; one that ends the process has its own from then on;
 * - code is evaluated once per process, and again after a change of bundle, props or revision;
 * - calls for one deployment may overlap (a vendor calls the endpoint while `activate` runs);
 * - after `close` no process of the runner is left.
 */
export interface Runner {
  /** Programs of the kernel level where it is active, for other processes that need walls. */
  readonly kernel?: KernelPrograms;
  /** Evaluates a bundle in a throw-away process and returns what it defines. */
  describe(request: DescribeRequest): Promise<DescribeOutcome>;
  /** Runs a hook, `run`, `additionalProps`, `eventNames` or options of a deployed component on its warm process. */
  call(request: CallRequest, options?: CallOptions): Promise<CallOutcome>;
  /**
   * Says whose code is due in a moment, so that processes for owners that have none are started before. `part` of the calls, more than 0 and at most 1,
   * come to this node.
   */
  expectOwners(ownerIds: readonly string[], part: number): void;
  /** Takes a deployment out of its process, and ends a process that only it uses. Calls in flight end as `cancelled`. */
  forget(deploymentId: string): Promise<void>;
  /** Removes the folder that was `/tmp` of calls with this `scratch`, if the deployment's process still runs. */
  releaseScratch(deploymentId: string, scratch: string): void;
  stats(): RunnerStats;
  /** The processes that have code of deployments, and the deployments that were set apart, now. */
  processes(): RunnerProcesses;
  close(): Promise<void>;
}

export interface Bundle {
  /** Hex SHA-256 of `code`, and of `packages` if present. */
  hash: string;
  /** One JavaScript text, made by components/bundle-component.ts. It contains everything except `packages`. */
  code: string;
  format: BundleFormat;
  /** npm packages that `code` imports from files. Absent: they are a part of it. */
  packages?: BundlePackages;
}

export interface BundlePackages {
  /** Owner that built the bundle. No other owner shares its files. */
  ownerId: string;
  /** Text of a package-lock.json. */
  lockfile: string;
}

/** Packages as files that a process can read. */
export interface OpenPackages {
  /** The folder, which has `node_modules`. */
  folder: string;
  /** Called when no process reads them. */
  release: () => void;
}

export interface PackageSource {
  /** Returns their folder, which may not exist yet. Rejects with a message for users, as `open` does. */
  folderOf(packages: BundlePackages): Promise<string>;
  /** Installs them if necessary. */
  open(packages: BundlePackages): Promise<OpenPackages>;
}

export interface DescribeRequest {
  bundle: Bundle;
  ownerId: string;
  /** Ends the process; the outcome is then `cancelled`. */
  signal?: AbortSignal;
}

export type DescribeOutcome =
  | { status: 'described' /** JSON text of a `ComponentShape`. */; shape: string; logs: LogLine[] }
  | { status: Exclude<CallOutcome['status'], 'finished'>; error: UserCodeError; logs: LogLine[] };

export interface CallRequest {
  /** dc_…, p_…, or the ID of a deployment that is only tried. */
  deploymentId: string;
  ownerId: string;
  /** Code of the same owner shares processes where this is the same too (trust-domain.ts). Absent: it uses no accounts of other users. */
  trustDomain?: string;
  /** True: the deployment asked for a process of its own. */
  isolated?: boolean;
  bundle: Bundle;
  /**
   * Names one of several bundles of the deployment (the step ID of a workflow's step). Each is evaluated once in a process, and has its own
   * props. Absent: the deployment is one bundle.
   */
  module?: string;
  /** Set when the call runs in its own process, which ends with it, so that only this call can be to blame for its end. */
  alone?: true;
  /** `packages` of all bundles of the deployment, where it has several. The same for all calls of a revision. */
  packages?: readonly BundlePackages[];
  /** Memory of the process in MB, if it is not the default. The same for all calls of a revision. */
  memoryMb?: number;
  /** Increases whenever code, props or credentials change. Code is evaluated again for another revision. */
  revision: number | string;
  call: UserCall;
  /**
   * Values behind `this.<prop>`, by prop name: app props `{ $auth: {…} }` (or `{}` for apps without auth), http props `{ endpoint }`, timers
   * `{ intervalSeconds }` or `{ cron, timezone }`, everything else the value itself.
   */
  props: Record<string, unknown>;
  /** Definitions from additionalProps, by name, as JSON. They are merged over the static ones. */
  dynamicProps?: Record<string, unknown>;
  /** Environment variables of a workflow; the same for all calls of a revision. */
  variables?: Readonly<Record<string, string>>;
  /** Component db at the start of the call: JSON text by key. */
  db: Record<string, string>;
  /** Wall-clock limit for this call. */
  deadlineMs: number;
}

export type UserCall =
  | { kind: 'hook'; hook: 'deploy' | 'activate' | 'deactivate' }
  /** `event` is JSON text (absent: undefined). A component without `run` emits the event that it was given. */
  | { kind: 'run'; event?: string }
  /** Result: JSON text of a `ComponentShape`, as from `describe`, for code that shares a process. */
  | { kind: 'describe' }
  | StepCall
  /** Result: JSON of `{ props: {…definitions returned}, previous: {…the argument after in-place changes} }`. */
  | { kind: 'additionalProps'; previous: Record<string, unknown> }
  /** Result: JSON of the answers of `eventNames` of each apphook prop, by prop (null: no names). `previous`: all definitions. */
  | { kind: 'eventNames'; previous: Record<string, unknown> }
  | OptionsCall;

/** Options for the value of a prop. Result: JSON of what its `options` returned, unchanged; absent for undefined. */
export interface OptionsCall {
  kind: 'options';
  prop: string;
  /** From 0 on. */
  page: number;
  /** The `context` of the page before; empty at first. */
  prevContext: Record<string, unknown>;
  query: string;
  /** Present when the prop comes from additionalProps, which is called with these definitions first. */
  previous?: Record<string, unknown>;
}

/** One step of a workflow's run: `run.call(this, { steps, $ })`. String props may hold `{{expressions}}` over `steps`. */
export interface StepCall {
  kind: 'step';
  /** JSON text of an object: `trigger` and the exports of earlier steps, by namespace. */
  steps: string;
  /** JSON text of an object: `$.context` without `deadline`, which the process adds. */
  context: string;
  /** URL that `$.flow.suspend`, `delay` and `rerun` return. */
  resumeUrl: string;
  cancelUrl: string;
  /** Name of the folder that is `/tmp` for this call: the ID of the run. Steps of a run share files, runs do not. */
  scratch: string;
  /** Set when the step belongs to no workflow: its props are not evaluated, `$.flow` cannot wait, and it cannot emit or stream. */
  byItself?: true;
}

/** A call from the sandbox to the host while its code runs: data stores, files, other workflows. */
export interface HostCall {
  /** `data_store` | `file` | `trigger_workflow` */
  kind: string;
  /** JSON object, at most 64 KB. User code wrote it, so it is checked like a request. */
  header: Record<string, unknown>;
  /** At most 1 MB. */
  body: Buffer;
}

export interface HostCallAnswer {
  header: Record<string, unknown>;
  body?: Uint8Array;
}

export interface CallOptions {
  /** Called at the first `http.respond` of this call (of a step: `$.respond`), before the call has ended. */
  onRespond?: (reply: HttpReply) => void;
  /** Called when a connection of this call's code cannot be made. The process names the call. */
  onRefused?: () => void;
  /** Answers a host call. A rejection is thrown in the code that made it (of a CallerError, the message). */
  onHostCall?: (hostCall: HostCall) => Promise<HostCallAnswer>;
  signal?: AbortSignal;
}

/**
 * `deployments`: calls of deployments come to it until it is idle for too long. `evaluation`: it evaluates code that is being deployed. `call`: one call
 * has it to itself. The last two end with that.
 */
export const processPurposes = ['deployments', 'evaluation', 'call'] as const;

export const processStates = ['idle', 'busy', 'background', 'blocked', 'leaving'] as const;

/** A process with code of deployments. */
export interface RunnerProcess {
  /** Undefined until the process has started. */
  pid: number | undefined;
  ownerId: string;
  /** The domain of the code that it may run (trust-domain.ts). */
  trustDomain: string;
  /** The last time that code of its trust domain ended a shared process; undefined: not since the start of the service. */
  lastBlame: Blame | undefined;
  /** True: other deployments of its trust domain may use it. */
  isShared: boolean;
  purpose: (typeof processPurposes)[number];
  /**
   * `background`: it has no calls, and code that ended calls left behind uses the processor. `blocked`: it has calls and gives no sign of life. `leaving`:
   * it accepts no further calls.
   */
  state: (typeof processStates)[number];
  /** Those with the most calls in it first. */
  deploymentIds: string[];
  calls: number;
  /** Resident memory in bytes; undefined where the system does not report it. */
  memoryBytes: number | undefined;
  /** Cores that it kept busy in the last second (0 to their number). */
  cores: number;
  /** True: it gets processor time after the processes of other owners (`cpu-shares.ts`). */
  isGreedy: boolean;
  /** Epoch ms. */
  startedAtMs: number;
}

/** The end of a shared process, and the deployment whose code caused it. */
export interface Blame {
  deploymentId: string;
  /** How the call ended that ended the process. */
  reason: string;
  /** Epoch ms. */
  atMs: number;
}

/** A deployment that has a process of its own because its code ended a shared one. */
export interface SetApartDeployment extends Blame {
  ownerId: string;
}

/** The use of processes by an owner, and how often its share was not enough. */
export interface OwnerShare {
  ownerId: string;
  processes: number;
  /** Private memory of its processes at the last look. */
  memoryBytes: number;
  /** How often something of it waited, and was refused, because of a share, since the start. */
  delayed: number;
  refused: number;
}

export interface RunnerProcesses {
  /** Limits of all processes of the node together. */
  processesMax: number;
  memoryBytesMax: number;
  processes: RunnerProcess[];
  shares: OwnerShare[];
  setApart: SetApartDeployment[];
}

export interface RunnerStats {
  level: SandboxLevel;
  /** True: each process runs as a user of its own. */
  ownUsers: boolean;
  /** True: code may load the native addons of its packages. */
  addons: boolean;
  /** The reason why the kernel level is not used, where it was tried. */
  notKernel?: string;
  /** The reason why processes have no control groups of their own, where that was tried. */
  notDelegated?: string;
  /** Number of processes that have code of deployments, and of the deployments that have code in one. */
  warm: number;
  deployments: number;
  /** Number of deployments with a process of their own because of what their code did. */
  setApart: number;
  prewarmed: number;
  calls: number;
  kills: number;
  /** Numbers of what was delayed or refused because of an owner's share, since the start. */
  shares: Readonly<Record<ShareResource, Readonly<ShareCounts>>>;
}

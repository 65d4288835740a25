import type { BundleFormat } from '#storage/tables/component-tables.ts';
import type { CallOutcome, HttpReply, LogLine, UserCodeError } from './call-outcome.ts';
import type { KernelPrograms, SandboxLevel } from './confinement.ts';
import type { ShareCounts, ShareResource } from './share-records.ts';

/**
 * Where user code runs. Promises:
 * - the outcome of a call is a value; a call never rejects because of what user code did;
 * - a process serves one trust domain in its life, so one owner; it starts with an empty environment;
 * - the deployments in it have code, environment and `/tmp` of their own; one that ends the process has its own from then on;
 * - code is evaluated once per process; a change of bundle, props or revision evaluates it anew;
 * - calls for one deployment may overlap (a vendor calls the endpoint while `activate` runs);
 * - after `close` no process of ours is left.
 */
export interface Runner {
  /** What the kernel level is made of, where that is active: for other processes that need walls. */
  readonly kernel?: KernelPrograms;
  /** Evaluates a bundle in a throw-away process and says what it defines. */
  describe(request: DescribeRequest): Promise<DescribeOutcome>;
  /** Runs a hook, `run`, `additionalProps`, `eventNames` or options of a deployed component on its warm process. */
  call(request: CallRequest, options?: CallOptions): Promise<CallOutcome>;
  /** Takes a deployment out of its process, and ends one that it has for itself. Calls in flight end as `cancelled`. */
  forget(deploymentId: string): Promise<void>;
  /** Removes the folder that was `/tmp` of calls with this `scratch`, where the deployment's process is still there. */
  releaseScratch(deploymentId: string, scratch: string): void;
  stats(): RunnerStats;
  /** The processes that have code of deployments, and what was set apart: read when asked. */
  processes(): RunnerProcesses;
  close(): Promise<void>;
}

export interface Bundle {
  /** Hex SHA-256 of `code`, and of `packages` where there are some. */
  hash: string;
  /** One JavaScript text, made by components/bundle-component.ts: self-contained but for `packages`. */
  code: string;
  format: BundleFormat;
  /** npm packages that `code` imports from files; absent: they are a part of it. */
  packages?: BundlePackages;
}

export interface BundlePackages {
  /** Who built the bundle: files are shared by nobody else. */
  ownerId: string;
  /** Text of a package-lock.json. */
  lockfile: string;
}

/** Packages as files, ready to be read by a process. */
export interface OpenPackages {
  /** Has `node_modules`. */
  folder: string;
  /** Called when no process reads them any more. */
  release: () => void;
}

export interface PackageSource {
  /** Where they are, now or later. Rejects with what a person can read, as `open` does. */
  folderOf(packages: BundlePackages): Promise<string>;
  /** Makes sure that they are there. */
  open(packages: BundlePackages): Promise<OpenPackages>;
}

export interface DescribeRequest {
  bundle: Bundle;
  ownerId: string;
}

export type DescribeOutcome =
  | { status: 'described' /** JSON text of a `ComponentShape`. */; shape: string; logs: LogLine[] }
  | { status: Exclude<CallOutcome['status'], 'finished'>; error: UserCodeError; logs: LogLine[] };

export interface CallRequest {
  /** dc_…, p_… or of a deployment that is only tried. */
  deploymentId: string;
  ownerId: string;
  /** Code of the same owner shares processes where this is the same too (trust-domain.ts). Absent: it uses no accounts of others. */
  trustDomain?: string;
  /** The deployment asked for a process of its own. */
  isolated?: boolean;
  bundle: Bundle;
  /**
   * Names one of several bundles of the deployment (the step id of a workflow's step): each is evaluated once in a process, and has
   * props of its own. Absent: the deployment is one bundle.
   */
  module?: string;
  /** In a process of its own, which ends with the call: whatever happens to it is this call's doing. */
  alone?: true;
  /** All `packages` of its bundles, where it has several; the same for all calls of a revision. */
  packages?: readonly BundlePackages[];
  /** Memory of the process in MB, where it is not the default; the same for all calls of a revision. */
  memoryMb?: number;
  /** Grows whenever code, props or credentials changed: for another revision the code is evaluated anew. */
  revision: number | string;
  call: UserCall;
  /**
   * What `this.<prop>` is made from, by prop name: app props `{ $auth: {…} }` (or `{}` for apps without auth),
   * http props `{ endpoint }`, timers `{ intervalSeconds }` or `{ cron, timezone }`, everything else the value itself.
   */
  props: Record<string, unknown>;
  /** Definitions that came from additionalProps, by name, as JSON; merged over the static ones. */
  dynamicProps?: Record<string, unknown>;
  /** Environment variables of a workflow; the same for all calls of a revision. */
  variables?: Readonly<Record<string, string>>;
  /** Component db at the start of the call: JSON text by key. */
  db: Record<string, string>;
  /** Wall clock for this call. */
  deadlineMs: number;
}

export type UserCall =
  | { kind: 'hook'; hook: 'deploy' | 'activate' | 'deactivate' }
  /** `event` is JSON text (absent: undefined). A component without `run` emits the event it was given. */
  | { kind: 'run'; event?: string }
  /** Result: JSON text of a `ComponentShape`, as `describe` gives it, of code beside other code. */
  | { kind: 'describe' }
  | StepCall
  /** Result: JSON of `{ props: {…definitions returned}, previous: {…the argument after in-place changes} }`. */
  | { kind: 'additionalProps'; previous: Record<string, unknown> }
  /** Result: JSON of what `eventNames` of each apphook prop say, by prop (null: nothing). `previous`: all definitions. */
  | { kind: 'eventNames'; previous: Record<string, unknown> }
  | OptionsCall;

/** What a prop can be given. Result: JSON of what its `options` answered, as it is; absent for undefined. */
export interface OptionsCall {
  kind: 'options';
  prop: string;
  /** From 0 on. */
  page: number;
  /** The `context` of the page before; empty at first. */
  prevContext: Record<string, unknown>;
  query: string;
  /** Present: the prop is one of additionalProps, which is called with these definitions first. */
  previous?: Record<string, unknown>;
}

/** One step of a workflow's run: `run.call(this, { steps, $ })`. String props may hold `{{expressions}}` over `steps`. */
export interface StepCall {
  kind: 'step';
  /** JSON text of an object: `trigger` and the exports of earlier steps, by namespace. */
  steps: string;
  /** JSON text of an object: `$.context` without `deadline`, which the process adds. */
  context: string;
  /** What `$.flow.suspend`, `delay` and `rerun` answer. */
  resumeUrl: string;
  cancelUrl: string;
  /** Names the folder that `/tmp` is for this call: the id of the run, so that its steps share files and runs do not. */
  scratch: string;
  /**
   * It is the step of no workflow: its props are taken as they are, `$.flow` cannot wait, and there is nobody to emit or
   * stream to.
   */
  byItself?: true;
}

/** A call from the sandbox to the host while a call goes on: data stores, files, other workflows. */
export interface HostCall {
  /** `data_store` | `file` | `trigger_workflow` */
  kind: string;
  /** An object of JSON, at most 64 KB; written by user code, so to be checked like a request. */
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
  /** Called when a connection that the code of this call asked for cannot be made; of which call it is, the process says. */
  onRefused?: () => void;
  /** Answers a host call; what it rejects with (a CallerError: its message) is thrown at the code that made it. */
  onHostCall?: (hostCall: HostCall) => Promise<HostCallAnswer>;
  signal?: AbortSignal;
}

export const processStates = ['idle', 'busy', 'blocked', 'leaving'] as const;

/** A process with code of deployments. */
export interface RunnerProcess {
  /** Undefined until it is known. */
  pid: number | undefined;
  ownerId: string;
  /** Other deployments of its trust domain may come to it. */
  isShared: boolean;
  /** `blocked`: calls are in it, and it gives no sign of life. `leaving`: it takes no further calls. */
  state: (typeof processStates)[number];
  deploymentIds: string[];
  calls: number;
  /** Resident memory in bytes; undefined where the system does not say. */
  memoryBytes: number | undefined;
  /** Epoch ms. */
  startedAtMs: number;
}

/** A deployment that has a process of its own since its code ended one that others shared. */
export interface SetApartDeployment {
  deploymentId: string;
  ownerId: string;
  /** How the call ended that ended the process. */
  reason: string;
  /** Epoch ms. */
  atMs: number;
}

/** What an owner has of all processes, and how often its share was not enough. */
export interface OwnerShare {
  ownerId: string;
  processes: number;
  /** Private memory of them, when it was looked at last. */
  memoryBytes: number;
  /** Calls that waited for a process, and those that got none, because of the share, since the start. */
  delayed: number;
  refused: number;
}

export interface RunnerProcesses {
  /** Bounds of all processes of the node together. */
  processesMax: number;
  memoryBytesMax: number;
  processes: RunnerProcess[];
  shares: OwnerShare[];
  setApart: SetApartDeployment[];
}

export interface RunnerStats {
  level: SandboxLevel;
  /** Each process runs as a user of its own. */
  ownUsers: boolean;
  /** Code may load the native addons of its packages. */
  addons: boolean;
  /** Why it is not the kernel level, where that was tried. */
  notKernel?: string;
  /** Processes that have code of deployments, and how many deployments have theirs in one. */
  warm: number;
  deployments: number;
  /** Deployments with a process of their own because of what their code did. */
  setApart: number;
  prewarmed: number;
  calls: number;
  kills: number;
  /** What waited or was refused because its owner had its share, since the start. */
  shares: Readonly<Record<ShareResource, Readonly<ShareCounts>>>;
}

import type { CallOutcome, HttpReply, LogLine, UserCodeError } from './call-outcome.ts';

/**
 * Where user code runs. Promises:
 * - the outcome of a call is a value; a call never rejects because of what user code did;
 * - a process serves exactly one deployment in its life, and one owner; it starts with an empty environment;
 * - code is evaluated once per process; a change of bundle, props or revision gets a new process;
 * - calls for one deployment may overlap (a vendor calls the endpoint while `activate` runs);
 * - after `close` no process of ours is left.
 */
export interface Runner {
  /** Evaluates a bundle in a throw-away process and says what it defines. */
  describe(request: DescribeRequest): Promise<DescribeOutcome>;
  /** Runs a hook, `run` or `additionalProps` of a deployed component on its warm process. */
  call(request: CallRequest, options?: CallOptions): Promise<CallOutcome>;
  /** Ends the warm process of a deployment, if there is one. Calls in flight end as `cancelled`. */
  forget(deploymentId: string): Promise<void>;
  stats(): RunnerStats;
  close(): Promise<void>;
}

export interface Bundle {
  /** Hex SHA-256 of `code`. */
  hash: string;
  /** One self-contained JavaScript text, made by components/bundle-component.ts. */
  code: string;
  format: 'cjs' | 'esm';
}

export interface DescribeRequest {
  bundle: Bundle;
  ownerId: string;
}

export type DescribeOutcome =
  | { status: 'described' /** JSON text of a `ComponentShape`. */; shape: string; logs: LogLine[] }
  | { status: Exclude<CallOutcome['status'], 'finished'>; error: UserCodeError; logs: LogLine[] };

export interface CallRequest {
  /** dc_…; binds the warm process. */
  deploymentId: string;
  ownerId: string;
  bundle: Bundle;
  /** Grows whenever code, props or credentials changed: another revision gets a fresh process. */
  revision: number | string;
  call: UserCall;
  /**
   * What `this.<prop>` is made from, by prop name: app props `{ $auth: {…} }` (or `{}` for apps without auth),
   * http props `{ endpoint }`, timers `{ intervalSeconds }` or `{ cron, timezone }`, everything else the value itself.
   */
  props: Record<string, unknown>;
  /** Definitions that came from additionalProps, by name, as JSON; merged over the static ones. */
  dynamicProps?: Record<string, unknown>;
  /** Component db at the start of the call: JSON text by key. */
  db: Record<string, string>;
  /** Wall clock for this call. */
  deadlineMs: number;
}

export type UserCall =
  | { kind: 'hook'; hook: 'deploy' | 'activate' | 'deactivate' }
  /** `event` is JSON text (absent: undefined). A component without `run` emits the event it was given. */
  | { kind: 'run'; event?: string }
  /** Result: JSON of `{ props: {…definitions returned}, previous: {…the argument after in-place changes} }`. */
  | { kind: 'additionalProps'; previous: Record<string, unknown> };

export interface CallOptions {
  /** Called at the first `http.respond` of this call, before the call has ended. */
  onRespond?: (reply: HttpReply) => void;
  signal?: AbortSignal;
}

export interface RunnerStats {
  level: 'off' | 'default' | 'hardened';
  warm: number;
  prewarmed: number;
  calls: number;
  kills: number;
}

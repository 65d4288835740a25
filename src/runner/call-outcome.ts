import type { SendKind } from '#storage/tables/workflow-tables.ts';
import type { LogLevel } from './protocol.ts';
/** The outcome of one call into user code: a value, never an exception, also when the code threw or was killed. */
export interface CallOutcome {
  status: CallStatus;
  /** JSON text of the returned value; absent for `undefined` and for every status but `finished`. */
  result?: string;
  /** Set for every status but `finished`. */
  error?: UserCodeError;
  /** Events in the order of the `$emit` calls. They are kept when the code throws afterwards. */
  emits: EmittedEvent[];
  /** Keys set with `db.set` with their JSON text, the last write per key. JSON `null` is a stored null. */
  dbSets: Record<string, string>;
  logs: LogLine[];
  /** Console lines beyond the limit, counted but not kept. */
  logsDropped: number;
  /** The first `http.respond` of the call. `onRespond` has got it already, when it was called. */
  response?: HttpReply;
  /** Effects of a step. Present for calls of kind `step` that reached their code, however they ended. */
  step?: StepEffects;
  /**
   * True: the process ended while other calls were in flight in it, so this call may not be to blame. Running it alone shows that. Set with
   * `exited`, with `out_of_memory`, with `limit_exceeded` of a limit that all of them share, and with `timed_out` when one of them kept the
   * process busy.
   */
  shared?: true;
  /** Wall-clock milliseconds in user code. */
  durationMs: number;
}

/** The effects of a step apart from its returned value. They are kept when the step then throws. */
export interface StepEffects {
  /** JSON text of an object: exports by name, with `$return_value` when it is not undefined. `{}` when there are none. */
  exports: string;
  /** JSON text of an object: the props as the step got them, with expressions evaluated, without accounts and apps. */
  input?: string;
  /** Calls of `$.send.*` in their order. */
  sends: StepSend[];
  /** The last call of `$.flow.exit`, `delay`, `suspend` or `rerun`. */
  flow?: StepFlow;
  /** Set when the step used `/tmp`, which is released when the run has ended. */
  usedScratch?: true;
}

export interface StepSend {
  kind: SendKind;
  /** JSON text of the argument; for `emit`, of `{ event, channel }`. */
  payload: string;
}

export type StepFlow =
  | { kind: 'exit'; reason: string | null }
  | { kind: 'delay'; ms: number }
  | { kind: 'suspend'; ms: number }
  /** `context` is JSON text. */
  | { kind: 'rerun'; ms: number; context: string; maxRetries: number };

export type CallStatus =
  | 'finished'
  | 'threw'
  /** The bundle did not load: it threw, exported nothing usable, or did not finish before its deadline. */
  | 'load_failed'
  | 'timed_out'
  | 'out_of_memory'
  /** The process ended or broke the protocol while the call ran. */
  | 'exited'
  /** A limit on events, bytes, logs or db writes was exceeded. */
  | 'limit_exceeded'
  | 'cancelled';

export interface UserCodeError {
  name: string;
  message: string;
  stack: string;
  code?: string;
}

export interface EmittedEvent {
  /** JSON text of the emitted value, taken when `$emit` was called. */
  event: string;
  /** The ID given in the metadata, as text; absent when none was given. */
  id?: string;
  /** True when the id was given as a number (`greatest` compares numbers numerically). */
  idIsNumber?: boolean;
  summary?: string;
  /** Epoch ms, absent when missing or not a date. */
  ts?: number;
  /** Channel; '' is the default channel. */
  name: string;
  /** Epoch ms at which the event is delivered. Until then it waits in `$in`. */
  deliveryTs?: number;
}

export interface LogLine {
  /** Epoch ms. */
  ts: number;
  level: LogLevel;
  message: string;
}

/** An HTTP reply that user code gave, checked and normalized (status 200-599, header values without CR or LF). */
export interface HttpReply {
  status: number;
  headers: Record<string, string | string[]>;
  body: Buffer;
  /** Set for a step that replies immediately, not when the workflow has ended. */
  immediate?: true;
}

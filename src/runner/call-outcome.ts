import type { SendKind } from '#storage/tables/workflow-tables.ts';
import type { LogLevel } from './protocol.ts';
/** What one call into user code produced: a value, never an exception (also when the code threw or was killed). */
export interface CallOutcome {
  status: CallStatus;
  /** JSON text of the returned value; absent for `undefined` and for every status but `finished`. */
  result?: string;
  /** Set for every status but `finished`. */
  error?: UserCodeError;
  /** In the order of the `$emit` calls. Kept also when the code threw afterwards. */
  emits: EmittedEvent[];
  /** Keys set with `db.set` and their JSON text, last write per key. `null` JSON is a stored null. */
  dbSets: Record<string, string>;
  logs: LogLine[];
  /** Console lines beyond the cap, counted but not kept. */
  logsDropped: number;
  /** The first `http.respond` of the call, also handed to `onRespond` the moment it was called. */
  response?: HttpReply;
  /** What a step left behind; present for calls of kind `step` that reached their code, however they ended. */
  step?: StepEffects;
  /**
   * The process ended while other calls were in flight in it too: this one may not be to blame. Run alone, it shows
   * whether it is. With `exited`, `out_of_memory`, `limit_exceeded` of a limit that all of them share, and `timed_out`
   * when one of them kept the process busy.
   */
  shared?: true;
  /** Wall-clock milliseconds in user code. */
  durationMs: number;
}

/** What a step did besides returning: kept also when it then threw. */
export interface StepEffects {
  /** JSON text of an object: exports by name, `$return_value` when it is not undefined. `{}` when there are none. */
  exports: string;
  /** JSON text of an object: the props as the step got them, expressions evaluated, accounts and apps left out. */
  input?: string;
  /** `$.send.*`, in the order of the calls. */
  sends: StepSend[];
  /** The last of `$.flow.exit`, `delay`, `suspend`, `rerun`. */
  flow?: StepFlow;
  /** It used `/tmp`, which is to be released when the run has ended. */
  usedScratch?: true;
}

export interface StepSend {
  kind: SendKind;
  /** JSON text: the argument; for `emit` `{ event, channel }`. */
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
  /** The process ended, or broke the protocol, while the call ran. */
  | 'exited'
  /** A cap on events, bytes, logs or db writes was passed. */
  | 'limit_exceeded'
  | 'cancelled';

export interface UserCodeError {
  name: string;
  message: string;
  stack: string;
  code?: string;
}

export interface EmittedEvent {
  /** JSON text of the emitted value, snapshot at the call of `$emit`. */
  event: string;
  /** The id given in the metadata, as text; absent when none was given. */
  id?: string;
  /** True when the id was given as a number (`greatest` compares numbers numerically). */
  idIsNumber?: boolean;
  summary?: string;
  /** Epoch ms, absent when missing or not a date. */
  ts?: number;
  /** Channel; '' is the default channel. */
  name: string;
  /** Epoch ms: wait in `$in` and be delivered then. */
  deliveryTs?: number;
}

export interface LogLine {
  /** Epoch ms. */
  ts: number;
  level: LogLevel;
  message: string;
}

/** An HTTP reply as user code asked for it, checked and normalised (status 200-599, header values without CR or LF). */
export interface HttpReply {
  status: number;
  headers: Record<string, string | string[]>;
  body: Buffer;
  /** Of a step: sent now, not when the workflow has ended. */
  immediate?: true;
}

import type { BundleFormat } from '#storage/tables/component-tables.ts';
import type { SendKind } from '#storage/tables/workflow-tables.ts';
/**
 * The protocol between the service and a sandboxed process, on descriptor 3. Both ends use this file.
 *
 *   u32 length of the rest, u8 type, u32 call id, u32 header length, header (JSON), payload (raw bytes)
 *
 * Headers are small and of fixed shape. Everything that a component made (events, values, texts) travels in the payload as bytes whose
 * lengths stand in the header, so the service never parses what user code wrote. Node's own IPC is not used, because one malformed line
 * on it throws inside the parent.
 */
export const frameType = {
  /** service → process: limits, extra certificates, and the folder or memory behind `/tmp`. */
  init: 1,
  /** service → process: one bundle, sent once with its name. */
  load: 2,
  /** service → process: run, a hook, a step, additionalProps, eventNames, options, describe, or the probe of the self-test. */
  call: 3,
  ping: 4,
  /** service → process: the answer to a `hostCall`. */
  answer: 5,
  /** service → process: the folder that was `/tmp` of a run is no longer needed. */
  release: 6,
  /** service → process: bundles that are no longer needed. */
  unload: 7,
  /** process → service */
  ready: 16,
  /** The process has read a call and is about to run it. Sent when the call asks for this confirmation. */
  started: 18,
  /** Events, db writes and log lines of a call that is still running. */
  effects: 19,
  respond: 20,
  /** A call or a load has ended, with its last effects and its result or error. */
  done: 21,
  /** An error that no call caught. Call ID 0: it belongs to no running call. */
  uncaught: 22,
  pong: 23,
  /** Code of a call calls the host. */
  hostCall: 24,
  /** A step asks for a new deadline. */
  refresh: 25,
  /** The code of this call ends the process. Call ID 0: the call has ended, and the header names its deployment. */
  exiting: 26,
  /** Code that was unloaded left something behind that still runs, so the process has to be replaced. */
  leftover: 27,
} as const;

export type FrameType = (typeof frameType)[keyof typeof frameType];

export const toSandboxTypes: ReadonlySet<number> = new Set([1, 2, 3, 4, 5, 6, 7]);
export const fromSandboxTypes: ReadonlySet<number> = new Set([16, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27]);

/** Maximum length of a header. Its parts (event IDs, summaries, db keys) are limited so that no valid header is longer. */
export const headerBytesMax = 512 * 1024;
/** Maximum length of a frame to the process: a bundle. */
export const toSandboxFrameBytesMax = 128 * 1024 * 1024;
/** Maximum length of a frame from the process: all events of a call and its result. */
export const fromSandboxFrameBytesMax = 16 * 1024 * 1024;

/** Maximum host calls of one call, and of all calls of a process, without an answer yet. Further ones wait in the process. */
export const hostCallsPerCallMax = 16;
export const hostCallsPerProcessMax = 64;
/** Maximum size of a host call's or an answer's header as JSON, and of the body of either. */
export const hostCallHeaderBytesMax = 64 * 1024;
export const hostCallBodyBytesMax = 1024 * 1024;
/** Maximum run time of a step that asks for new deadlines, as a multiple of its deadline. */
export const refreshedDeadlinesMax = 10;
/** Maximum characters of the reason of an exit, and of the JSON of a rerun's context. */
export const exitReasonCharactersMax = 4096;
export const rerunContextBytesMax = 512 * 1024;
export const rerunsMax = 1000;
/** Maximum wait of `$.flow.delay`, `suspend` and `rerun`. */
export const waitMsMax = 365 * 24 * 3_600_000;
/** Maximum calls of `$.send.*` in one call, and maximum size of their JSON together. */
export const sendsMax = 100;
export const sendBytesMax = 512 * 1024;
/** Maximum size of the JSON of all reported props of a step. */
export const inputBytesMax = 1024 * 1024;

/** Lengths are bytes in the payload, in the order of this type. -1 means absent. */
export interface CallHeader {
  kind: 'run' | 'hook' | 'step' | 'additionalProps' | 'eventNames' | 'options' | 'describe';
  hook?: string;
  /** Name of the bundle to call. */
  module: string;
  /** Set when the process has to answer with `started` before it runs the call. */
  ack?: 1;
  event: number;
  step?: StepHeader;
  /** Length of `[prop values, dynamic definitions]` when these have changed since the last call. -1: the last ones apply. */
  props: number;
  /** Length of the JSON of the db's `[key, length of its value][]`, followed by the values; -1 for an empty db. */
  db: number;
}

/** Present for a call of kind `step`. Its two texts come first in the payload. */
export interface StepHeader {
  steps: number;
  context: number;
  resumeUrl: string;
  cancelUrl: string;
  scratch: string;
  deadlineMs: number;
  /** Set when the step belongs to no workflow. */
  byItself?: true;
}

export interface ProbeRequest {
  /** A file of the machine that every user there may read. */
  hostFile: string;
  /** Present when the process also tries the attacks. */
  attacks?: AttackTargets;
  /** Set when the process has no permission model: it tries only the attacks, before any function is refused inside. */
  bare?: true;
}

/** Targets of the self-test's attacks. */
export interface AttackTargets {
  servicePid: number;
  /** When the service started, as /proc has it; empty where there is none. A process inside may have the same number. */
  serviceStart: string;
  /** A file of the machine that every user there may read, and its text. */
  canary: string;
  secret: string;
  /** Path of the program inside the sandbox. */
  program: string;
  /** A port of 127.0.0.1 with a listening server. */
  port: number;
  /** Duration of the race by renaming. Absent: 50 ms. */
  renameMs?: number;
}

export interface InitHeader {
  /** The folder that is `/tmp`. Absent where files are in memory. */
  scratch?: string;
  /** Limits of the files in memory. Absent where there is a folder. */
  memoryFiles?: { bytesMax: number; filesMax: number };
  /** Folders of packages that it may read. */
  packages?: readonly string[];
  /** Present when the process has to try what is forbidden, and to report it with `ready`. */
  probe?: ProbeRequest;
  /** Set for a process that is started ahead of need: it loads the HTTP clients when no code has come for this many ms. */
  prewarmAfterMs?: number;
  limits: {
    logBytesMax: number;
    logLinesMax: number;
    emitsMax: number;
    emitBytesMax: number;
    dbBytesMax: number;
    dbKeysMax: number;
    resultBytesMax: number;
    shapeBytesMax: number;
    replyBytesMax: number;
    stepExportBytesMax: number;
  };
}

export interface LoadHeader {
  deploymentId: string;
  /** Names the environment and the `/tmp` that the bundles of one deployment share. */
  place: string;
  /** Name of the bundle in the process, and in its stack traces. */
  module: string;
  /** Set for a bundle of a workflow, whose environment holds the IDs of the run. */
  isStep?: true;
  format: BundleFormat;
  /** Folder from which imports of packages start. */
  packages?: string;
  /** The same, for a folder in memory with this number. The first time, its list of files is at the end of the payload with this length. */
  packageFiles?: { id: number; listBytes: number };
  /** Length of the JSON of environment variables at the end of the payload. They are the same in all loads of a place. */
  variablesBytes?: number;
}

/**
 * On descriptor 5 a process requests files of packages, one at a time: u32 number of the folder, u32 position of the file in its list. It
 * waits for the answer: u32 length and the bytes, or `noPackageFile` alone.
 */
export const packageFileRequestBytes = 8;
export const noPackageFile = 0xffffffff;
/** Maximum length of a package file that a process gets this way. */
export const packageFileBytesMax = 64 * 1024 * 1024;
/** JSON of the files below the folder: path and size of each. */
export type PackageFileList = readonly (readonly [path: string, bytes: number])[];

/** The first texts of the payload are those of the header and the body of a host call. */
export interface HostCallHeader {
  /** Number of the host call in its process, from 1 on. */
  n: number;
  kind: string;
  header: number;
  body: number;
}

/** The payload is the body of the answer. */
export interface AnswerHeader {
  n: number;
  /** Header of the answer; absent when the host call was refused. */
  header?: Record<string, unknown>;
  error?: { message: string; code?: string };
}

export interface ReleaseHeader {
  scratch: string;
}

export interface ExitingHeader {
  deploymentId?: string;
}

export interface UnloadHeader {
  modules: readonly string[];
}

/** The lengths of the error's texts follow, as in `DoneHeader`. */
export interface UncaughtHeader {
  error?: ErrorLengths;
  /** Deployment of the code, as far as it is known. */
  deploymentId?: string;
}

/** `[event length, id, id was a number, summary, ts, name, delivery ts]` */
export type EmitEntry = [number, string | null, 0 | 1, string | null, number | null, string, number | null];
/** `[epoch ms, index in logLevels, message length]` */
export type LogEntry = [number, number, number];

export interface EffectsHeader {
  emits: EmitEntry[];
  db: [key: string, length: number][];
  logs: LogEntry[];
  dropped: number;
  /** What a step sends. It follows the log lines in the payload. */
  sends?: SendEntry[];
}

/** `[index in sendKinds, JSON length]` */
export type SendEntry = [number, number];

/** The order here is part of the protocol, and of the program beside user code, so it is not imported from the table. */
export const sendKinds = ['http', 'email', 's3', 'sse', 'emit'] as const satisfies readonly SendKind[];

/** `[name, message, stack, code]` lengths; code -1 when absent. */
export type ErrorLengths = [number, number, number, number];

export interface DoneHeader extends EffectsHeader {
  status: 'finished' | 'threw' | 'load_failed' | 'limit_exceeded';
  result: number;
  /** Its texts come after the result and before those of the error. */
  step?: StepDone;
  error?: ErrorLengths;
}

export interface StepDone {
  exports: number;
  /** -1 when it is unknown. */
  input: number;
  flow?: FlowEntry;
  /** Set when the step used `/tmp`. */
  scratch?: 1;
}

/** The context of a rerun is the length of its JSON in the payload. */
export type FlowEntry =
  | { kind: 'exit'; reason: string | null }
  | { kind: 'delay' | 'suspend'; ms: number }
  | { kind: 'rerun'; ms: number; context: number; maxRetries: number };

export interface RespondHeader {
  status: number;
  headers: Record<string, string | string[]>;
  immediate?: 1;
}

export const logLevels = ['debug', 'info', 'log', 'warn', 'error'] as const;
export type LogLevel = (typeof logLevels)[number];

export class ProtocolError extends Error {
  override name = 'ProtocolError';
}

const prefixBytes = 13;

/** Encodes one frame. `payloadBytes` is the total length of `payload`, which the caller knows. */
export function encodeFrame(
  type: FrameType,
  callId: number,
  header: string,
  payload: readonly (string | Uint8Array)[] = [],
  payloadBytes = 0,
): Buffer {
  const frame = frameStart({ type, callId, header, payloadBytes }, payloadBytes);
  let at = frame.length - payloadBytes;
  for (const part of payload) {
    if (typeof part === 'string') at += frame.write(part, at);
    else {
      frame.set(part, at);
      at += part.length;
    }
  }
  return frame;
}

interface FrameHead {
  type: FrameType;
  callId: number;
  header: string;
  payloadBytes: number;
}

/** A frame without its payload, with so many bytes of room after it. */
export function frameStart({ type, callId, header, payloadBytes }: FrameHead, room = 0): Buffer {
  const headerBytes = Buffer.byteLength(header);
  const start = Buffer.allocUnsafe(prefixBytes + headerBytes + room);
  start.writeUInt32BE(prefixBytes + headerBytes + payloadBytes - 4, 0);
  start[4] = type;
  start.writeUInt32BE(callId, 5);
  start.writeUInt32BE(headerBytes, 9);
  start.write(header, prefixBytes);
  return start;
}

export type OnFrame = (type: number, callId: number, header: unknown, payload: Buffer) => void;

/** Cuts a byte stream into frames. Throws `ProtocolError` for anything else; no further bytes of that stream are valid. */
export class FrameParser {
  readonly #types: ReadonlySet<number>;
  readonly #bytesMax: number;
  readonly #onFrame: OnFrame;
  /** Bytes of a length field that is split between two chunks. */
  readonly #length = Buffer.alloc(4);
  #lengthFilled = 0;
  /** A frame (without its length field) that has arrived only in part. */
  #body: Buffer | undefined;
  #bodyFilled = 0;

  constructor(types: ReadonlySet<number>, bytesMax: number, onFrame: OnFrame) {
    this.#types = types;
    this.#bytesMax = bytesMax;
    this.#onFrame = onFrame;
  }

  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#body !== undefined) {
        const taken = chunk.copy(this.#body, this.#bodyFilled, at);
        at += taken;
        this.#bodyFilled += taken;
        if (this.#bodyFilled < this.#body.length) return;
        const body = this.#body;
        this.#body = undefined;
        this.#take(body);
        continue;
      }
      let length: number;
      if (this.#lengthFilled === 0 && chunk.length - at >= 4) {
        length = chunk.readUInt32BE(at);
        at += 4;
      } else {
        const taken = chunk.copy(this.#length, this.#lengthFilled, at);
        at += taken;
        this.#lengthFilled += taken;
        if (this.#lengthFilled < 4) return;
        this.#lengthFilled = 0;
        length = this.#length.readUInt32BE(0);
      }
      if (length < prefixBytes - 4 || length > this.#bytesMax) {
        throw new ProtocolError(`frame of ${length} bytes, at most ${this.#bytesMax} are allowed`);
      }
      if (chunk.length - at >= length) {
        this.#take(chunk.subarray(at, at + length));
        at += length;
      } else {
        this.#body = Buffer.allocUnsafe(length);
        this.#bodyFilled = 0;
      }
    }
  }

  #take(body: Buffer): void {
    const type = body[0] ?? 0;
    if (!this.#types.has(type)) throw new ProtocolError(`frame of unknown type ${type}`);
    const callId = body.readUInt32BE(1);
    const headerBytes = body.readUInt32BE(5);
    const start = prefixBytes - 4;
    if (headerBytes > headerBytesMax || start + headerBytes > body.length) {
      throw new ProtocolError(`header of ${headerBytes} bytes in a frame of ${body.length}`);
    }
    let header: unknown;
    if (headerBytes > 0) {
      try {
        header = JSON.parse(body.toString('utf8', start, start + headerBytes));
      } catch {
        throw new ProtocolError('header is not JSON');
      }
    }
    this.#onFrame(type, callId, header, body.subarray(start + headerBytes));
  }
}

/** Reads the parts of a payload in order. Throws `ProtocolError` when lengths and payload disagree. */
export class PayloadReader {
  readonly #payload: Buffer;
  #at = 0;

  constructor(payload: Buffer) {
    this.#payload = payload;
  }

  bytes(length: unknown): Buffer {
    if (typeof length !== 'number' || !Number.isInteger(length) || length < 0) {
      throw new ProtocolError('a length is not a positive integer');
    }
    const end = this.#at + length;
    if (end > this.#payload.length) throw new ProtocolError('a length points past the end of the frame');
    const part = this.#payload.subarray(this.#at, end);
    this.#at = end;
    return part;
  }

  text(length: unknown): string {
    return this.bytes(length).toString('utf8');
  }

  /** Text, or undefined for length -1. */
  optionalText(length: unknown): string | undefined {
    return length === -1 ? undefined : this.text(length);
  }

  end(): void {
    if (this.#at !== this.#payload.length)
      throw new ProtocolError('bytes are left over at the end of a frame');
  }
}

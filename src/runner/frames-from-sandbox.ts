import type { Logger } from '#lib/logger.ts';
import type { HttpReply, UserCodeError } from './call-outcome.ts';
import { readError } from './call-record.ts';
import type { CallsInFlight } from './calls-in-flight.ts';
import type { EndCause } from './end-cause.ts';
import { CapPassedError } from './frame-fields.ts';
import type { LoadedModules } from './loaded-modules.ts';
import type { PendingCall } from './pending-call.ts';
import type { CallAnswer, EndReason } from './process-end.ts';
import type { ProcessHostCalls } from './process-host-calls.ts';
import type { ProcessWatchdog } from './process-watchdog.ts';
import {
  type ExitingHeader,
  FrameParser,
  frameType,
  fromSandboxFrameBytesMax,
  fromSandboxTypes,
  PayloadReader,
  ProtocolError,
  type UncaughtHeader,
} from './protocol.ts';
import type { CallOptions } from './runner.ts';
import type { SignOfLife } from './sign-of-life.ts';
import { StrayFrames } from './stray-frames.ts';

/** Much more than an error has after the program has cut it. */
const uncaughtBytesMax = 512 * 1024;
/** What an event costs beside its bytes, as bytes: it is checked, stored and sent by itself. */
const eventBytes = 4 * 1024;
/** And a key of the db of a component: the whole db is read, merged and written for it. */
const dbKeyBytes = 1024;

/** What the effects in a frame cost beside the bytes of its payload, as bytes. */
function costOf(header: unknown): number {
  const { emits, db } = (header ?? {}) as { emits?: unknown; db?: unknown };
  const count = (list: unknown) => (Array.isArray(list) ? list.length : 0);
  return eventBytes * count(emits) + dbKeyBytes * count(db);
}

/** What frames lead to in the process that sent them. */
export interface FramesProcess {
  pid(): number | undefined;
  isGone(): boolean;
  /** Bytes that were sent to the process, and that it has not read. */
  backlogBytes(): number;
  onReady(header: unknown): void;
  onFault(): void;
  onLeftover(): void;
  onStrayExit(deploymentId: string): void;
  onUnattributedError(error: UserCodeError, deploymentId: string): void;
  answer(id: number, pending: PendingCall, answer: CallAnswer): void;
  retire(): void;
  kill(reason: EndReason, detail?: string, culprit?: PendingCall): void;
}

/**
 * The frames that a sandboxed process sends, read as what may be forged: user code shares the process with the program that writes them.
 */
export class FramesFromSandbox {
  readonly #process: FramesProcess;
  readonly #calls: CallsInFlight;
  readonly #cause: EndCause;
  readonly #modules: LoadedModules;
  readonly #watchdog: ProcessWatchdog;
  readonly #sign: SignOfLife;
  readonly #hostCalls: ProcessHostCalls;
  readonly #backlogBytesMax: number;
  readonly #logger: Logger;
  readonly #strays: StrayFrames;
  readonly #parser: FrameParser;

  constructor(options: {
    process: FramesProcess;
    calls: CallsInFlight;
    cause: EndCause;
    modules: LoadedModules;
    watchdog: ProcessWatchdog;
    sign: SignOfLife;
    hostCalls: ProcessHostCalls;
    backlogBytesMax: number;
    logger: Logger;
  }) {
    this.#process = options.process;
    this.#calls = options.calls;
    this.#cause = options.cause;
    this.#modules = options.modules;
    this.#watchdog = options.watchdog;
    this.#sign = options.sign;
    this.#hostCalls = options.hostCalls;
    this.#backlogBytesMax = options.backlogBytesMax;
    this.#logger = options.logger;
    this.#strays = new StrayFrames((id) => this.#calls.wasMade(id));
    this.#parser = new FrameParser(fromSandboxTypes, fromSandboxFrameBytesMax, (type, id, header, payload) =>
      this.#onFrame(type, id, header, payload),
    );
  }

  /** Takes bytes as they come. A frame that breaks the protocol, or a cap, ends the process. */
  push(chunk: Buffer): void {
    if (this.#process.isGone() || this.#cause.reason === 'protocol') return;
    try {
      this.#parser.push(chunk);
    } catch (error) {
      if (error instanceof CapPassedError) this.#process.kill('limit_exceeded', error.message, this.#frameOf);
      else if (error instanceof ProtocolError) this.#process.kill('protocol', error.message);
      else throw error;
    }
  }

  /** The call whose frame is being read. */
  #frameOf: PendingCall | undefined;

  #onFrame(type: number, id: number, header: unknown, payload: Buffer): void {
    this.#sign.heard();
    this.#frameOf = undefined;
    if (type === frameType.ready) {
      this.#process.onReady(header);
      return;
    }
    if (type === frameType.pong) {
      this.#watchdog.ponged();
      return;
    }
    const pending = this.#calls.get(id);
    this.#frameOf = pending;
    if (type === frameType.leftover) {
      this.#process.onLeftover();
      return;
    }
    if (type === frameType.exiting && id === 0) {
      const { deploymentId } = (header ?? {}) as ExitingHeader;
      const culprit = this.#modules.deploymentNamed(deploymentId);
      this.#cause.isStrayExit = culprit !== undefined;
      if (culprit !== undefined) this.#process.onStrayExit(culprit);
      return;
    }
    if (type === frameType.uncaught) {
      this.#onUncaught(id, pending, header, payload);
      return;
    }
    if (pending === undefined) {
      if (id === 0) throw new ProtocolError('a frame belongs to no call');
      this.#strays.count(id);
      if (type === frameType.hostCall) this.#takeHostCall(id, header, payload, undefined);
      return;
    }
    pending.unstartedTicks = undefined;
    pending.onMoved?.(payload.length + costOf(header));
    this.#onFrameOf(type, id, pending, header, payload);
  }

  /** A frame of a call that is in flight. */
  #onFrameOf(type: number, id: number, pending: PendingCall, header: unknown, payload: Buffer): void {
    switch (type) {
      case frameType.effects: {
        const reader = new PayloadReader(payload);
        pending.record.addEffects(header, reader);
        reader.end();
        return;
      }
      case frameType.respond: {
        const reply = pending.record.addReply(header, payload);
        if (reply !== undefined) this.#tellReply(pending, reply);
        return;
      }
      case frameType.done:
        // The deadline or a limit decided first, and the kill follows.
        if (pending.decided !== undefined || this.#cause.isPassedLimit) return;
        this.#process.answer(
          id,
          pending,
          pending.record.done(header, new PayloadReader(payload), this.#calls.elapsedMs(pending)),
        );
        return;
      case frameType.hostCall:
        this.#takeHostCall(id, header, payload, pending.onHostCall);
        return;
      case frameType.refresh:
        this.#calls.refreshDeadline(id, pending);
        return;
      case frameType.exiting:
        this.#cause.culprit ??= pending;
    }
  }

  #takeHostCall(id: number, header: unknown, payload: Buffer, onHostCall: CallOptions['onHostCall']): void {
    // The process is ending, and would not read the answer.
    if (this.#cause.reason !== undefined) return;
    if (this.#process.backlogBytes() > this.#backlogBytesMax)
      throw new CapPassedError('the process makes requests to the service without reading the answers');
    this.#hostCalls.take(id, header, payload, onHostCall);
  }

  #tellReply(pending: PendingCall, reply: HttpReply): void {
    try {
      pending.onRespond?.(reply);
    } catch (error) {
      this.#logger.error({ err: error }, 'runner.reply-receiver-failed');
    }
  }

  #onUncaught(id: number, pending: PendingCall | undefined, header: unknown, payload: Buffer): void {
    if (payload.length > uncaughtBytesMax) throw new ProtocolError('an error is larger than one can be');
    if (pending === undefined) this.#strays.count(id);
    if (id !== 0) this.#strays.countUncaught(id);
    if (pending !== undefined || (id === 0 && this.#strays.mayReportUnattributed())) {
      const reader = new PayloadReader(payload);
      const { error: lengths, deploymentId } = (header ?? {}) as UncaughtHeader;
      const error = readError(lengths, reader);
      reader.end();
      // The error itself is not logged: its texts are the component's, and may hold secrets that only its source knows.
      this.#logger.info({ pid: this.#process.pid(), callId: id }, 'runner.uncaught-reported');
      // The harness has ended the call itself. For a forged frame, the call ends here.
      if (pending !== undefined)
        this.#process.answer(id, pending, pending.record.end('threw', error, this.#calls.elapsedMs(pending)));
      else this.#tellUnattributed(error, deploymentId);
    }
    this.#process.retire();
    this.#process.onFault();
  }

  /** Reports an error to the deployment of its code. The process can only name a deployment that has code in it. */
  #tellUnattributed(error: UserCodeError, named: unknown): void {
    const deploymentId = this.#modules.deploymentNamed(named);
    if (deploymentId === undefined) return;
    try {
      this.#process.onUnattributedError(error, deploymentId);
    } catch (cause) {
      this.#logger.error({ err: cause }, 'runner.error-receiver-failed');
    }
  }
}

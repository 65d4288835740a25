import { bytesText } from '#lib/units.ts';
import {
  type DoneHeader,
  type EffectsHeader,
  type EmitEntry,
  encodeFrame,
  frameType,
  type InitHeader,
  type LogEntry,
  logLevels,
  type RespondHeader,
} from '#runner/protocol.ts';
import type { Channel } from './channel.ts';
import type { DeploymentPlace } from './deployment-place.ts';
import { readEmitMetadata } from './emit-metadata.ts';
import { type ErrorReport, reportError } from './error-report.ts';
import { type CheckedReply, checkReply, ReplyTooLargeError } from './http-reply.ts';
import { TooLargeError, toJsonText } from './json-text.ts';
import { byteLength, jsonStringify, now, setTimer } from './primordials.ts';
import { StepWork } from './step-work.ts';

type Limits = InitHeader['limits'];

/** Maximum size of effects before they are sent in a frame of their own. A frame must stay far below its maximum size. */
const payloadBytesBeforeFlush = 256 * 1024;
const headerBytesBeforeFlush = 32 * 1024;
/** Maximum time until effects of a running call are sent to the service, so that a kill loses little. */
const flushIntervalMs = 25;
const dbKeyCharactersMax = 2048;

/** A limit was exceeded. The call ends as `limit_exceeded` even when the component catches this error. */
class LimitError extends Error {
  override name = 'LimitError';
  readonly code = 'ERR_LIMIT_EXCEEDED';
}

/** Effects of one call into user code: events, db writes, log lines, the HTTP reply. */
export class CallEffects {
  readonly id: number;
  readonly place: DeploymentPlace;
  /** Further effects of a step. */
  step: StepWork | undefined;
  readonly #channel: Channel;
  readonly #limits: Limits;
  #ended = false;
  #limitError: LimitError | undefined;

  #payload: (string | Uint8Array)[] = [];
  #payloadBytes = 0;
  #headerBytes = 0;
  #emits: EmitEntry[] = [];
  /** Texts of `#emits` and, likewise, of `#logs`, in order. */
  #logTexts: string[] = [];
  #logs: LogEntry[] = [];
  #dbWrites = new Map<string, string>();
  #flushScheduled = false;

  #emitCount = 0;
  #emitBytes = 0;
  #logBytes = 0;
  #logCount = 0;
  #dropped = 0;
  #dbBytes = 0;
  #dbKeys = 0;
  #responded = false;
  /** The reason why the last reply was refused. */
  #refusedReply: ReplyTooLargeError | undefined;

  constructor(id: number, own: { channel: Channel; limits: Limits; place: DeploymentPlace }) {
    this.id = id;
    this.place = own.place;
    this.#channel = own.channel;
    this.#limits = own.limits;
  }

  /** Called before a step begins. `context` is `$.context`. */
  startStep(scratch: string, context: Record<string, unknown>): StepWork {
    this.step = new StepWork({
      scratch,
      context,
      exportBytesMax: this.#limits.stepExportBytesMax,
      passed: (message) => this.#passed(message),
      note: (line) => this.logLine('info', line),
    });
    return this.step;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Adds a snapshot of `event`. Throws `LimitError`, or the error of the conversion for an event that has no JSON. */
  emit(event: unknown, given: unknown): void {
    if (this.#ended) return;
    if (this.#emitCount >= this.#limits.emitsMax) {
      throw this.#passed(`more than ${this.#limits.emitsMax} events were emitted`);
    }
    const text = this.#limited(() => toJsonText(event, this.#limits.emitBytesMax, 'the event') ?? 'null');
    const bytes = byteLength(text);
    if (this.#emitBytes + bytes > this.#limits.emitBytesMax) {
      throw this.#passed(
        `the events of one call are larger than ${bytesText(this.#limits.emitBytesMax)} together`,
      );
    }
    this.#emitCount += 1;
    this.#emitBytes += bytes;
    const meta = readEmitMetadata(given);
    this.#emits.push([
      bytes,
      meta.id,
      meta.idIsNumber ? 1 : 0,
      meta.summary,
      meta.ts,
      meta.name,
      meta.deliveryTs,
    ]);
    this.#payload.push(text);
    this.#added(bytes, 80 + 6 * ((meta.id?.length ?? 0) + (meta.summary?.length ?? 0) + meta.name.length));
  }

  /** The size of the db at the start. */
  startDb({ bytes, keys }: { bytes: number; keys: number }): void {
    this.#dbBytes = bytes;
    this.#dbKeys = keys;
  }

  /** `before` is the length of the replaced value, 0 when there is none. Returns the stored JSON text. */
  setDb(key: string, value: unknown, before: number): string {
    if (key.length > dbKeyCharactersMax) {
      throw this.#passed(`a db key has ${key.length} characters, at most ${dbKeyCharactersMax} are allowed`);
    }
    const text = this.#limited(() => toJsonText(value, this.#limits.dbBytesMax, `db value ${key}`) ?? 'null');
    const bytes = byteLength(text);
    const added = before === 0 ? bytes + key.length : bytes - before;
    if (this.#dbBytes + added > this.#limits.dbBytesMax) {
      throw this.#passed(`the db is larger than ${bytesText(this.#limits.dbBytesMax)} of JSON`);
    }
    if (before === 0 && this.#dbKeys >= this.#limits.dbKeysMax) {
      throw this.#passed(`the db has ${this.#dbKeys} keys, at most ${this.#limits.dbKeysMax} are allowed`);
    }
    if (this.#ended) return text;
    this.#dbBytes += added;
    if (before === 0) this.#dbKeys += 1;
    this.#dbWrites.set(key, text);
    this.#added(bytes, 20 + 6 * key.length);
    return text;
  }

  /** `format` makes the text. It is not called for a line that would be dropped. */
  log(level: number, format: () => string): void {
    if (this.#ended) return;
    const left = this.#limits.logBytesMax - this.#logBytes;
    if (this.#logCount >= this.#limits.logLinesMax || left <= 0) {
      this.#dropped += 1;
      return;
    }
    let text: string;
    try {
      text = format();
    } catch (error) {
      text = `[this value cannot be printed: ${reportError(error).message}]`;
    }
    if (text.length > left) text = `${text.slice(0, left)}… [cut]`;
    const bytes = byteLength(text);
    this.#logCount += 1;
    this.#logBytes += bytes;
    this.#logs.push([now(), level, bytes]);
    this.#logTexts.push(text);
    this.#added(bytes, 30);
  }

  logLine(level: (typeof logLevels)[number], text: string): void {
    this.log(logLevels.indexOf(level), () => text);
  }

  /** Only the first reply counts, and it is sent immediately. Throws a TypeError when the argument is not a valid reply. */
  respond(given: unknown, how?: { immediate: boolean }): void {
    if (this.#ended || this.#responded) return;
    const what = how === undefined ? 'http.respond' : '$.respond';
    let reply: CheckedReply;
    try {
      reply = checkReply(given, this.#limits.replyBytesMax, what);
    } catch (error) {
      if (error instanceof ReplyTooLargeError) this.refuseReply(error);
      throw error;
    }
    this.#postReply(reply, how?.immediate === true);
  }

  /**
   * Notes a reply that is too large. If the code ignores the error, its caller would get no answer: when the call ends without another
   * reply, the caller gets this error.
   */
  refuseReply(error: ReplyTooLargeError): void {
    this.#refusedReply = error;
  }

  #postReply({ status, headers, body }: CheckedReply, isImmediate: boolean): void {
    this.#responded = true;
    const header: RespondHeader = { status, headers };
    if (isImmediate) header.immediate = 1;
    this.#channel.postNow(
      encodeFrame(frameType.respond, this.id, jsonStringify(header), [body], body.length),
    );
  }

  /** Answers with the error in the form of all API errors. It is also logged, unless the code has failed with it. */
  #answerRefusal(error: ErrorReport | undefined): void {
    if (this.#responded || this.#refusedReply === undefined) return;
    const { message, code, details } = this.#refusedReply;
    if (error?.message !== message) this.logLine('error', message);
    const headers = { 'content-type': 'application/json; charset=utf-8' };
    const body = Buffer.from(jsonStringify({ error: message, code, details }));
    this.#postReply({ status: 500, headers, body }, false);
  }

  get responded(): boolean {
    return this.#ended || this.#responded;
  }

  /** Counts an addition to what a step sends. */
  addedSend(bytes: number): void {
    this.#added(bytes, 20);
  }

  /** Requests a new deadline. */
  refreshDeadline(): void {
    if (!this.#ended) this.#channel.postNow(encodeFrame(frameType.refresh, this.id, ''));
  }

  /** Reports that the code of this call ends the process, now or after its end, so that no other call in it is to blame. */
  tellExit(): void {
    const { deploymentId } = this.place;
    if (!this.#ended) this.#channel.postNow(encodeFrame(frameType.exiting, this.id, ''));
    else this.#channel.postNow(encodeFrame(frameType.exiting, 0, jsonStringify({ deploymentId })));
  }

  finish(value: unknown, resultBytesMax: number, what = 'the returned value'): void {
    let text: string | undefined;
    try {
      text = this.#limited(() => toJsonText(value, resultBytesMax, what));
    } catch (error) {
      this.fail(error);
      return;
    }
    this.finishWithText(text);
  }

  /** `text` is JSON. */
  finishWithText(text: string | undefined): void {
    if (this.#limitError !== undefined) this.fail(this.#limitError);
    else this.#end('finished', text);
  }

  fail(thrown: unknown, status: 'threw' | 'load_failed' = 'threw'): void {
    if (this.#limitError !== undefined) this.#end('limit_exceeded', undefined, reportError(this.#limitError));
    else this.#end(status, undefined, reportError(thrown));
  }

  #passed(message: string): LimitError {
    this.#limitError ??= new LimitError(message);
    return this.#limitError;
  }

  #limited<T>(make: () => T): T {
    try {
      return make();
    } catch (error) {
      throw error instanceof TooLargeError ? this.#passed(error.message) : error;
    }
  }

  #added(payloadBytes: number, headerBytes: number): void {
    this.#payloadBytes += payloadBytes;
    this.#headerBytes += headerBytes;
    if (this.#payloadBytes > payloadBytesBeforeFlush || this.#headerBytes > headerBytesBeforeFlush)
      this.flush();
    else if (!this.#flushScheduled) {
      this.#flushScheduled = true;
      scheduleFlush(this);
    }
  }

  /** Sends the collected effects. */
  flush(): void {
    this.#flushScheduled = false;
    if (this.#ended) return;
    const nothing = this.#emits.length === 0 && this.#logs.length === 0 && this.#dbWrites.size === 0;
    if (nothing && this.step?.hasSends !== true) return;
    const { header, payload, bytes } = this.#take();
    this.#channel.postNow(encodeFrame(frameType.effects, this.id, jsonStringify(header), payload, bytes));
  }

  #take(): { header: EffectsHeader; payload: (string | Uint8Array)[]; bytes: number } {
    const payload = this.#payload;
    const header: EffectsHeader = { emits: this.#emits, db: [], logs: this.#logs, dropped: this.#dropped };
    let bytes = 0;
    for (const entry of this.#emits) bytes += entry[0];
    for (const [key, text] of this.#dbWrites) {
      const length = byteLength(text);
      header.db.push([key, length]);
      payload.push(text);
      bytes += length;
    }
    for (const text of this.#logTexts) payload.push(text);
    for (const entry of this.#logs) bytes += entry[2];
    if (this.step !== undefined) bytes += this.step.takeSends(header, payload);
    this.#payload = [];
    this.#emits = [];
    this.#logs = [];
    this.#logTexts = [];
    if (this.#dbWrites.size > 0) this.#dbWrites = new Map();
    this.#payloadBytes = 0;
    this.#headerBytes = 0;
    return { header, payload, bytes };
  }

  #end(status: DoneHeader['status'], result: string | undefined, error?: ErrorReport): void {
    if (this.#ended) return;
    this.#answerRefusal(error);
    this.#ended = true;
    if (this.#flushScheduled) waitingForFlush.delete(this);
    const { header, payload, bytes } = this.#take();
    let total = bytes;
    const done: DoneHeader = { ...header, status, result: -1 };
    if (result !== undefined) {
      done.result = byteLength(result);
      total += done.result;
      payload.push(result);
    }
    if (this.step !== undefined) total += this.step.addTo(done, payload);
    if (error !== undefined) total += addError(done, payload, error);
    this.#channel.post(encodeFrame(frameType.done, this.id, jsonStringify(done), payload, total));
  }
}

/** Puts the texts of an error into a payload, and their lengths into a header. Returns the added bytes. */
export function addError(
  header: { error?: DoneHeader['error'] },
  payload: (string | Uint8Array)[],
  error: ErrorReport,
): number {
  const lengths: [number, number, number, number] = [
    byteLength(error.name),
    byteLength(error.message),
    byteLength(error.stack),
    error.code === undefined ? -1 : byteLength(error.code),
  ];
  header.error = lengths;
  payload.push(error.name, error.message, error.stack);
  if (error.code !== undefined) payload.push(error.code);
  return lengths[0] + lengths[1] + lengths[2] + Math.max(0, lengths[3]);
}

const waitingForFlush = new Set<CallEffects>();
let flushTimerRuns = false;

/** One timer serves all calls, because a timer for each would cost more than the rest of a short call. */
function scheduleFlush(call: CallEffects): void {
  waitingForFlush.add(call);
  if (flushTimerRuns) return;
  flushTimerRuns = true;
  setTimer(() => {
    flushTimerRuns = false;
    for (const waiting of waitingForFlush) waiting.flush();
    waitingForFlush.clear();
  }, flushIntervalMs).unref();
}

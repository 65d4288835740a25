import type { CallOutcome, CallStatus, EmittedEvent, HttpReply, UserCodeError } from './call-outcome.ts';
import {
  asArray,
  asObject,
  CapPassedError,
  isEpochMs,
  isShortText,
  jsonText,
  setOwn,
  shortText,
} from './frame-fields.ts';
import { logLevels, type PayloadReader, ProtocolError } from './protocol.ts';
import type { RunnerLimits } from './runner-limits.ts';
import { StepRecord } from './step-record.ts';

const endStatuses: ReadonlySet<unknown> = new Set(['finished', 'threw', 'load_failed', 'limit_exceeded']);
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const dbKeyCharactersMax = 4096;
/** Maximum characters of an error that are stored. The sandbox cuts at nearly these lengths, so only a forged error is cut here. */
const errorNameCharactersMax = 210;
const errorMessageCharactersMax = 66_000;
const errorStackCharactersMax = 17_000;

/**
 * Gathers the outcome of one call from its frames. Everything in a frame was written by user code, which may have bypassed the harness, so
 * every field is checked here. Throws `ProtocolError` or `CapPassedError`; both end the process.
 */
export class CallRecord {
  readonly #limits: RunnerLimits;
  readonly #emits: EmittedEvent[] = [];
  readonly #dbSets: Record<string, string> = {};
  readonly #logs: CallOutcome['logs'] = [];
  #emitBytes = 0;
  #dbBytes = 0;
  #dbWrites = 0;
  #logBytes = 0;
  #logsDropped = 0;
  #response: HttpReply | undefined;
  readonly #step: StepRecord | undefined;

  constructor(limits: RunnerLimits, isStep = false) {
    this.#limits = limits;
    this.#step = isStep ? new StepRecord(limits) : undefined;
  }

  /** Adds the events, db writes and log lines of an `effects` or `done` frame. */
  addEffects(header: unknown, payload: PayloadReader): void {
    const { emits, db, logs, dropped, sends } = asObject(header);
    for (const entry of asArray(emits)) this.#addEmit(asArray(entry), payload);
    for (const entry of asArray(db)) {
      const [key, length] = asArray(entry);
      if (typeof key !== 'string' || key.length > dbKeyCharactersMax)
        throw new ProtocolError('a db key is no short text');
      const text = jsonText(payload.text(length));
      this.#dbBytes += text.length + key.length;
      setOwn(this.#dbSets, key, text);
    }
    // Several frames may set the same key, and each counts again, so the limit here is larger. The harness counts exactly.
    this.#dbWrites += asArray(db).length;
    if (this.#dbBytes > 16 * this.#limits.dbBytesMax || this.#dbWrites > 16 * this.#limits.dbKeysMax)
      throw new CapPassedError('db writes are larger than allowed');
    for (const entry of asArray(logs)) this.#addLog(asArray(entry), payload);
    if (sends !== undefined) this.#stepOf(sends).addSends(asArray(sends), payload);
    if (typeof dropped === 'number' && Number.isSafeInteger(dropped) && dropped >= 0)
      this.#logsDropped = dropped;
  }

  #stepOf(what: unknown): StepRecord {
    if (this.#step === undefined) throw new ProtocolError(`a call that is no step has ${typeof what} of one`);
    return this.#step;
  }

  #addEmit(entry: unknown[], payload: PayloadReader): void {
    const [length, id, idIsNumber, summary, ts, name, deliveryTs] = entry;
    const text = payload.text(length);
    this.#emitBytes += length as number;
    if (this.#emits.length >= this.#limits.emitsMax || this.#emitBytes > this.#limits.emitBytesMax) {
      throw new CapPassedError('more events were emitted than allowed');
    }
    if (!isShortText(name)) throw new ProtocolError('the name of an event is no text');
    const event: EmittedEvent = { event: jsonText(text), name };
    if (isShortText(id)) {
      event.id = id;
      if (idIsNumber === 1) event.idIsNumber = true;
    }
    if (isShortText(summary)) event.summary = summary;
    if (isEpochMs(ts)) event.ts = ts;
    if (isEpochMs(deliveryTs)) event.deliveryTs = deliveryTs;
    this.#emits.push(event);
  }

  #addLog(entry: unknown[], payload: PayloadReader): void {
    const [ts, levelIndex, length] = entry;
    const message = payload.text(length);
    this.#logBytes += message.length;
    if (this.#logs.length >= this.#limits.logLinesMax || this.#logBytes > 2 * this.#limits.logBytesMax) {
      throw new CapPassedError('more was logged than allowed');
    }
    const level = logLevels[levelIndex as number];
    if (!isEpochMs(ts) || level === undefined) throw new ProtocolError('a log line is malformed');
    this.#logs.push({ ts, level, message });
  }

  /** Returns the reply when it is the first of the call, else undefined. */
  addReply(header: unknown, body: Buffer): HttpReply | undefined {
    const { status, headers, immediate } = asObject(header);
    if (typeof status !== 'number' || !Number.isInteger(status) || status < 200 || status > 599) {
      throw new ProtocolError('the status of a reply is no status');
    }
    const checked: Record<string, string | string[]> = {};
    for (const [name, value] of Object.entries(asObject(headers))) {
      const values = Array.isArray(value) ? value : [value];
      if (
        !headerName.test(name) ||
        !values.every((text) => typeof text === 'string' && !/[\r\n\0]/.test(text))
      ) {
        throw new ProtocolError('a header of a reply is malformed');
      }
      setOwn(checked, name, value as string | string[]);
    }
    if (body.length > this.#limits.replyBytesMax)
      throw new CapPassedError('the body of a reply is larger than allowed');
    if (this.#response !== undefined) return undefined;
    // A copy: the frame is a view into a larger buffer that would be kept alive.
    this.#response = { status, headers: checked, body: Buffer.from(body) };
    if (immediate === 1 && this.#step !== undefined) this.#response.immediate = true;
    return this.#response;
  }

  /** Returns the outcome that a `done` frame reports. */
  done(header: unknown, payload: PayloadReader, durationMs: number): CallOutcome {
    this.addEffects(header, payload);
    const { status, result, step, error } = asObject(header);
    if (!endStatuses.has(status)) throw new ProtocolError('a call ended with an unknown status');
    const text = payload.optionalText(result);
    if (
      text !== undefined &&
      text.length > Math.max(this.#limits.resultBytesMax, this.#limits.shapeBytesMax)
    ) {
      throw new CapPassedError('the result is larger than allowed');
    }
    if (step !== undefined) this.#stepOf(step).end(asObject(step), payload);
    const report = error === undefined ? undefined : readError(error, payload);
    payload.end();
    if (status !== 'finished') {
      return this.end(status as CallStatus, report ?? { name: 'Error', message: '', stack: '' }, durationMs);
    }
    const outcome = this.#outcome('finished', durationMs);
    if (text !== undefined) outcome.result = jsonText(text);
    return outcome;
  }

  /** Returns an outcome that the service decided, with the effects of the call so far. */
  end(status: CallStatus, error: UserCodeError, durationMs: number): CallOutcome {
    const outcome = this.#outcome(status, durationMs);
    outcome.error = error;
    return outcome;
  }

  #outcome(status: CallStatus, durationMs: number): CallOutcome {
    const outcome: CallOutcome = {
      status,
      emits: this.#emits,
      dbSets: this.#dbSets,
      logs: this.#logs,
      logsDropped: this.#logsDropped,
      durationMs,
    };
    if (this.#response !== undefined) outcome.response = this.#response;
    if (this.#step !== undefined) outcome.step = this.#step.effects;
    return outcome;
  }
}

/** Reads the error whose text lengths stand in a header, and cuts each text to the length that is stored. */
export function readError(lengths: unknown, payload: PayloadReader): UserCodeError {
  const [name, message, stack, code] = asArray(lengths);
  const error: UserCodeError = {
    name: shortText(payload.bytes(name), errorNameCharactersMax),
    message: shortText(payload.bytes(message), errorMessageCharactersMax),
    stack: shortText(payload.bytes(stack), errorStackCharactersMax),
  };
  if (code !== -1) error.code = shortText(payload.bytes(code), errorNameCharactersMax);
  return error;
}

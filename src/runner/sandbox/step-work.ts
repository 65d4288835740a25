import { bytesText } from '#lib/units.ts';
import {
  type DoneHeader,
  exitReasonCharactersMax,
  type FlowEntry,
  rerunContextBytesMax,
  type SendEntry,
  type StepDone,
  sendBytesMax,
  sendKinds,
  sendsMax,
} from '#runner/protocol.ts';
import { findCircle } from './find-circle.ts';
import { withPlainResponses } from './http-response-json.ts';
import { TooLargeError, toJsonText } from './json-text.ts';
import { byteLength, jsonStringify } from './primordials.ts';
import { shortened } from './shortened.ts';

export type SendKind = (typeof sendKinds)[number];

/** A flow call whose context is still text. */
type Flow =
  | Exclude<FlowEntry, { kind: 'rerun' }>
  | { kind: 'rerun'; ms: number; context: string; maxRetries: number };

const returnValue = '$return_value';

/** Effects of one call of a step apart from events and log lines. `passed` is called when one of its limits is exceeded. */
export class StepWork {
  /** Name of the folder that is `/tmp` for this call, and whether it was used. */
  readonly scratch: string;
  usedScratch = false;
  /** Values for `process.env`. */
  readonly workflowId: unknown;
  readonly traceId: unknown;
  /** JSON of the props that the step got. */
  input: string | undefined;
  flow: Flow | undefined;

  readonly #exportBytesMax: number;
  readonly #passed: (message: string) => Error;
  readonly #note: (line: string) => void;
  /** Entries of the JSON object with a comma each, by name. */
  readonly #exports = new Map<string, string>();
  #exportBytes = 0;
  #sends: SendEntry[] = [];
  #sendTexts: string[] = [];
  #sendCount = 0;
  #sendBytes = 0;

  constructor(options: {
    scratch: string;
    context: Record<string, unknown>;
    exportBytesMax: number;
    passed: (message: string) => Error;
    /** Adds a line to the logs of the step. */
    note: (line: string) => void;
  }) {
    this.scratch = options.scratch;
    this.workflowId = options.context.workflow_id;
    this.traceId = options.context.trace_id;
    this.#exportBytesMax = options.exportBytesMax;
    this.#passed = options.passed;
    this.#note = options.note;
  }

  /** Keeps a snapshot. Throws a TypeError for a key that is no text, and for a circular value. */
  export(key: unknown, value: unknown): void {
    if (typeof key !== 'string' || key === '')
      throw new TypeError(`$.export: the name of an export must be a text, found ${describe(key)}`);
    this.#keep(key, value, `the export ${jsonStringify(shortened(key, 60))}`);
  }

  return(value: unknown): void {
    if (value !== undefined) this.#keep(returnValue, value, 'the returned value ($return_value)');
  }

  #keep(key: string, value: unknown, what: string): void {
    const { text, kept } = this.#textOf(value, this.#exportBytesMax, what);
    const circle = mayBeCircular(text) ? findCircle(kept, shortened(key, 60)) : undefined;
    if (circle !== undefined)
      throw new TypeError(`${what} is circular: ${circle.from} refers back to ${circle.to}`);
    let bytes = this.#exportBytes - byteLength(this.#exports.get(key) ?? '');
    if (text === undefined) this.#exports.delete(key);
    else {
      const entry = `${jsonStringify(key)}:${text}`;
      bytes += byteLength(entry) + 1;
      if (bytes > this.#exportBytesMax - 2) {
        throw this.#passed(
          `the exports of one step are larger than ${bytesText(this.#exportBytesMax)} of JSON together, with ${what}`,
        );
      }
      this.#exports.set(key, `${entry},`);
    }
    this.#exportBytes = bytes;
  }

  /** Adds something to send. Throws when it is no object, or larger than allowed. Returns the bytes of its JSON. */
  send(kind: SendKind, payload: object): number {
    if (this.#sendCount >= sendsMax) throw this.#passed(`more than ${sendsMax} things are sent with $.send`);
    const { text = '{}' } = this.#textOf(payload, sendBytesMax, `what is sent with $.send.${kind}`);
    const bytes = byteLength(text);
    if (this.#sendBytes + bytes > sendBytesMax)
      throw this.#passed(
        `what one step sends with $.send is larger than ${bytesText(sendBytesMax)} of JSON together`,
      );
    this.#sendCount += 1;
    this.#sendBytes += bytes;
    this.#sends.push([sendKinds.indexOf(kind), bytes]);
    this.#sendTexts.push(text);
    return bytes;
  }

  exit(reason: unknown): void {
    let text: string | null = null;
    if (typeof reason === 'string') text = reason;
    else if (reason !== undefined && reason !== null)
      text = toJsonText(reason, rerunContextBytesMax, 'the reason of $.flow.exit') ?? String(reason);
    this.flow = { kind: 'exit', reason: text === null ? null : shortened(text, exitReasonCharactersMax - 1) };
  }

  rerun(ms: number, context: unknown, maxRetries: number): void {
    const { text = 'null' } = this.#textOf(context, rerunContextBytesMax, 'the context of $.flow.rerun');
    this.flow = { kind: 'rerun', ms, context: text, maxRetries };
  }

  /** Returns the JSON of a value, and the converted value: responses of axios are reduced to what JSON can hold. */
  #textOf(value: unknown, bytesMax: number, what: string): { text: string | undefined; kept: unknown } {
    const text = textWithin(value, bytesMax, what);
    const isTooLarge = text instanceof TooLargeError;
    const kept = isTooLarge || mayBeCircular(text) ? withPlainResponses(value) : value;
    if (kept !== value) {
      const reduced = textWithin(kept, bytesMax, what);
      if (reduced instanceof TooLargeError) throw this.#passed(reduced.message);
      this.#note(
        `${what} holds a response of axios, which refers back to itself: its status, statusText, headers and data are kept`,
      );
      return { text: reduced, kept };
    }
    if (isTooLarge) throw this.#passed(text.message);
    return { text, kept };
  }

  get hasSends(): boolean {
    return this.#sends.length > 0;
  }

  /** Moves what is to be sent and was not sent before into a frame. Returns the added bytes. */
  takeSends(header: { sends?: SendEntry[] }, payload: (string | Uint8Array)[]): number {
    if (this.#sends.length === 0) return 0;
    let bytes = 0;
    for (const [, length] of this.#sends) bytes += length;
    header.sends = this.#sends;
    payload.push(...this.#sendTexts);
    this.#sends = [];
    this.#sendTexts = [];
    return bytes;
  }

  /** Puts everything except the sends into the frame that ends the call. Returns the added bytes. */
  addTo(done: DoneHeader, payload: (string | Uint8Array)[]): number {
    const exports = `{${[...this.#exports.values()].join('').slice(0, -1)}}`;
    const step: StepDone = { exports: byteLength(exports), input: -1 };
    let bytes = step.exports;
    payload.push(exports);
    if (this.input !== undefined) {
      step.input = byteLength(this.input);
      bytes += step.input;
      payload.push(this.input);
    }
    if (this.usedScratch) step.scratch = 1;
    if (this.flow?.kind === 'rerun') {
      const { context, ...rest } = this.flow;
      step.flow = { ...rest, context: byteLength(context) };
      bytes += step.flow.context;
      payload.push(context);
    } else if (this.flow !== undefined) step.flow = this.flow;
    done.step = step;
    return bytes;
  }
}

/** True when the text has the mark of the conversion. An ordinary text may contain it too. */
function mayBeCircular(text: string | undefined): boolean {
  return text?.includes('[Circular]') === true;
}

function textWithin(value: unknown, bytesMax: number, what: string): string | undefined | TooLargeError {
  try {
    return toJsonText(value, bytesMax, what);
  } catch (error) {
    if (error instanceof TooLargeError) return error;
    throw error;
  }
}

function describe(value: unknown): string {
  return value === null ? 'null' : value === '' ? 'an empty one' : typeof value;
}

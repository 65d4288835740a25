import type { StepEffects, StepFlow } from './call-outcome.ts';
import { asArray, asObject, CapPassedError, isIntegerIn, jsonObjectText, jsonText } from './frame-fields.ts';
import {
  exitReasonCharactersMax,
  inputBytesMax,
  type PayloadReader,
  ProtocolError,
  rerunContextBytesMax,
  rerunsMax,
  sendBytesMax,
  sendKinds,
  sendsMax,
  waitMsMax,
} from './protocol.ts';
import type { RunnerLimits } from './runner-limits.ts';

/** Gathers the effects of a step from its frames. Like `CallRecord`, it trusts no field. */
export class StepRecord {
  readonly effects: StepEffects = { exports: '{}', sends: [] };
  readonly #limits: RunnerLimits;
  #sendBytes = 0;

  constructor(limits: RunnerLimits) {
    this.#limits = limits;
  }

  addSends(entries: unknown[], payload: PayloadReader): void {
    for (const entry of entries) {
      const [kindIndex, length] = asArray(entry);
      const kind = sendKinds[kindIndex as number];
      if (kind === undefined) throw new ProtocolError('something is sent in an unknown way');
      const bytes = payload.bytes(length);
      this.#sendBytes += bytes.length;
      if (this.effects.sends.length >= sendsMax || this.#sendBytes > sendBytesMax)
        throw new CapPassedError('more is sent than allowed');
      this.effects.sends.push({ kind, payload: jsonText(bytes.toString('utf8')) });
    }
  }

  /** Reads the part of a `done` frame that only steps have. */
  end({ exports, input, flow, scratch }: Record<string, unknown>, payload: PayloadReader): void {
    const exportBytes = payload.bytes(exports);
    if (exportBytes.length > this.#limits.stepExportBytesMax)
      throw new CapPassedError('the exports are larger than allowed');
    this.effects.exports = jsonObjectText(exportBytes.toString('utf8'));
    if (input !== -1) {
      const inputBytes = payload.bytes(input);
      if (inputBytes.length > inputBytesMax) throw new CapPassedError('the input is larger than allowed');
      this.effects.input = jsonObjectText(inputBytes.toString('utf8'));
    }
    if (flow !== undefined) this.effects.flow = readFlow(asObject(flow), payload);
    if (scratch === 1) this.effects.usedScratch = true;
  }
}

function readFlow(flow: Record<string, unknown>, payload: PayloadReader): StepFlow {
  const { kind, reason, ms, context, maxRetries } = flow;
  if (kind === 'exit') {
    if (reason !== null && (typeof reason !== 'string' || reason.length > exitReasonCharactersMax))
      throw new ProtocolError('the reason of an exit is no short text');
    return { kind, reason };
  }
  if (!isIntegerIn(ms, 0, waitMsMax)) throw new ProtocolError('a step waits for no time that can be');
  if (kind === 'delay' || kind === 'suspend') return { kind, ms };
  if (kind !== 'rerun' || !isIntegerIn(maxRetries, 0, rerunsMax))
    throw new ProtocolError('a step continues in an unknown way');
  const bytes = payload.bytes(context);
  if (bytes.length > rerunContextBytesMax)
    throw new CapPassedError('the context of a rerun is larger than allowed');
  return { kind, ms, context: jsonText(bytes.toString('utf8')), maxRetries };
}

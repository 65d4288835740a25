import { createHash, randomBytes } from 'node:crypto';

/** Where a span stands: the header `traceparent` of W3C Trace Context. */
export interface TraceContext {
  /** 32 lower-case hexadecimal digits. */
  readonly traceId: string;
  /** 16 lower-case hexadecimal digits. */
  readonly spanId: string;
  /** False: its spans are not recorded, here and downstream. */
  readonly sampled: boolean;
}

const pattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** Undefined for a text that is no `traceparent`. Later versions than 00 are read as the standard says: their further fields are ignored. */
export function parseTraceparent(text: unknown): TraceContext | undefined {
  if (typeof text !== 'string' || text.length > 200) return undefined;
  const [, version, traceId = '', spanId = '', flags = '', more] = pattern.exec(text) ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export function traceparentOf({ traceId, spanId, sampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`;
}

export function newTraceId(): string {
  return randomBytes(16).toString('hex');
}

export function newSpanId(): string {
  return randomBytes(8).toString('hex');
}

/**
 * Ids of the trace and the span of a piece of work, made from its own id: every process that works on it knows them, also after a
 * restart, and nothing has to be stored.
 */
export function derivedIds(id: string): { traceId: string; spanId: string } {
  const hash = createHash('sha256').update(id).digest('hex');
  return { traceId: hash.slice(0, 32), spanId: hash.slice(32, 48) };
}

import { createHash } from 'node:crypto';
import { shortened } from './shortened.ts';

/** Maximum characters of an ID that is kept unchanged. A longer one is replaced by its beginning and a hash, which stays unique. */
const idCharactersMax = 1024;
const summaryCharactersMax = 4096;
const channelCharactersMax = 256;
/** Latest time a Date can hold. */
const epochMsMax = 8.64e15;

export interface EmitMetadata {
  id: string | null;
  idIsNumber: boolean;
  summary: string | null;
  ts: number | null;
  name: string;
  deliveryTs: number | null;
}

const noMetadata: EmitMetadata = {
  id: null,
  idIsNumber: false,
  summary: null,
  ts: null,
  name: '',
  deliveryTs: null,
};

/** Reads the second argument of `$emit`, which can be any value. Invalid parts count as absent. Never throws. */
export function readEmitMetadata(given: unknown): EmitMetadata {
  if (typeof given !== 'object' || given === null) return noMetadata;
  try {
    const meta = given as Record<string, unknown>;
    const id = meta.id;
    return {
      id: textOfId(id),
      idIsNumber: typeof id === 'number' || typeof id === 'bigint',
      summary:
        meta.summary === undefined || meta.summary === null
          ? null
          : shortened(asText(meta.summary), summaryCharactersMax - 1),
      ts: epochMs(meta.ts),
      name: typeof meta.name === 'string' ? meta.name.slice(0, channelCharactersMax) : '',
      deliveryTs: epochMs(meta.delivery_ts),
    };
  } catch {
    return noMetadata;
  }
}

function textOfId(id: unknown): string | null {
  if (id === undefined || id === null) return null;
  if (typeof id === 'number' && Number.isNaN(id)) return null;
  const text = asText(id);
  if (text.length <= idCharactersMax) return text;
  return `${text.slice(0, 256)}#${createHash('sha256').update(text).digest('hex')}`;
}

function asText(value: unknown): string {
  if (typeof value === 'object' && value !== null && !(value instanceof Date))
    return JSON.stringify(value) ?? '';
  return value instanceof Date ? value.toISOString() : String(value);
}

/** Reads numbers, numeric strings, Dates and date strings. Everything else is no time. */
function epochMs(value: unknown): number | null {
  let ms: number;
  if (typeof value === 'number') ms = value;
  else if (value instanceof Date) ms = value.getTime();
  else if (typeof value === 'string' && value.trim() !== '') {
    ms = Number(value);
    if (Number.isNaN(ms)) ms = Date.parse(value);
  } else return null;
  return Number.isFinite(ms) && Math.abs(ms) <= epochMsMax ? ms : null;
}

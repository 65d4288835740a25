import { channels, type StoredEvent } from '#events/event.ts';
import { formatEventId } from '#events/event-id.ts';

/** What a page of logs holds of one line at most; the whole of it is among the events of its channel. */
const textCharactersMax = 20_000;

export interface LogLine {
  id: string;
  /** Epoch ms. */
  ts: number;
  level: string;
  message: string;
  error?: Record<string, string>;
}

/**
 * An event of `$logs` or `$errors` as a line of the log. Components may emit on these channels themselves, so nothing
 * is known of its form: what is no log line or error is shown as it was emitted.
 */
export function logLine(event: StoredEvent): LogLine {
  const value: unknown = JSON.parse(event.event);
  const base = { id: formatEventId(event), ts: event.ms };
  const shown = cut(typeof value === 'string' ? value : event.event);
  if (event.channel === channels.errors) {
    const error = errorIn(value);
    if (error === undefined) return { ...base, level: 'error', message: shown };
    return { ...base, level: 'error', message: `${error.name}: ${error.message}`, error };
  }
  if (!isObject(value) || typeof value.message !== 'string') return { ...base, level: 'log', message: shown };
  return {
    ...base,
    ts: typeof value.ts === 'number' && Number.isSafeInteger(value.ts) ? value.ts : event.ms,
    level: typeof value.level === 'string' ? cut(value.level) : 'log',
    message: cut(value.message),
  };
}

function errorIn(value: unknown): Record<string, string> | undefined {
  if (!isObject(value) || !isObject(value.error)) return undefined;
  const { error } = value;
  if (typeof error.name !== 'string' || typeof error.message !== 'string') return undefined;
  const shown: Record<string, string> = {};
  for (const field of ['name', 'message', 'stack', 'ts', 'code']) {
    const text = error[field];
    if (typeof text === 'string') shown[field] = cut(text);
  }
  return shown;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function cut(text: string): string {
  return text.length > textCharactersMax ? `${text.slice(0, textCharactersMax)}…` : text;
}

import type { AsyncLocalStorage } from 'node:async_hooks';
import { formatWithOptions, inspect } from 'node:util';
import { logLevels } from '#runner/protocol.ts';
import type { CallEffects } from './call-effects.ts';
import { withoutPlaces } from './source-map.ts';

const levelOf: Record<string, number> = {
  debug: 0,
  info: 1,
  log: 2,
  warn: 3,
  error: 4,
  trace: 3,
  dir: 2,
  dirxml: 2,
};

/**
 * Turns console output and everything else that is written to stdout or stderr into log lines of the call that wrote it. Output that belongs to no
 * call (a timer after its end) is dropped.
 */
export function captureConsole(calls: AsyncLocalStorage<CallEffects>): void {
  for (const [method, level] of Object.entries(levelOf)) {
    const write = (...parts: unknown[]): void => {
      calls.getStore()?.log(level, () => (method === 'dir' ? inspect(parts[0]) : formatParts(parts)));
    };
    Object.defineProperty(console, method, {
      value: write,
      writable: true,
      configurable: true,
      enumerable: true,
    });
  }
  for (const [stream, level] of [
    [process.stdout, logLevels.indexOf('log')],
    [process.stderr, logLevels.indexOf('error')],
  ] as const) {
    stream.write = ((chunk: unknown, encoding?: unknown, callback?: unknown): boolean => {
      calls.getStore()?.log(level, () => withoutLastNewline(String(chunk)));
      const done = typeof encoding === 'function' ? encoding : callback;
      if (typeof done === 'function') process.nextTick(done as () => void);
      return true;
    }) as typeof stream.write;
  }
}

function formatParts(parts: unknown[]): string {
  const isText = parts.length === 1 && typeof parts[0] === 'string';
  return withoutPlaces(isText ? String(parts[0]) : formatWithOptions({ colors: false }, ...parts));
}

function withoutLastNewline(text: string): string {
  return text.endsWith('\n') ? text.slice(0, -1) : text;
}

import { type Logger as PinoLogger, pino } from 'pino';
import { LogOutput } from './log-output.ts';
import { logText } from './log-text.ts';

/** One wide line per thing that happened, with ids to join on. Never a secret, never a payload. */
export type Logger = Pick<PinoLogger, 'debug' | 'info' | 'warn' | 'error' | 'fatal'>;

export interface Log {
  logger: Logger;
  /** Writes text that is no log line, in order with the lines. */
  print(text: string): void;
}

/** Writes to standard output; what is left when the process exits is written then. */
export function openLog(options: {
  level: string;
  format: 'text' | 'json';
  /** Fields of every line, as they are when it is written. */
  fields?: () => object;
}): Log {
  const output = new LogOutput(1, options.format === 'text' ? { format: logText } : {});
  process.on('exit', () => output.flushSync());
  const { level, fields } = options;
  const timestamp = pino.stdTimeFunctions.isoTime;
  const logger = pino(
    { level, base: null, timestamp, ...(fields === undefined ? {} : { mixin: fields }) },
    output,
  );
  return { logger, print: (text) => output.print(text) };
}

/** Text for a terminal, JSON for a program, unless the operator sets the format. */
export function logFormat(setting: 'auto' | 'text' | 'json', output: { isTTY?: boolean }): 'text' | 'json' {
  if (setting !== 'auto') return setting;
  return output.isTTY === true ? 'text' : 'json';
}

/** For tests that do not look at the log. */
export const silentLogger: Logger = pino({ level: 'silent' });

import { type Logger as PinoLogger, pino } from 'pino';
import { LogOutput } from './log-output.ts';

/** One wide line per thing that happened, with ids to join on. Never a secret, never a payload. */
export type Logger = Pick<PinoLogger, 'debug' | 'info' | 'warn' | 'error' | 'fatal'>;

/** Writes to standard output; what is left when the process exits is written then. */
export function createLogger(options: { level: string }): PinoLogger {
  const output = new LogOutput(1);
  process.on('exit', () => output.flushSync());
  return pino({ level: options.level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, output);
}

/** For tests that do not look at the log. */
export const silentLogger: Logger = pino({ level: 'silent' });

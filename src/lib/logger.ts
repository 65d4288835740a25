import { type Logger as PinoLogger, pino } from 'pino';

/** One wide line per thing that happened, with ids to join on. Never a secret, never a payload. */
export type Logger = Pick<PinoLogger, 'debug' | 'info' | 'warn' | 'error' | 'fatal'>;

export function createLogger(options: { level: string }): PinoLogger {
  return pino({ level: options.level, base: null, timestamp: pino.stdTimeFunctions.isoTime });
}

/** For tests that do not look at the log. */
export const silentLogger: Logger = pino({ level: 'silent' });

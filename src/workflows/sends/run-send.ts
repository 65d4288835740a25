/** The outcome of a send. It is tried once; after a crash of the service in the middle of it, once more. */
export type SendOutcome = { state: 'sent' | 'failed'; result: SendResult };

/** JSON in `run_sends.result`. */
export interface SendResult {
  /** The reason of the failure, as it is shown to users. */
  error?: string;
  /** Answer to a request: HTTP status and the beginning of its body. */
  status?: number;
  body?: string;
  /** s3: where it is. */
  bucket?: string;
  key?: string;
  /** email: as the mail server knows it. */
  message_id?: string;
  /** sse: the id of the event. */
  event_id?: string;
  duration_ms?: number;
}

/** A send that cannot be made as requested; the message is its result. */
export class SendError extends Error {
  override name = 'SendError';
}

/** The argument of a send, which has to be an object. Throws `SendError`. */
export function sendArgument(payload: string): Record<string, unknown> {
  const value: unknown = JSON.parse(payload);
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>;
  throw new SendError('the argument is not an object');
}

/** Text of the argument. Throws `SendError` for anything else. */
export function optionalText(argument: Record<string, unknown>, name: string): string | undefined {
  const value = argument[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string') return value;
  throw new SendError(`${name}: expected text, found ${describe(value)}`);
}

export function requiredText(argument: Record<string, unknown>, name: string): string {
  const text = optionalText(argument, name);
  if (text === undefined || text === '') throw new SendError(`${name}: required`);
  return text;
}

function describe(value: unknown): string {
  return (JSON.stringify(value) ?? typeof value).slice(0, 100);
}

/** A connection that was not made, with a `code` as Node.js uses it: ENOTFOUND, EAI_AGAIN, EACCES, ETIMEDOUT, … */
export class EgressError extends Error {
  override name = 'EgressError';
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

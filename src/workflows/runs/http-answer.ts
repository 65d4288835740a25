import type { HttpReply } from '#runner/call-outcome.ts';

/** The answer of `$.respond`, as it is shown to users: its body as text. */
export interface HttpAnswer {
  status: number;
  headers: HttpReply['headers'];
  body: string;
}

/** Redacted; null: the code gave no answer. */
export function httpAnswer(
  reply: HttpReply | undefined,
  redact: (text: string) => string,
): HttpAnswer | null {
  if (reply === undefined) return null;
  const { status, headers, body } = reply;
  return JSON.parse(redact(JSON.stringify({ status, headers, body: body.toString('utf8') }))) as HttpAnswer;
}

import type { HttpReply } from '#runner/call-outcome.ts';
import type { Redactor } from '#vault/redact.ts';
import { redactLarge } from '#vault/redact-large.ts';

/** The answer of `$.respond`, as it is shown to users: its body as text. */
export interface HttpAnswer {
  status: number;
  headers: HttpReply['headers'];
  body: string;
}

/** Redacted; null: the code gave no answer. */
export async function httpAnswer(
  reply: HttpReply | undefined,
  { ownerId, redact }: { ownerId: string; redact: Redactor },
): Promise<HttpAnswer | null> {
  if (reply === undefined) return null;
  const { status, headers, body } = reply;
  const json = JSON.stringify({ status, headers, body: body.toString('utf8') });
  return JSON.parse(await redactLarge(ownerId, redact, json)) as HttpAnswer;
}

import type { HttpReply } from '#runner/call-outcome.ts';

/** How a request to an endpoint was answered. */
export type EndpointAnswer =
  /** It was stored; its code has no say in the answer. */
  | { kind: 'accepted' }
  /** Its run ended (`failed`: with an error), without a reply, or `waits`: it came to a wait, or has not begun in time. */
  | { kind: 'ended'; waits: boolean; failed?: boolean }
  | { kind: 'responded'; reply: HttpReply };

/** What is kept of an answer for a request that is repeated. */
export type KeptAnswer =
  | EndpointAnswer
  /** The reply was too large to keep, was not to be kept, or was lost with its node. */
  | { kind: 'not_kept'; status: number };

/** Text of an answer without a reply, for `idempotency_keys.answer`. No sealed text begins like one of these. */
export function encodeMark(answer: Exclude<KeptAnswer, { kind: 'responded' }>): string {
  if (answer.kind === 'not_kept') return `status ${answer.status}`;
  if (answer.kind === 'ended') return answer.waits ? 'waits' : answer.failed === true ? 'failed' : 'ended';
  return 'accepted';
}

/** What `encodeMark` wrote; undefined: the text is a sealed reply. */
export function decodeMark(text: string): KeptAnswer | undefined {
  if (text === 'accepted') return { kind: 'accepted' };
  if (text === 'failed') return { kind: 'ended', waits: false, failed: true };
  if (text === 'ended' || text === 'waits') return { kind: 'ended', waits: text === 'waits' };
  if (text.startsWith('status ')) return { kind: 'not_kept', status: Number(text.slice('status '.length)) };
  return undefined;
}

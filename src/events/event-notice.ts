/**
 * What processes on one store tell each other about events, as the text of a notification: the ids of the emitters that
 * something was stored for, or `-` and the id of one that was removed. Empty: anything may have happened to any of them.
 */
export type EventNotice =
  | { what: 'anything' }
  | { what: 'stored'; emitterIds: string[] }
  | { what: 'removed'; emitterId: string };

/** PostgreSQL takes less than 8,000 bytes, and the store puts the sender in front. */
const noticeBytesMax = 7_500;

export function storedNotice(emitterIds: Iterable<string>): string {
  const notice = [...new Set(emitterIds)].join(' ');
  return Buffer.byteLength(notice) > noticeBytesMax ? '' : notice;
}

export function removedNotice(emitterId: string): string {
  return `-${emitterId}`;
}

export function readNotice(notice: string): EventNotice {
  if (notice === '') return { what: 'anything' };
  return notice.startsWith('-')
    ? { what: 'removed', emitterId: notice.slice(1) }
    : { what: 'stored', emitterIds: notice.split(' ') };
}

/**
 * The text of a notification about events between processes on one store: the emitters that something
 * was stored for, behind their owner (`o_1:dc_1,dc_2 u_2:dc_3`), or `-` and the id of one that was removed. Empty:
 * anything may have happened to any of them.
 */
export type EventNotice =
  | { what: 'anything' }
  | { what: 'stored'; emitters: NotedEmitter[] }
  | { what: 'removed'; emitterId: string };

/** Owners are named because readers of everything an owner emits cannot know emitters that are new. */
export interface NotedEmitter {
  emitterId: string;
  ownerId: string;
}

/** PostgreSQL takes less than 8,000 bytes, and the store puts the sender in front. */
const noticeBytesMax = 7_500;

export function storedNotice(events: readonly { emitter_id: string; owner_id: string }[]): string {
  const emittersByOwner = new Map<string, Set<string>>();
  for (const { emitter_id, owner_id } of events) {
    const emitters = emittersByOwner.get(owner_id);
    if (emitters === undefined) emittersByOwner.set(owner_id, new Set([emitter_id]));
    else emitters.add(emitter_id);
  }
  const parts = [...emittersByOwner].map(([ownerId, emitters]) => `${ownerId}:${[...emitters].join(',')}`);
  const notice = parts.join(' ');
  return Buffer.byteLength(notice) > noticeBytesMax ? '' : notice;
}

export function removedNotice(emitterId: string): string {
  return `-${emitterId}`;
}

export function readNotice(notice: string): EventNotice {
  if (notice === '') return { what: 'anything' };
  if (notice.startsWith('-')) return { what: 'removed', emitterId: notice.slice(1) };
  const emitters = notice.split(' ').flatMap((part) => {
    const [ownerId = '', emitterIds = ''] = part.split(':');
    return emitterIds.split(',').map((emitterId) => ({ emitterId, ownerId }));
  });
  return { what: 'stored', emitters };
}

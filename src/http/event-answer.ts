import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import type { StoredEvent } from '#events/event.ts';
import { type Channel, type EventPlace, eventBatches } from '#events/event-page-store.ts';
import type { Db } from '#storage/store.ts';

/**
 * Answers `{"data":[…]…}` with whole events, each as `rowOf` writes it. They are read and sent a batch at a time, as fast
 * as the caller takes them, because a page of large events would fill the memory; `ending` gets what was sent and writes
 * what follows the list, such as `,"page_info":{…}`. Throws what reading the first batch throws.
 */
export async function sendWholeEvents(
  reply: FastifyReply,
  db: Db,
  page: {
    channel: Channel;
    places: readonly EventPlace[];
    rowOf: (event: StoredEvent) => string;
    ending: (sent: EventPlace[]) => string;
  },
): Promise<FastifyReply> {
  const { answer } = reply.request;
  const batches = eventBatches(db, page.channel, page.places, {
    ...(answer && { before: answer.expects }),
  });
  const sent: EventPlace[] = [];
  const rowsOf = (events: readonly StoredEvent[]) =>
    events
      .map((event) => {
        const comma = sent.length === 0 ? '' : ',';
        sent.push({ ms: event.ms, seq: event.seq, bytes: 0 });
        return comma + page.rowOf(event);
      })
      .join('');
  const first = await batches.next();
  const begun = first.done === true ? [] : first.value.places;
  const beginning = `{"data":[${first.done === true ? '' : rowsOf(first.value.events)}`;
  reply.type('application/json; charset=utf-8');
  if (begun.length === page.places.length) return reply.send(`${beginning}]${page.ending(sent)}}`);
  const text = async function* () {
    yield beginning;
    for await (const { events } of batches) yield rowsOf(events);
    yield `]${page.ending(sent)}}`;
  };
  // No object mode: that would read 16 batches ahead.
  return reply.send(Readable.from(text(), { objectMode: false }));
}

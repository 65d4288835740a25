import type { Command } from 'commander';
import type { EventSummary } from '#sdk';
import { type Api, isObject, pathOf } from './api.ts';
import { type CommandOptions, type GetSessionOptions, integer, leaf, textOption } from './command-kit.ts';
import { usageError } from './exit-codes.ts';
import { followStream } from './follow-stream.ts';
import type { Session } from './session.ts';
import { millisText, showDone } from './show.ts';
import { visible, visibleJson } from './visible-text.ts';

/** As many as the service keeps of each channel. */
const keptMax = 100;

export function eventCommands(program: Command, sessionOptions: GetSessionOptions): void {
  const events = program.command('events').description('what sources and workflows emit');
  leaf(
    events,
    'list <emitter>',
    'the last events of a source or workflow, oldest first; `millrace events EMITTER` is the same',
    sessionOptions,
    show,
    { isDefault: true },
  )
    .option('-n, --limit <number>', 'how many', integer(0, keptMax), 10)
    .option('-f, --follow', 'continue with new events, until Ctrl-C')
    .option('--event-name <name>', 'a channel: its name, $errors or $logs');
  leaf(events, 'delete <emitter>', 'delete stored events, all or an inclusive range', sessionOptions, remove)
    .option('--start <event>', 'from this event on')
    .option('--end <event>', 'up to this event')
    .option('--event-name <name>', 'only of this channel')
    .option('--all', 'all of them; needed when no range is given');
}

/** Path of an emitter, by the kind of its id. */
export function emitterPath(id: string): string {
  if (id.startsWith('dc_')) return pathOf`/v1/sources/${id}`;
  if (id.startsWith('p_')) return pathOf`/v1/workflows/${id}`;
  throw usageError(
    `${id} is no source (dc_…) or workflow (p_…)`,
    '`millrace sources list` and `millrace workflows list` show the ids.',
  );
}

/** Newest last, up to `limit`. */
export async function storedEvents(
  api: Api,
  path: string,
  limit: number,
  eventName: string | undefined,
): Promise<EventSummary[]> {
  if (limit === 0) return [];
  const query = { expand: 'event', event_name: eventName };
  return (await api.list<EventSummary>(`${path}/event_summaries`, limit, query)).reverse();
}

async function show(session: Session, options: CommandOptions, id = ''): Promise<void> {
  const api = await session.api();
  const path = emitterPath(id);
  const limit = Number(options.limit);
  const eventName = textOption(options, 'eventName');
  const isFollowed = options.follow === true;
  const print = (event: EventSummary): void => {
    if (session.isJson) session.terminal.printJson(event, 0);
    else session.terminal.print(eventLine(session, event));
  };
  if (!isFollowed) {
    const events = await storedEvents(api, path, limit, eventName);
    if (session.isJson) return session.terminal.printJson(events);
    if (events.length === 0)
      session.terminal.note(`Nothing was emitted yet. Wait for it: millrace events ${id} -f`);
    for (const event of events) print(event);
    return;
  }
  const events = await storedEvents(api, path, Math.max(1, limit), eventName);
  for (const event of limit === 0 ? [] : events) print(event);
  const stream = followStream(api, {
    path,
    eventName,
    after: events.at(-1)?.id,
    signal: session.interrupted,
    note: (text) => session.terminal.note(text),
  });
  for await (const event of stream) print(event);
}

/** Time, id, channel, and the data on one line. */
export function eventLine(session: Session, event: EventSummary): string {
  const { name: channel } = event.metadata;
  const name = channel === '' ? '' : ` ${session.terminal.style('cyan', visible(channel))}`;
  const shown = typeof event.event === 'string' ? visible(event.event) : visibleJson(event.event, 0);
  return `${session.terminal.style('dim', millisText(event.indexed_at_ms))} ${event.id}${name} ${shown}`;
}

async function remove(session: Session, options: CommandOptions, id = ''): Promise<void> {
  const query = {
    start_id: textOption(options, 'start'),
    end_id: textOption(options, 'end'),
    event_name: textOption(options, 'eventName'),
  };
  if (query.start_id === undefined && query.end_id === undefined && options.all !== true)
    throw usageError('this would delete all events', 'Give --start, --end or both; or --all.');
  const answer = await (await session.api()).call('DELETE', `${emitterPath(id)}/events`, { query });
  showDone(session, 'The events are being deleted.', isObject(answer.data) ? answer.data : {});
}

import { setTimeout as pause } from 'node:timers/promises';
import type { Command } from 'commander';
import type { EventSummary, Run, RunDetail, SourceLog } from '#sdk';
import { type Api, isObject, pathOf } from './api.ts';
import { type CommandOptions, type GetSessionOptions, integer, leaf } from './command-kit.ts';
import { emitterPath, storedEvents } from './event-commands.ts';
import { followStream } from './follow-stream.ts';
import type { Session } from './session.ts';
import { millisText } from './show.ts';
import { visible, visibleLines } from './visible-text.ts';

const pollMs = 1000;
/** Runs read in one poll, which is more than end within a second. */
const runsAtOnce = 50;
/** Runs that are remembered as shown. */
const seenMax = 1000;

export function logCommand(program: Command, sessionOptions: GetSessionOptions): void {
  leaf(
    program,
    'logs <emitter>',
    'what a source, or the steps of a workflow, printed, and their errors; oldest first',
    sessionOptions,
    logs,
  )
    .option('-n, --limit <number>', 'how many lines of a source, or runs of a workflow', integer(0, 100), 20)
    .option('-f, --follow', 'continue with new lines, until Ctrl-C');
}

async function logs(session: Session, options: CommandOptions, id = ''): Promise<void> {
  const api = await session.api();
  emitterPath(id);
  const limit = Number(options.limit);
  if (id.startsWith('p_'))
    return workflowLogs(session, api, id, { limit, isFollowed: options.follow === true });
  const stored =
    limit === 0 ? [] : (await api.list<SourceLog>(pathOf`/v1/sources/${id}/logs`, limit)).reverse();
  if (options.follow !== true) {
    if (session.isJson) return session.terminal.printJson(stored);
    if (stored.length === 0) session.terminal.note('Nothing was printed yet.');
    for (const line of stored) printLine(session, line);
    return;
  }
  const print = (line: SourceLog): void => {
    if (session.isJson) session.terminal.printJson(line, 0);
    else printLine(session, line);
  };
  await followSourceLogs(session, api, id, {
    signal: session.interrupted,
    print,
    stored: async () =>
      limit === 0 ? [] : (await api.list<SourceLog>(pathOf`/v1/sources/${id}/logs`, limit)).reverse(),
  });
}

export interface FollowedLogs {
  signal: AbortSignal;
  print: (line: SourceLog) => void;
  /** What is shown first. */
  stored: () => Promise<SourceLog[]>;
}

/** Lines of `$logs` and `$errors` as they come, until the signal; in the form that GET …/logs answers. */
export async function followSourceLogs(
  session: Session,
  api: Api,
  id: string,
  { signal, print, stored }: FollowedLogs,
): Promise<void> {
  const path = pathOf`/v1/sources/${id}`;
  const lastOf = new Map<string, string>();
  const channels = ['$logs', '$errors'] as const;
  for (const channel of channels) {
    const mark = (await storedEvents(api, path, 1, channel)).at(-1)?.id;
    if (mark !== undefined) lastOf.set(channel, mark);
  }
  for (const line of await stored()) {
    print(line);
    const channel = line.error === undefined ? '$logs' : '$errors';
    if (isLater(line.id, lastOf.get(channel) ?? '')) lastOf.set(channel, line.id);
  }
  const follow = async (eventName: string): Promise<void> => {
    const stream = followStream(api, {
      path,
      eventName,
      after: lastOf.get(eventName),
      signal,
      note: (text) => session.terminal.note(text),
    });
    for await (const event of stream) print(lineOf(event, eventName));
  };
  await Promise.all(channels.map(follow));
}

export function printLine(session: Session, line: SourceLog): void {
  const { ts, level, message, error } = line;
  const style = level === 'error' ? 'red' : level === 'warn' ? 'yellow' : 'dim';
  // Components may emit there themselves, whatever they like.
  const text = typeof error?.stack === 'string' ? error.stack : message;
  session.terminal.print(
    `${session.terminal.style('dim', millisText(ts))} ${session.terminal.style(style, visible(level).padEnd(5))} ${indented(visibleLines(text))}`,
  );
}

function indented(text: string): string {
  return text.replaceAll('\n', '\n    ');
}

/** An event of `$logs` or `$errors` as a line. Components may emit there themselves: any other event is shown as it is. */
function lineOf(event: EventSummary, channel: string): SourceLog {
  const base = { id: event.id, ts: event.indexed_at_ms };
  const value = event.event;
  if (channel === '$errors') {
    if (isObject(value) && isObject(value.error))
      return {
        ...base,
        level: 'error',
        message: `${String(value.error.name)}: ${String(value.error.message)}`,
        error: value.error as Record<string, string>,
      };
    return { ...base, level: 'error', message: JSON.stringify(value) };
  }
  if (isObject(value) && typeof value.message === 'string')
    return {
      ...base,
      ts: typeof value.ts === 'number' ? value.ts : base.ts,
      level: String(value.level ?? 'log'),
      message: value.message,
    };
  return { ...base, level: 'log', message: typeof value === 'string' ? value : JSON.stringify(value) };
}

/** Steps print into the records of their runs, which are read when the runs have ended. */
async function workflowLogs(
  session: Session,
  api: Api,
  id: string,
  { limit, isFollowed }: { limit: number; isFollowed: boolean },
): Promise<void> {
  const collected: RunLine[] = [];
  let printed = 0;
  const seen = new Set<string>();
  let wanted = limit;
  for (let round = 0; round === 0 || (isFollowed && !session.interrupted.aborted); round += 1) {
    if (round > 0) await pause(pollMs, undefined, { signal: session.interrupted }).catch(() => undefined);
    if (session.interrupted.aborted) return;
    const runs = await api.list<Run>(
      pathOf`/v1/workflows/${id}/runs`,
      round === 0 ? Math.max(wanted, 1) : runsAtOnce,
    );
    const ended = runs.filter((run) => run.ended_at !== null && !seen.has(run.id));
    if (round > 0 && runs.length === runsAtOnce && ended.length === runsAtOnce)
      session.terminal.note('More runs ended than can be shown; some are left out.');
    for (const run of ended) seen.add(run.id);
    for (const run of ended.slice(0, round === 0 ? wanted : runsAtOnce).reverse()) {
      for (const line of linesOfRun(await api.data<RunDetail>('GET', pathOf`/v1/runs/${run.id}`))) {
        printed += 1;
        if (!session.isJson) printRunLine(session, line);
        else if (isFollowed) session.terminal.printJson(line, 0);
        else collected.push(line);
      }
    }
    wanted = runsAtOnce;
    for (const old of seen) {
      if (seen.size <= seenMax) break;
      seen.delete(old);
    }
  }
  if (session.isJson && !isFollowed) session.terminal.printJson(collected);
  else if (printed === 0 && !isFollowed)
    session.terminal.note(
      'Nothing was printed by runs that have ended. `millrace runs list` shows the runs.',
    );
}

/** What a step printed, its error, or that of a send. */
interface RunLine {
  run_id: string;
  namespace: string;
  ts: number;
  level: string;
  message: string;
}

function linesOfRun({ id, steps, sends }: RunDetail): RunLine[] {
  const ofSteps = steps.flatMap(({ namespace, logs, error, ended_at }) => [
    ...logs.map((line) => ({ run_id: id, namespace, ...line })),
    ...(error === null
      ? []
      : [{ run_id: id, namespace, ts: Date.parse(ended_at), level: 'error', message: error.stack }]),
  ]);
  // They are made after the end of the run, which may have succeeded.
  const failedSends = sends.flatMap(({ kind, state, result, ended_at }) =>
    state !== 'failed'
      ? []
      : [
          {
            run_id: id,
            namespace: `$.send.${kind}`,
            ts: timeOf(ended_at),
            level: 'error',
            message: reasonOf(result),
          },
        ],
  );
  return [...ofSteps, ...failedSends];
}

function timeOf(text: string | null): number {
  return text === null ? Date.now() : Date.parse(text);
}

function reasonOf(result: unknown): string {
  return isObject(result) && typeof result.error === 'string' ? result.error : JSON.stringify(result);
}

function printRunLine(session: Session, { run_id, namespace, ts, level, message }: RunLine): void {
  const { terminal } = session;
  const where = `${visible(run_id)} ${terminal.style('cyan', visible(namespace))}`;
  const style = level === 'error' ? 'red' : level === 'warn' ? 'yellow' : 'dim';
  terminal.print(
    `${terminal.style('dim', millisText(ts))} ${where} ${terminal.style(style, visible(level).padEnd(5))} ${indented(visibleLines(message))}`,
  );
}

/** `<ms>-<sequence>`: whether the first came later. */
function isLater(a: string, b: string): boolean {
  const [msA = 0, sequenceA = 0] = a.split('-').map(Number);
  const [msB = 0, sequenceB = 0] = b.split('-').map(Number);
  return msA === msB ? sequenceA > sequenceB : msA > msB;
}

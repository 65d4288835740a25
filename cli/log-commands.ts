import { setTimeout as pause } from 'node:timers/promises';
import type { Command } from 'commander';
import { type Api, type ApiObject, isObject, pathOf } from './api.ts';
import { type Given, integer, leaf, type Parts } from './command-kit.ts';
import { emitterPath, idOf, storedEvents } from './event-commands.ts';
import { followStream, isLater } from './follow-stream.ts';
import type { Session } from './session.ts';
import { millisText } from './show.ts';
import { visible, visibleLines } from './visible-text.ts';

const pollMs = 1000;
/** Runs read in one poll, which is more than end within a second. */
const runsAtOnce = 50;
/** Runs that are remembered as shown. */
const seenMax = 1000;

export interface LogLine {
  id: string;
  /** Epoch ms. */
  ts: number;
  level: string;
  message: string;
}

export function logCommand(program: Command, parts: Parts): void {
  leaf(
    program,
    'logs <emitter>',
    'what a source, or the steps of a workflow, printed, and their errors; oldest first',
    parts,
    logs,
  )
    .option('-n, --limit <number>', 'how many lines of a source, or runs of a workflow', integer(0, 100), 20)
    .option('-f, --follow', 'go on with what is printed from now on, until Ctrl-C');
}

async function logs(session: Session, options: Given, id = ''): Promise<void> {
  const api = await session.api();
  emitterPath(id);
  const limit = Number(options.limit);
  if (id.startsWith('p_'))
    return workflowLogs(session, api, id, { limit, isFollowed: options.follow === true });
  const stored = limit === 0 ? [] : (await api.list(pathOf`/v1/sources/${id}/logs`, limit)).reverse();
  if (options.follow !== true) {
    if (session.isJson) return session.terminal.printJson(stored);
    if (stored.length === 0) session.terminal.note('Nothing was printed yet.');
    for (const line of stored) printLine(session, line as unknown as LogLine);
    return;
  }
  const print = (line: ApiObject): void => {
    if (session.isJson) session.terminal.printJson(line, 0);
    else printLine(session, line as unknown as LogLine);
  };
  await followSourceLogs(session, api, id, {
    signal: session.interrupted,
    print,
    stored: async () =>
      limit === 0 ? [] : (await api.list(pathOf`/v1/sources/${id}/logs`, limit)).reverse(),
  });
}

export interface FollowedLogs {
  signal: AbortSignal;
  print: (line: ApiObject) => void;
  /** What is shown first. */
  stored: () => Promise<ApiObject[]>;
}

/** Lines of `$logs` and `$errors` as they come, until the signal; in the form that GET …/logs answers. */
export async function followSourceLogs(
  session: Session,
  api: Api,
  id: string,
  { signal, print, stored }: FollowedLogs,
): Promise<void> {
  const lastOf = new Map<string, string>();
  const bothOpen = Promise.withResolvers<void>();
  let open = 0;
  const follow = async (eventName: string): Promise<void> => {
    const stream = followStream(api, {
      path: pathOf`/v1/sources/${id}/sse`,
      eventName,
      signal,
      note: (text) => session.terminal.note(text),
      onOpen: async () => {
        const mark = idOf((await storedEvents(api, pathOf`/v1/sources/${id}`, 1, eventName)).at(-1));
        if (mark !== undefined) lastOf.set(eventName, mark);
        open += 1;
        if (open === 2) {
          for (const line of await stored()) {
            print(line);
            const channel = isErrorLine(line) ? '$errors' : '$logs';
            if (isLater(line.id, lastOf.get(channel) ?? '')) lastOf.set(channel, String(line.id));
          }
          bothOpen.resolve();
        }
        await bothOpen.promise;
        return lastOf.get(eventName);
      },
    });
    for await (const event of stream) {
      const last = lastOf.get(eventName);
      if (last === undefined || isLater(event.id, last)) print(lineOf(event, eventName));
    }
  };
  // One that fails lets the other go too.
  const failed = (error: unknown): never => {
    bothOpen.resolve();
    throw error;
  };
  await Promise.all([follow('$logs').catch(failed), follow('$errors').catch(failed)]);
}

export function printLine(session: Session, line: LogLine): void {
  const { ts, level, message } = line;
  const { error } = line as { error?: { stack?: unknown } };
  const style = level === 'error' ? 'red' : level === 'warn' ? 'yellow' : 'dim';
  const text = typeof error?.stack === 'string' ? error.stack : message;
  session.terminal.print(
    `${session.terminal.style('dim', millisText(ts))} ${session.terminal.style(style, visible(level).padEnd(5))} ${indented(visibleLines(text))}`,
  );
}

function indented(text: string): string {
  return text.replaceAll('\n', '\n    ');
}

/** An event of `$logs` or `$errors` as a line. Components may emit there themselves: what is neither is shown as it is. */
function lineOf(event: ApiObject, channel: string): ApiObject {
  const base = { id: event.id, ts: event.indexed_at_ms };
  const value = event.event;
  if (channel === '$errors') {
    if (isObject(value) && isObject(value.error))
      return {
        ...base,
        level: 'error',
        message: `${String(value.error.name)}: ${String(value.error.message)}`,
        error: value.error,
      };
    return { ...base, level: 'error', message: JSON.stringify(value) };
  }
  if (isObject(value) && typeof value.message === 'string')
    return { ...base, ts: value.ts ?? base.ts, level: String(value.level ?? 'log'), message: value.message };
  return { ...base, level: 'log', message: typeof value === 'string' ? value : JSON.stringify(value) };
}

function isErrorLine(line: ApiObject): boolean {
  return 'error' in line;
}

/** Steps print into the records of their runs, which are read when the runs have ended. */
async function workflowLogs(
  session: Session,
  api: Api,
  id: string,
  { limit, isFollowed }: { limit: number; isFollowed: boolean },
): Promise<void> {
  const collected: ApiObject[] = [];
  const seen = new Set<string>();
  let wanted = limit;
  for (let round = 0; round === 0 || (isFollowed && !session.interrupted.aborted); round += 1) {
    if (round > 0) await pause(pollMs, undefined, { signal: session.interrupted }).catch(() => undefined);
    if (session.interrupted.aborted) return;
    const runs = await api.list(
      pathOf`/v1/workflows/${id}/runs`,
      round === 0 ? Math.max(wanted, 1) : runsAtOnce,
    );
    const ended = runs.filter((run) => run.ended_at !== null && !seen.has(String(run.id)));
    if (round > 0 && runs.length === runsAtOnce && ended.length === runsAtOnce)
      session.terminal.note('More runs ended than can be shown; some are left out.');
    for (const run of ended) seen.add(String(run.id));
    for (const run of ended.slice(0, round === 0 ? wanted : runsAtOnce).reverse()) {
      for (const line of linesOfRun(await api.data('GET', pathOf`/v1/runs/${String(run.id)}`))) {
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
}

function linesOfRun(run: ApiObject): ApiObject[] {
  const steps = (Array.isArray(run.steps) ? run.steps : []).filter(isObject);
  return steps.flatMap((step) => [
    ...(Array.isArray(step.logs) ? step.logs : [])
      .filter(isObject)
      .map((line): ApiObject => ({ run_id: run.id, namespace: step.namespace, ...line })),
    ...(isObject(step.error)
      ? [
          {
            run_id: run.id,
            namespace: step.namespace,
            ts: Date.parse(String(step.ended_at)),
            level: 'error',
            message: String(step.error.stack ?? step.error.msg ?? step.error.message),
          },
        ]
      : []),
  ]);
}

function printRunLine(session: Session, line: ApiObject): void {
  const { terminal } = session;
  const where = `${visible(String(line.run_id))} ${terminal.style('cyan', visible(String(line.namespace)))}`;
  const level = String(line.level);
  const style = level === 'error' ? 'red' : level === 'warn' ? 'yellow' : 'dim';
  terminal.print(
    `${terminal.style('dim', millisText(line.ts))} ${where} ${terminal.style(style, visible(level).padEnd(5))} ${indented(visibleLines(String(line.message)))}`,
  );
}

import { setTimeout as pause } from 'node:timers/promises';
import type { Command } from 'commander';
import type { Replay, Run, RunDetail, RunStep, RunsAnswer } from '#sdk';
import { durationText } from './amounts.ts';
import { type Api, pathOf } from './api.ts';
import {
  addLimit,
  type CommandOptions,
  type GetSessionOptions,
  group,
  integer,
  leaf,
  limitOf,
  textOption,
} from './command-kit.ts';
import { CliError, usageError } from './exit-codes.ts';
import { idOfNamed } from './find-by-name.ts';
import { readJsonArgument } from './prop-values.ts';
import type { Session } from './session.ts';
import { column, idColumn, showDone, showList, showOne, timeColumn } from './show.ts';
import { showQueue } from './show-queue.ts';

const pollMs = 500;

export function runCommands(program: Command, sessionOptions: GetSessionOptions): void {
  const runs = group(program, 'runs', 'what workflows did');
  addLimit(
    leaf(runs, 'list <workflow>', 'runs of a workflow, newest first', sessionOptions, list),
    20,
  ).option('--state <state>', 'only in this state');
  leaf(runs, 'queue <workflow>', 'what waits under flow control, by key, and why', sessionOptions, queue);
  leaf(
    runs,
    'describe <run>',
    'one run: what each step got, returned, logged, and how long it took',
    sessionOptions,
    describe,
  );
  leaf(
    runs,
    'cancel <run>',
    'end a run that is queued, running or waiting',
    sessionOptions,
    act('cancel', 'Cancelled'),
  );
  leaf(
    runs,
    'replay <run>',
    'run the current deployment again with the event of a run, or with another one',
    sessionOptions,
    replayRun,
  ).option(
    '-e, --event <json>',
    'steps.trigger.event of the new run, @FILE to read it, @- for standard input; else that of this run',
  );
  leaf(
    runs,
    'restart <run>',
    'run an ended run again from a step on; the steps before it keep what they exported',
    sessionOptions,
    restart,
  )
    .option('--from-step <name>', 'the step; else the one that failed')
    .option(
      '-e, --event <json>',
      'steps.trigger.event of the new run, @FILE to read it, @- for standard input; else that of this run',
    )
    .option(
      '--exports <json>',
      'exports by step, {"a": {"$return_value": 1}} or @FILE, of steps that do not run again; else those of this run',
    );
  for (const [operation, summary] of Object.entries(bulkSummaries))
    leaf(runs, `${operation}-all <workflow>`, summary, sessionOptions, bulk(operation as BulkOperation))
      .option('--state <state>', 'only runs in this state')
      .option('--since <time>', 'only runs made then or later: epoch seconds or ISO 8601')
      .option('--until <time>', 'only runs made before: epoch seconds or ISO 8601');
}

const bulkSummaries = {
  cancel: 'end all runs of a workflow that are queued, running or waiting',
  replay: 'run the current deployment again with the event of each failed run',
  restart: 'restart each failed run from the step at which it ended',
} as const;
type BulkOperation = keyof typeof bulkSummaries;
const bulkDone: Readonly<Record<BulkOperation, string>> = {
  cancel: 'cancelled',
  replay: 'replayed',
  restart: 'restarted',
};

/** Repeats the request while runs remain. */
function bulk(operation: BulkOperation) {
  return async (session: Session, options: CommandOptions, workflow = ''): Promise<void> => {
    const api = await session.api();
    const sum = { done: 0, failed: 0, failures: [] as RunsAnswer['failures'], remaining: 0 };
    let after: string | undefined;
    let until = textOption(options, 'until');
    for (;;) {
      const body = {
        state: textOption(options, 'state'),
        since: textOption(options, 'since'),
        until,
        after,
      };
      const answer = await api.data<RunsAnswer>('POST', pathOf`/v1/workflows/${workflow}/runs/${operation}`, {
        body,
      });
      sum.done += answer.done;
      sum.failed += answer.failed;
      sum.failures.push(...answer.failures);
      sum.remaining = answer.remaining;
      if (answer.last === null || answer.remaining === 0) break;
      after = answer.last;
      until = answer.until;
      session.terminal.status(`${sum.done} ${bulkDone[operation]}, ${answer.remaining} remain`);
    }
    session.terminal.endStatus();
    for (const { run_id, message } of sum.failures) session.terminal.note(`${run_id}: ${message}`);
    const rest = sum.remaining === 0 ? '' : ` ${sum.remaining} remain: too many runs wait; try again later.`;
    showDone(session, `${sum.done} ${bulkDone[operation]}, ${sum.failed} not possible.${rest}`, sum);
    if (sum.failed > 0)
      throw new CliError('failed', `${sum.failed} runs could not be ${bulkDone[operation]}`);
  };
}

export function replayCommand(program: Command, sessionOptions: GetSessionOptions): void {
  leaf(
    program,
    'replay <what>',
    'a run again with its event; a delivery once more; or stored events of a source or workflow to a listener',
    sessionOptions,
    replay,
  )
    .option(
      '--to <listener>',
      'for a source or workflow: the webhook, workflow or source that gets the events',
    )
    .option('--start <event>', 'for a source or workflow: from this event on')
    .option('--end <event>', 'for a source or workflow: up to this event')
    .option('--event-name <name>', 'for a source or workflow: the channel')
    .option('--rate <number>', 'for a source or workflow: events per second at most', integer(1, 1_000_000))
    .option('--no-wait', 'for a source or workflow: do not wait for the end');
}

async function list(session: Session, options: CommandOptions, workflow = ''): Promise<void> {
  showList<Run>(
    session,
    await (await session.api()).list(pathOf`/v1/workflows/${workflow}/runs`, limitOf(options), {
      state: textOption(options, 'state'),
    }),
    [
      idColumn(),
      column('STATE', stateText),
      column('BY', startedBy),
      timeColumn('STARTED (UTC)', 'started_at'),
      column('TOOK', durationOf),
      column('REASON', ({ error, reason, wait_reason: wait }) => error?.msg ?? wait ?? reason),
    ],
    'No runs yet. `millrace invoke WORKFLOW` starts one, where it has an HTTP trigger.',
  );
}

/** What is sent is sent after the end of a run, which says nothing of it. */
function stateText({ state, failed_sends: failed }: Run): string {
  return failed === 0 ? state : `${state}, ${failed} ${failed === 1 ? 'send' : 'sends'} failed`;
}

/** The trigger whose event it has; and how the run was made when not by that trigger. */
function startedBy({ source_type: type, replay_of: first, emitter_id: emitter }: Run): string {
  if (first !== null) return `${type}, again`;
  return emitter === null ? `${type}, test event` : type;
}

async function queue(session: Session, _options: CommandOptions, workflow = ''): Promise<void> {
  await showQueue(session, pathOf`/v1/workflows/${workflow}/queue`);
}

async function describe(session: Session, _options: CommandOptions, id = ''): Promise<void> {
  const run = await (await session.api()).data<RunDetail>('GET', pathOf`/v1/runs/${id}`);
  if (session.isJson) return session.terminal.printJson(run);
  const { steps, sends, waits, ...fields } = run;
  await showOne(session, fields);
  if (waits.length > 0) {
    session.terminal.print('');
    const place = ({ namespace, iteration }: RunDetail['waits'][number]) =>
      iteration === '' ? namespace : `${namespace} [${iteration}]`;
    showList<RunDetail['waits'][number]>(
      session,
      waits,
      [
        column('WAITS', place),
        column('FOR', 'kind'),
        timeColumn('UNTIL (UTC)', 'until'),
        column('RESUME', 'resume_url'),
      ],
      '',
    );
  }
  for (const step of steps) {
    session.terminal.print('');
    const { namespace, state, id: stepId, input, exports, logs, error } = step;
    const took = durationOf(step);
    session.terminal.printFields([
      ['step', namespace],
      ['id', stepId],
      ...(step.iteration === '' ? [] : [['iteration', step.iteration] as const]),
      ...(step.attempt === '' ? [] : [['attempt', step.attempt] as const]),
      ['state', state],
      ['try', step.try],
      ['took', took],
      ['input', input],
      ['exports', exports],
      ...(logs.length > 0 ? [['logs', logs.map(lineOf).join('\n')] as const] : []),
      ...(error === null ? [] : [['error', error.stack] as const]),
    ]);
  }
  if (sends.length > 0) {
    session.terminal.print('');
    showList(
      session,
      sends,
      [column('SENDS', 'kind'), column('STATE', 'state'), column('RESULT', 'result')],
      '',
    );
  }
}

function act(operation: 'cancel' | 'restart', done: string) {
  return async (session: Session, _options: CommandOptions, id = ''): Promise<void> => {
    const run = await (await session.api()).data<Run>('POST', pathOf`/v1/runs/${id}/${operation}`, {
      body: {},
    });
    showDone(session, `${done} ${id}; it is ${run.state}.`, run);
  };
}

async function restart(session: Session, options: CommandOptions, id = ''): Promise<void> {
  const body = {
    from_step: textOption(options, 'fromStep'),
    event: await jsonOption(session, options, 'event'),
    steps: await jsonOption(session, options, 'exports'),
  };
  const run = await (await session.api()).data<Run>('POST', pathOf`/v1/runs/${id}/restart`, { body });
  if (session.isJson) return session.terminal.printJson(run);
  session.terminal.print(run.id);
}

async function replayRun(session: Session, options: CommandOptions, id = ''): Promise<void> {
  const body = { event: await jsonOption(session, options, 'event') };
  const run = await (await session.api()).data<Run>('POST', pathOf`/v1/runs/${id}/replay`, { body });
  if (session.isJson) return session.terminal.printJson(run);
  session.terminal.print(run.id);
}

async function jsonOption(session: Session, options: CommandOptions, name: string): Promise<unknown> {
  const text = textOption(options, name);
  return text === undefined ? undefined : readJsonArgument(session, text, `--${name}`);
}

async function replay(session: Session, options: CommandOptions, what = ''): Promise<void> {
  const api = await session.api();
  const id = await idOfNamed(session, api, what, ['source', 'workflow']);
  if (!/^(?:dc|p)_/.test(id)) {
    if (textOption(options, 'to') !== undefined)
      throw usageError('--to is for sources (dc_…) and workflows (p_…)');
    if (!id.startsWith('dlv_')) return replayRun(session, options, id);
    const delivery = await api.data('POST', pathOf`/v1/deliveries/${id}/redeliver`, { body: {} });
    return showDone(session, `${id} will be sent again.`, delivery);
  }
  const listener = textOption(options, 'to');
  if (listener === undefined)
    throw usageError(
      'a replay of stored events needs --to, who gets them',
      'A webhook (wh_…), workflow (p_…) or source (dc_…).',
    );
  const body = {
    listener_id: listener,
    start_id: textOption(options, 'start'),
    end_id: textOption(options, 'end'),
    event_name: textOption(options, 'eventName'),
    rate: options.rate,
  };
  const path = id.startsWith('dc_') ? pathOf`/v1/sources/${id}/replay` : pathOf`/v1/workflows/${id}/replay`;
  const begun = await api.data<Replay>('POST', path, { body });
  const ended = options.wait === false ? begun : await untilOver(session, api, begun);
  showDone(
    session,
    `Replay ${ended.id}: ${ended.state}, ${ended.sent} of ${ended.total} sent, ${ended.failed} failed.`,
    ended,
  );
  if (ended.failed > 0)
    throw new CliError('failed', `${ended.failed} events did not arrive`, {
      hint: `millrace deliveries list ${listener}`,
    });
}

/** Ctrl-C does not cancel the replay, which continues in the service. */
async function untilOver(session: Session, api: Api, begun: Replay): Promise<Replay> {
  let replay = begun;
  while (['queueing', 'sending'].includes(replay.state)) {
    const { total } = replay;
    const sent = replay.sent + replay.failed;
    session.terminal.status(`${bar(sent, total)} ${sent} of ${total} sent`);
    await pause(pollMs, undefined, { signal: session.interrupted }).catch(() => {
      throw new CliError('interrupted', `interrupted; the replay ${begun.id} continues`);
    });
    replay = await api.data<Replay>('GET', pathOf`/v1/replays/${begun.id}`);
  }
  session.terminal.endStatus();
  return replay;
}

function bar(done: number, total: number): string {
  const width = 20;
  const filled = total === 0 ? 0 : Math.round((done / total) * width);
  return `[${'#'.repeat(filled)}${'.'.repeat(width - filled)}]`;
}

function durationOf({ started_at, ended_at }: Pick<Run, 'started_at' | 'ended_at'>): string {
  const [start, end] = [Date.parse(String(started_at)), Date.parse(String(ended_at))];
  if (Number.isNaN(start) || Number.isNaN(end)) return '-';
  return end === start ? '< 1 ms' : durationText(end - start);
}

function lineOf({ level, message }: RunStep['logs'][number]): string {
  return `${level}: ${message}`;
}

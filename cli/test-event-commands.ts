import type { Command } from 'commander';
import type { TestEvent, TestEventSummary } from '#sdk';
import { bytesText } from './amounts.ts';
import { pathOf } from './api.ts';
import {
  addLimit,
  type CommandOptions,
  type GetSessionOptions,
  group,
  leaf,
  limitOf,
  textOption,
} from './command-kit.ts';
import { usageError } from './exit-codes.ts';
import { readTextFile } from './prop-values.ts';
import type { Session } from './session.ts';
import { column, showDone, showList, timeColumn } from './show.ts';

/** `millrace test-events`: events that are kept with a workflow to try it. */
export function testEventCommands(program: Command, sessionOptions: GetSessionOptions): void {
  const events = group(program, 'test-events', 'events that are kept with a workflow, to test and to run it');
  addLimit(leaf(events, 'list <workflow>', 'the test events of a workflow', sessionOptions, list), 100);
  leaf(events, 'get <workflow> <name>', 'the event itself, as JSON', sessionOptions, get);
  leaf(events, 'put <workflow> <name>', 'keep an event, or the event of a run', sessionOptions, put)
    .option('-e, --event <json>', 'the event, or @file with it')
    .option('--run <run>', 'the run whose event is copied');
  leaf(events, 'run <workflow> <name>', 'run the current deployment with a test event', sessionOptions, run);
  leaf(events, 'delete <workflow> <name>', 'remove a test event', sessionOptions, remove);
}

async function list(session: Session, options: CommandOptions, workflow = ''): Promise<void> {
  const api = await session.api();
  showList<TestEventSummary>(
    session,
    await api.list(pathOf`/v1/workflows/${workflow}/test_events`, limitOf(options)),
    [
      column('NAME', 'name'),
      column('AS BY', 'source_type'),
      timeColumn('PUT (UTC)', 'created_at'),
      column('SIZE', ({ bytes }) => bytesText(bytes)),
    ],
    'No test events yet. `millrace test-events put WORKFLOW NAME --run RUN` keeps the event of a run.',
  );
}

/** The event alone, so that it can be kept in a file, changed and put again; `--json` has what is known of it too. */
async function get(session: Session, _options: CommandOptions, workflow = '', name = ''): Promise<void> {
  const api = await session.api();
  const found = await api.data<TestEvent>('GET', pathOf`/v1/workflows/${workflow}/test_events/${name}`);
  session.terminal.printJson(session.isJson ? found : found.event);
}

async function put(session: Session, options: CommandOptions, workflow = '', name = ''): Promise<void> {
  const text = textOption(options, 'event');
  const runId = textOption(options, 'run');
  if ((text === undefined) === (runId === undefined)) throw usageError('give one of --event and --run');
  const body = text === undefined ? { run_id: runId } : { event: await eventOf(session, text) };
  const api = await session.api();
  const kept = await api.data<TestEvent>('PUT', pathOf`/v1/workflows/${workflow}/test_events/${name}`, {
    body,
  });
  showDone(session, `Kept ${kept.name}.`, kept);
}

async function eventOf(session: Session, text: string): Promise<unknown> {
  const json = text.startsWith('@') ? await readTextFile(session, text.slice(1), '--event') : text;
  try {
    return JSON.parse(json) as unknown;
  } catch (error) {
    throw usageError(`--event: not JSON: ${(error as Error).message}`);
  }
}

async function run(session: Session, _options: CommandOptions, workflow = '', name = ''): Promise<void> {
  const api = await session.api();
  const path = pathOf`/v1/workflows/${workflow}/test_events/${name}/run`;
  const { run_id } = await api.data<{ run_id: string }>('POST', path, { body: {} });
  if (session.isJson) return session.terminal.printJson({ run_id });
  session.terminal.print(run_id);
}

async function remove(session: Session, _options: CommandOptions, workflow = '', name = ''): Promise<void> {
  const api = await session.api();
  await api.call('DELETE', pathOf`/v1/workflows/${workflow}/test_events/${name}`);
  showDone(session, `Deleted ${name}.`);
}

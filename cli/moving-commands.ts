import type { Command } from 'commander';
import type { Run, RunDetail, TestEvent, TestEventSummary, Workflow } from '#sdk';
import { type Api, isObject, pathOf } from './api.ts';
import {
  type CommandOptions,
  collect,
  type GetSessionOptions,
  integer,
  leaf,
  limitOf,
  textOption,
} from './command-kit.ts';
import { differencesOf } from './compare-answers.ts';
import { type EndpointAnswer, type RecordedRequest, readRecorded, sendRecorded } from './endpoint-request.ts';
import { CliError, usageError } from './exit-codes.ts';
import { type ForwardTarget, forwarderCode } from './forwarder-code.ts';
import { readTextFile } from './prop-values.ts';
import type { Session } from './session.ts';
import { column, showDone, showList } from './show.ts';
import { visible } from './visible-text.ts';

/** Requests that one comparison sends, twice. */
const requestsMax = 1000;
const targetsMax = 1000;
const headersDefault = ['content-type'];

/** `millrace forward` and `compare`: while the senders of an old platform are moved. */
export function movingCommands(program: Command, sessionOptions: GetSessionOptions): void {
  leaf(
    program,
    'forward [workflow]',
    'print a code step that forwards requests of an old endpoint to the endpoint of a workflow',
    sessionOptions,
    forward,
  )
    .option('--trigger <id>', 'of several HTTP triggers the one that gets the requests (hi_…)')
    .option(
      '--table <file>',
      'instead of a workflow: lines with an old and a new endpoint URL, - for standard input',
    )
    .option('--timeout <seconds>', 'how long the new endpoint may take', integer(1, 300), 25);
  leaf(
    program,
    'compare',
    'send the same requests to two endpoints and compare the answers; ends with 1 when they differ',
    sessionOptions,
    compare,
  )
    .requiredOption('--from <url>', 'the old endpoint')
    .requiredOption('--to <url>', 'the new endpoint')
    .option(
      '--requests <file>',
      'requests as a JSON array, or one in each line: { method, path, query, headers, body }; - for standard input',
    )
    .option('--of <workflow>', 'the test events of this workflow, and the events of its last runs')
    .option('--header <name>', 'a header that has to be the same; default content-type', collect)
    .option(
      '--ignore <field>',
      'a field of JSON that may differ: a path such as data.id, or a name at any place',
      collect,
    )
    .option('--timeout <seconds>', 'how long each endpoint may take', integer(1, 300), 30)
    .option('-n, --limit <number>', 'how many requests at most', integer(1, requestsMax), 100);
}

async function forward(session: Session, options: CommandOptions, id = ''): Promise<void> {
  const table = textOption(options, 'table');
  if ((table === undefined) === (id === ''))
    throw usageError('give either a workflow or --table', '`millrace workflows list` shows the workflows.');
  const targets =
    table === undefined
      ? [await targetOf(await session.api(), id, textOption(options, 'trigger'))]
      : readTable(await readTextFile(session, table, '--table'), table);
  const code = forwarderCode(targets, { timeoutSeconds: Number(options.timeout) });
  if (session.isJson) session.terminal.printJson({ code, targets });
  else session.terminal.print(code.trimEnd());
}

async function targetOf(api: Api, id: string, trigger: string | undefined): Promise<ForwardTarget> {
  const workflow = await api.data<Workflow>('GET', pathOf`/v1/workflows/${id}`);
  const found = workflow.triggers.flatMap((one) =>
    one.type === 'http' && (trigger === undefined || one.id === trigger) ? [one] : [],
  );
  const [first] = found;
  if (first === undefined)
    throw new CliError(
      'failed',
      `${id} has no ${trigger === undefined ? 'HTTP trigger' : `HTTP trigger ${trigger}`}`,
    );
  if (found.length > 1)
    throw usageError(
      `${id} has ${found.length} HTTP triggers`,
      `Give --trigger: ${found.map((one) => `${one.id} (${one.endpoint_url})`).join(', ')}.`,
    );
  return { from: '*', to: first.endpoint_url };
}

/** An old and a new URL in each line, with spaces, a tab, a comma or an arrow between them. */
function readTable(text: string, file: string): ForwardTarget[] {
  const lines = text
    .split('\n')
    .map((line, index) => ({ line: line.trim(), number: index + 1 }))
    .filter(({ line }) => line !== '' && !line.startsWith('#'));
  if (lines.length === 0 || lines.length > targetsMax)
    throw usageError(`${file}: expected 1 to ${targetsMax} lines with an old and a new endpoint URL`);
  return lines.map(({ line, number }) => {
    const [from = '', to = ''] = line.split(/\s*(?:,|->|\u2192)\s*|\s+/);
    if (from === '' || !isHttpUrl(to))
      throw usageError(`${file}, line ${number}: expected an old and a new endpoint URL`);
    return { from, to };
  });
}

function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}

interface Comparison {
  request: string;
  from: number | null;
  to: number | null;
  differences: string[];
}

async function compare(session: Session, options: CommandOptions): Promise<void> {
  const [from = '', to = ''] = [textOption(options, 'from'), textOption(options, 'to')];
  for (const [name, url] of [
    ['--from', from],
    ['--to', to],
  ])
    if (!isHttpUrl(url ?? '')) throw usageError(`${name} ${url}: expected an http or https URL`);
  const requests = await requestsOf(session, options);
  if (requests.length === 0)
    throw usageError(
      'there are no requests to send',
      'Put some into the file of --requests, or run the workflow of --of once.',
    );
  const rules = {
    headers: (options.header as string[] | undefined) ?? headersDefault,
    ignored: (options.ignore as string[] | undefined) ?? [],
  };
  const limits = { timeoutMs: Number(options.timeout) * 1000, signal: session.interrupted };
  const results: Comparison[] = [];
  for (const [index, request] of requests.entries()) {
    session.terminal.status(`${index + 1} of ${requests.length} …`);
    const [before, after] = [await attempt(from, request, limits), await attempt(to, request, limits)];
    const failures = [
      ...('failed' in before ? [`--from: ${before.failed}`] : []),
      ...('failed' in after ? [`--to: ${after.failed}`] : []),
    ];
    results.push({
      request: `${request.method} ${request.path}`,
      from: 'failed' in before ? null : before.status,
      to: 'failed' in after ? null : after.status,
      differences: 'failed' in before || 'failed' in after ? failures : differencesOf(before, after, rules),
    });
  }
  session.terminal.endStatus();
  showList<Comparison>(
    session,
    results,
    [
      column('REQUEST', 'request'),
      column('FROM', 'from'),
      column('TO', 'to'),
      column('DIFFERENCES', ({ differences }) =>
        differences.length === 0 ? 'none' : visible(differences.join('; ')),
      ),
    ],
    '',
  );
  const differing = results.filter(({ differences }) => differences.length > 0).length;
  if (differing > 0) throw new CliError('failed', `${differing} of ${results.length} answers differ`);
  if (!session.isJson) showDone(session, `${results.length} of ${results.length} answers are the same.`);
}

async function attempt(
  base: string,
  request: RecordedRequest,
  limits: { timeoutMs: number; signal: AbortSignal },
): Promise<EndpointAnswer | { failed: string }> {
  try {
    return await sendRecorded(base, request, limits);
  } catch (error) {
    if (limits.signal.aborted) throw new CliError('interrupted', 'interrupted');
    const { name, message, cause } = error as Error & { cause?: { code?: string; message?: string } };
    return {
      failed: name === 'TimeoutError' ? 'no answer in time' : (cause?.code ?? cause?.message ?? message),
    };
  }
}

async function requestsOf(session: Session, options: CommandOptions): Promise<RecordedRequest[]> {
  const [file, workflow] = [textOption(options, 'requests'), textOption(options, 'of')];
  if ((file === undefined) === (workflow === undefined))
    throw usageError('give either --requests or --of', '`millrace compare --help` says what each takes.');
  const limit = limitOf(options);
  if (file !== undefined) {
    const events = readRequests(await readTextFile(session, file, '--requests'), file);
    return events.slice(0, limit).map((event, index) => readRecorded(event, `${file}: request ${index + 1}`));
  }
  const api = await session.api();
  const id = workflow ?? '';
  const events: unknown[] = [];
  for (const { name } of await api.list<TestEventSummary>(pathOf`/v1/workflows/${id}/test_events`, limit))
    events.push((await api.data<TestEvent>('GET', pathOf`/v1/workflows/${id}/test_events/${name}`)).event);
  const left = limit - events.length;
  const runs = left <= 0 ? [] : await api.list<Run>(pathOf`/v1/workflows/${id}/runs`, left);
  for (const run of runs) events.push((await api.data<RunDetail>('GET', pathOf`/v1/runs/${run.id}`)).event);
  return events
    .filter((event) => isObject(event) && typeof event.method === 'string')
    .map((event) => readRecorded(event, id));
}

function readRequests(text: string, file: string): unknown[] {
  try {
    const whole: unknown = JSON.parse(text);
    return Array.isArray(whole) ? whole : [whole];
  } catch {
    // One in each line.
  }
  return text.split('\n').flatMap((line, index) => {
    if (line.trim() === '') return [];
    try {
      return [JSON.parse(line) as unknown];
    } catch (error) {
      throw usageError(`${file}, line ${index + 1}: not JSON: ${visible((error as Error).message)}`);
    }
  });
}

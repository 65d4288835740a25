import type { Command } from 'commander';
import type { Component, RunActionAnswer, Source, Workflow } from '#sdk';
import { type Api, isObject, pathOf, unreachable } from './api.ts';
import {
  addProps,
  type CommandOptions,
  collect,
  type GetSessionOptions,
  integer,
  leaf,
  textOption,
} from './command-kit.ts';
import { knowComponent, readReference } from './component-reference.ts';
import { CliError, usageError } from './exit-codes.ts';
import { fillProps } from './fill-props.ts';
import { findByName, isId } from './find-by-name.ts';
import { endpointOf, givenProps } from './make-source.ts';
import { readTextFile } from './prop-values.ts';
import type { Session } from './session.ts';
import { visible, visibleLines } from './visible-text.ts';

/** As long as a workflow may take to respond. */
const endpointPatienceMs = 300_000;

export function invokeCommand(program: Command, sessionOptions: GetSessionOptions): void {
  addProps(
    leaf(
      program,
      'invoke <what>',
      'send a request to the endpoint of a source or workflow, or run an action once: by name, key, id, file or URL',
      sessionOptions,
      invoke,
    ),
  )
    .option(
      '-d, --data <text>',
      'for an endpoint: body of the request, @FILE to read it, @- for standard input',
    )
    .option('-X, --method <method>', 'for an endpoint: method; POST with a body, else GET')
    .option('-H, --header <name: value>', 'for an endpoint: a header; may be given several times', collect)
    .option('--path <path>', 'for an endpoint: the path below its URL, such as /a/b?c=d')
    .option('--timeout <seconds>', 'for an action: how long it may run', integer(1, 750));
}

async function invoke(session: Session, options: CommandOptions, what = ''): Promise<void> {
  const api = await session.api();
  const id = await emitterOrComponent(session, api, what);
  if (id.startsWith('dc_')) {
    const source = await api.data<Source>('GET', pathOf`/v1/sources/${id}`);
    return request(session, options, id, endpointOf(source));
  }
  if (id.startsWith('p_')) {
    const workflow = await api.data<Workflow>('GET', pathOf`/v1/workflows/${id}`);
    return request(session, options, id, triggerAddress(workflow));
  }
  return runAction(session, api, options, what);
}

/** The key of an action takes precedence over a source or workflow of that name: keys are the same for all users. */
async function emitterOrComponent(session: Session, api: Api, what: string): Promise<string> {
  if (isId(what) || readReference(session.folder, what).kind !== 'key') return what;
  try {
    const { type } = await api.data<Component>('GET', pathOf`/v1/components/${what}`);
    if (type === 'action') return what;
  } catch (error) {
    if (!(error instanceof CliError) || error.reason !== 'notFound') throw error;
  }
  return (await findByName(session, api, what, ['source', 'workflow'])) ?? what;
}

function triggerAddress({ triggers }: Workflow): string | undefined {
  for (const trigger of triggers) {
    if (trigger.type === 'http') return trigger.endpoint_url;
    const address = trigger.type === 'source' ? endpointOf(trigger) : undefined;
    if (address !== undefined) return address;
  }
  return undefined;
}

/** The answer's body as it is; its status to standard error. The API key stays here: an endpoint is user code. */
async function request(
  session: Session,
  options: CommandOptions,
  id: string,
  endpoint: string | undefined,
): Promise<void> {
  if (endpoint === undefined) {
    throw new CliError('failed', `${id} has no endpoint that takes requests`, {
      hint: 'Only HTTP triggers and sources with a prop $.interface.http have one; timers run by themselves.',
    });
  }
  const body = await bodyOf(session, textOption(options, 'data'));
  const method = (textOption(options, 'method') ?? (body === undefined ? 'GET' : 'POST')).toUpperCase();
  const headers = new Headers();
  for (const header of Array.isArray(options.header) ? (options.header as string[]) : []) {
    const [, name, value = ''] = /^([^:\s]+):\s*(.*)$/s.exec(header) ?? [];
    if (name === undefined) throw usageError(`--header ${header}: expected name: value`);
    headers.set(name, value);
  }
  if (body !== undefined && !headers.has('content-type')) headers.set('content-type', contentTypeOf(body));
  const extra = textOption(options, 'path') ?? '';
  const url = `${endpoint.replace(/\/$/, '')}${extra === '' || /^[/?]/.test(extra) ? extra : `/${extra}`}`;
  let response: Response;
  let bytes: Uint8Array;
  try {
    const signal = AbortSignal.any([session.interrupted, AbortSignal.timeout(endpointPatienceMs)]);
    response = await fetch(url, {
      method,
      headers,
      redirect: 'manual',
      signal,
      ...(body === undefined ? {} : { body }),
    });
    bytes = await response.bytes();
  } catch (error) {
    throw unreachable(new URL(url).origin, error, session.interrupted);
  }
  if (session.isJson) {
    const text = Buffer.from(bytes).toString();
    session.terminal.printJson({
      status: response.status,
      headers: Object.fromEntries(response.headers),
      body: text,
    });
  } else {
    session.terminal.note(`${response.status} ${visible(response.statusText)}`);
    if (session.terminal.isOutputTerminal)
      session.terminal.print(visibleLines(Buffer.from(bytes).toString()));
    else session.terminal.printBytes(bytes);
  }
  if (response.status >= 400) throw new CliError('failed', `${id} answered ${response.status}`);
}

async function bodyOf(session: Session, data: string | undefined): Promise<string | undefined> {
  return data?.startsWith('@') === true ? readTextFile(session, data.slice(1), '--data') : data;
}

/** Text that begins as JSON does is meant as JSON. */
function contentTypeOf(text: string): string {
  try {
    JSON.parse(text);
    return 'application/json';
  } catch (error) {
    if (!/^\s*[{[]/.test(text)) return 'text/plain; charset=utf-8';
    throw usageError(
      `--data: not JSON: ${visible((error as Error).message)}`,
      "Text that is not JSON is sent with -H 'content-type: text/plain'.",
    );
  }
}

async function runAction(session: Session, api: Api, options: CommandOptions, text: string): Promise<void> {
  const given = await givenProps(session, options);
  const component = await knowComponent(api, readReference(session.folder, text), session.owner);
  if (component.type !== 'action') {
    throw new CliError('failed', `${text} is a ${component.type}, and only actions run by themselves`, {
      hint: `\`millrace deploy ${text}\` makes a source of it; then invoke that.`,
    });
  }
  const values = await fillProps(session, api, component, { given, isSilent: options.yes === true });
  session.terminal.status(`Running ${component.name} …`);
  const result = await api.data<RunActionAnswer>('POST', '/v1/actions/run', {
    body: { ...session.owner, id: component.id, configured_props: values, timeout_seconds: options.timeout },
  });
  session.terminal.endStatus();
  if (session.isJson) session.terminal.printJson(result);
  else {
    for (const { k, msg = '', err } of result.os)
      session.terminal.note(`${k}: ${err === undefined ? msg : (err.stack ?? err.message)}`);
    const { $summary: summary } = result.exports;
    if (typeof summary === 'string') session.terminal.note(summary);
    for (const { kind, state, result: outcome } of result.sends) {
      const reason = isObject(outcome) && typeof outcome.error === 'string' ? `: ${outcome.error}` : '';
      session.terminal.note(`send ${kind}: ${state}${reason}`);
    }
    session.terminal.printJson(result.ret ?? null);
  }
  if (result.os.some(({ k }) => k === 'error')) throw new CliError('failed', `${text} failed`);
  const failed = result.sends.filter(({ state }) => state === 'failed').length;
  if (failed > 0) throw new CliError('failed', `${text} ran, but ${failed} of what it sends failed`);
}

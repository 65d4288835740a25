import { type FSWatcher, watch } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import type { Command } from 'commander';
import type { Source, SourceLog } from '#sdk';
import { Api, pathOf } from './api.ts';
import { addProps, type CommandOptions, type GetSessionOptions, leaf, textOption } from './command-kit.ts';
import { type LocalCode, readLocalCode, readReference } from './component-reference.ts';
import { eventLine, storedEvents } from './event-commands.ts';
import { CliError, usageError } from './exit-codes.ts';
import { followStream } from './follow-stream.ts';
import { followSourceLogs, printLine } from './log-commands.ts';
import { endpointOf, makeSource } from './make-source.ts';
import type { Session } from './session.ts';

/** Editors write a file in several steps. */
const settleMs = 150;
/** The source has to be gone before the process is. */
const cleanUpMs = 30_000;

export function devCommand(program: Command, sessionOptions: GetSessionOptions): void {
  addProps(
    leaf(
      program,
      'dev <file>',
      'deploy a file, and again whenever it is saved; shows what it emits and prints; Ctrl-C removes the source',
      sessionOptions,
      dev,
    ),
  )
    .option('--name <name>', 'name of the source')
    .option('--source <source>', 'work on this source, which stays when you leave')
    .option('--keep', 'leave the source as it is when you leave');
}

async function dev(session: Session, options: CommandOptions, text = ''): Promise<void> {
  const reference = readReference(session.folder, text);
  if (reference.kind !== 'file') throw usageError(`${text} is not a file`, 'A path such as ./my-source.js.');
  const api = await session.api();
  const existing = textOption(options, 'source');
  let local: LocalCode;
  let source: Source;
  if (existing === undefined) {
    const made = await makeSource(session, api, reference.file, options);
    source = made.source;
    local = made.local ?? (await readLocalCode(reference.file));
  } else {
    local = await readLocalCode(reference.file);
    source = await redeploy(api, existing, local);
  }
  const { id } = source;
  const isOurs = existing === undefined && options.keep !== true;
  const endpoint = endpointOf(source);
  session.terminal.note(`${id} is deployed${endpoint === undefined ? '' : `; requests go to ${endpoint}`}.`);
  session.terminal.note(
    `Watching ${local.files.map((file) => relative(session.folder, file)).join(', ')}. Ctrl-C ${isOurs ? 'removes the source' : 'leaves the source as it is'}.`,
  );
  const ended = new AbortController();
  const stop = AbortSignal.any([ended.signal, session.interrupted]);
  const watcher = new FileWatcher(local.files);
  try {
    await Promise.all([
      showEvents(session, api, id, stop),
      followSourceLogs(session, api, id, {
        signal: stop,
        stored: async () => [],
        print: (line) => {
          if (session.isJson) session.terminal.printJson({ log: line }, 0);
          else printLine(session, inFiles(line, local, session.folder));
        },
      }),
      redeployOnSave(session, api, {
        id,
        file: reference.file,
        watcher,
        stop,
        use: (now) => {
          local = now;
        },
        current: () => local,
      }),
    ]);
  } finally {
    ended.abort();
    watcher.close();
    if (isOurs) await cleanUp(session, api.url, id);
  }
}

async function showEvents(session: Session, api: Api, id: string, signal: AbortSignal): Promise<void> {
  const path = pathOf`/v1/sources/${id}`;
  const stream = followStream(api, {
    path,
    // The source is new, or what it emitted before was to be seen before.
    after: (await storedEvents(api, path, 1, undefined)).at(-1)?.id,
    signal,
    note: (text) => session.terminal.note(text),
  });
  for await (const event of stream) {
    if (session.isJson) session.terminal.printJson({ event }, 0);
    else session.terminal.print(eventLine(session, event));
  }
}

interface Redeploying {
  id: string;
  file: string;
  watcher: FileWatcher;
  stop: AbortSignal;
  current: () => LocalCode;
  use: (now: LocalCode) => void;
}

/** Reports a version that does not build or deploy. The previous version continues to run. */
async function redeployOnSave(
  session: Session,
  api: Api,
  { id, file, watcher, stop, current, use }: Redeploying,
): Promise<void> {
  for (;;) {
    if ((await watcher.changed(stop)) === 'stopped') return;
    try {
      const now = await readLocalCode(file);
      watcher.watch(now.files);
      if (now.hash === current().hash) continue;
      await redeploy(api, id, now);
      use(now);
      session.terminal.note(`${id} is deployed again.`);
    } catch (error) {
      if (stop.aborted) return;
      if (!(error instanceof CliError)) throw error;
      if (error.reason === 'notFound') throw error;
      session.terminal.problem(`not deployed, the previous version continues to run: ${error.message}`);
    }
  }
}

/** Props and activity stay as they are. */
async function redeploy(api: Api, id: string, { code }: LocalCode): Promise<Source> {
  return api.data<Source>('PUT', pathOf`/v1/sources/${id}`, { body: { component_code: code } });
}

/** It has a signal of its own: the user's has ended everything else. */
async function cleanUp(session: Session, url: string, id: string): Promise<void> {
  const { apiKey } = await session.connection();
  const api = new Api({ url, apiKey, signal: AbortSignal.timeout(cleanUpMs) });
  try {
    await api.call('DELETE', pathOf`/v1/sources/${id}`, { query: { ignore_hook_errors: true } });
    session.terminal.note(`Removed ${id}.`);
  } catch (error) {
    if (error instanceof CliError && error.reason === 'notFound') return;
    session.terminal.problem(
      `${id} is still there: ${(error as Error).message}\nRemove it: millrace sources delete ${id}`,
    );
  }
}

/** Lines of what was deployed as lines of the files it was made of. */
function inFiles(line: SourceLog, { map, folder }: LocalCode, from: string): SourceLog {
  const { error } = line;
  if (map === undefined || typeof error?.stack !== 'string') return line;
  const stack = error.stack.replace(
    /\bcomponent\.(?:js|ts):(\d+):(\d+)/g,
    (shown, row: string, columnNumber: string) => {
      const place = map.findEntry(Number(row) - 1, Number(columnNumber) - 1);
      if (!('originalSource' in place) || place.originalLine === undefined) return shown;
      return `${relative(from, resolve(folder, place.originalSource))}:${place.originalLine + 1}:${place.originalColumn + 1}`;
    },
  );
  return { ...line, error: { ...error, stack } };
}

/** Tells when one of some files was written; their folders are watched, since editors replace files. */
class FileWatcher {
  readonly #watchers = new Map<string, FSWatcher>();
  #files = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #isChanged = false;
  #wake: (() => void) | undefined;

  constructor(files: readonly string[]) {
    this.watch(files);
  }

  watch(files: readonly string[]): void {
    this.#files = new Set(files);
    const folders = new Set(files.map((file) => dirname(file)));
    for (const [folder, watcher] of this.#watchers) {
      if (folders.has(folder)) continue;
      watcher.close();
      this.#watchers.delete(folder);
    }
    for (const folder of folders) {
      if (this.#watchers.has(folder)) continue;
      const watcher = watch(folder, (_event, name) =>
        this.#seen(name === null ? undefined : resolve(folder, name)),
      );
      // The watcher of a removed folder fails; the next build reports what is missing.
      watcher.on('error', () => this.#seen(undefined));
      this.#watchers.set(folder, watcher);
    }
  }

  async changed(stop: AbortSignal): Promise<'changed' | 'stopped'> {
    if (stop.aborted) return 'stopped';
    if (!this.#isChanged) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        stop.addEventListener('abort', () => resolve(), { once: true });
      });
    }
    this.#isChanged = false;
    return stop.aborted ? 'stopped' : 'changed';
  }

  close(): void {
    clearTimeout(this.#timer);
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  #seen(file: string | undefined): void {
    if (file !== undefined && !this.#files.has(file)) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#isChanged = true;
      this.#wake?.();
    }, settleMs);
  }
}

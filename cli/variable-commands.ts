import type { Command } from 'commander';
import type { Variable } from '#sdk';
import { type Api, type Parameters, pathOf } from './api.ts';
import { type CommandOptions, type GetSessionOptions, group, leaf, textOption } from './command-kit.ts';
import { readEnvFile } from './env-file.ts';
import { CliError, usageError } from './exit-codes.ts';
import { readTextFile } from './prop-values.ts';
import type { Session } from './session.ts';
import { column, showDone, showList, timeColumn } from './show.ts';

/** Maximum of variables in one scope. */
export const variablesMax = 1000;
/** Maximum of variables in one request. */
const batchSize = 100;

export function variableCommands(program: Command, sessionOptions: GetSessionOptions): void {
  const variables = group(program, 'env', 'environment variables of workflows');
  const add = (signature: string, summary: string, run: RunCommand): Command =>
    leaf(variables, signature, summary, sessionOptions, run).option(
      '--project <project>',
      'those of this project, which win over those of its workspace',
    );
  add('list', 'your variables, or those of a workspace or project', list);
  add('set <name> [text]', 'set a variable: NAME value, NAME=value, or NAME to be asked', set)
    .option('--secret', 'the value is never shown again')
    .option('--plain', 'members may read the value')
    .option('--file <file>', 'read the value from a file, - for standard input')
    .option('--description <text>', 'what it is for');
  add('unset <name>', 'remove a variable', unset);
  add('import <file>', 'set the variables of a .env file; new ones are secret', importFile).option(
    '--plain',
    'members may read the values of new ones',
  );
}

type RunCommand = (session: Session, options: CommandOptions, ...operands: string[]) => Promise<void>;

function scopeOf(session: Session, options: CommandOptions): Parameters {
  return { ...session.owner, project_id: textOption(options, 'project') };
}

async function list(session: Session, options: CommandOptions): Promise<void> {
  showList<Variable>(
    session,
    await listAll(await session.api(), scopeOf(session, options)),
    [
      column('NAME', 'name', { isWhole: true }),
      column('VALUE', ({ secret, value }) => (secret ? '(secret)' : value)),
      column('DESCRIPTION', 'description'),
      timeColumn('CHANGED (UTC)', 'updated_at'),
    ],
    'No variables yet. `millrace env set NAME` makes one.',
  );
}

function listAll(api: Api, scope: Parameters): Promise<Variable[]> {
  return api.list<Variable>('/v1/variables', variablesMax, scope);
}

async function set(session: Session, options: CommandOptions, given = '', text = ''): Promise<void> {
  const [name = '', ...rest] = given.split('=');
  const argument = rest.length > 0 ? rest.join('=') : text === '' ? undefined : text;
  const { secret, plain } = options;
  if (secret === true && plain === true) throw usageError('--secret and --plain are opposites', 'Give one.');
  if (secret === true && argument !== undefined) throw secretArgument('a secret value');
  const description = textOption(options, 'description');
  const file = textOption(options, 'file');
  if (file !== undefined && argument !== undefined)
    throw usageError('there are two values', 'Give the value, or --file.');
  const api = await session.api();
  const scope = scopeOf(session, options);
  if (argument !== undefined && plain !== true) {
    const known = (await listAll(api, scope)).find((one) => one.name === name);
    if (known?.secret === true)
      throw secretArgument(`${name} is secret, and its value`, ' --plain makes it plain.');
  }
  const body = {
    ...scope,
    value: argument ?? (await readValue(session, { name, file, options })),
    secret: secret === true ? true : plain === true ? false : undefined,
    description,
  };
  const variable = await api.data<Variable>('PUT', pathOf`/v1/variables/${name}`, { body });
  showDone(session, `Set ${variable.name}. The next run of a workflow finds it.`, variable);
}

function secretArgument(what: string, more = ''): CliError {
  return usageError(
    `${what} was given as an argument, which the history of the shell and the list of processes show`,
    `Give --file FILE (- for standard input), or only the name to be asked for it.${more}`,
  );
}

/** Undefined: the value stays. */
async function readValue(
  session: Session,
  { name, file, options }: { name: string; file: string | undefined; options: CommandOptions },
): Promise<string | undefined> {
  // Editors and `echo` end a file with a line feed that is not part of the value.
  if (file !== undefined) return (await readTextFile(session, file, '--file')).replace(/\r?\n$/, '');
  if (options.description !== undefined || options.plain === true) return undefined;
  if (!session.questions.canAsk) {
    if (options.secret === true) return undefined;
    throw usageError(
      `there is no value for ${name}`,
      'Give NAME=value, or --file FILE (- for standard input).',
    );
  }
  return options.secret === true
    ? session.questions.secret(`Value of ${name}`)
    : session.questions.text(`Value of ${name}`);
}

async function unset(session: Session, options: CommandOptions, name = ''): Promise<void> {
  await (await session.api()).call('DELETE', pathOf`/v1/variables/${name}`, {
    query: scopeOf(session, options),
  });
  showDone(session, `Removed ${name}.`);
}

async function importFile(session: Session, options: CommandOptions, file = ''): Promise<void> {
  const scope = scopeOf(session, options);
  const { variables: given, remarks } = readEnvFile(await readTextFile(session, file, 'file'));
  if (given.length === 0) throw usageError(`${file} sets no variable`, 'Expected lines such as NAME=value.');
  const api = await session.api();
  const known = new Set((await listAll(api, scope)).map(({ name }) => name));
  const done: Variable[] = [];
  for (let at = 0; at < given.length; at += batchSize) {
    const batch = given.slice(at, at + batchSize);
    const variables = batch.map(({ name, value }) => ({
      name,
      value,
      ...(known.has(name) ? {} : { secret: options.plain !== true }),
    }));
    const data = await setInBatches(api, scope, variables).catch((error: unknown) =>
      throwWithLine(error, file, batch),
    );
    done.push(...data);
  }
  for (const remark of remarks) session.terminal.note(`${file}: ${remark}`);
  const count = done.length === 1 ? '1 variable' : `${done.length} variables`;
  showDone(session, `Set ${count}. The next run of a workflow finds them.`, done);
}

/** Sets variables, as many requests as they take. */
export async function setInBatches(
  api: Api,
  scope: Parameters,
  variables: readonly { name: string; value: string; secret?: boolean }[],
): Promise<Variable[]> {
  const done: Variable[] = [];
  for (let at = 0; at < variables.length; at += batchSize) {
    const body = { ...scope, variables: variables.slice(at, at + batchSize) };
    done.push(...(await api.call<{ data: Variable[] }>('PUT', '/v1/variables', { body })).data);
  }
  return done;
}

/** The API names a variable by its place in the request; the author of the file knows its line. */
function throwWithLine(
  error: unknown,
  file: string,
  batch: readonly { name: string; line: number }[],
): never {
  if (!(error instanceof CliError)) throw error;
  const { reason, hint, code, details } = error;
  const message = error.message.replace(
    /^variables[[.](\d+)\]?\.(\w+)/,
    (found, index: string, field: string) => {
      const variable = batch[Number(index)];
      return variable === undefined ? found : `${file}, line ${variable.line}: ${variable.name}: ${field}`;
    },
  );
  throw new CliError(reason, message, {
    hint,
    details,
    cause: error,
    ...(code === undefined ? {} : { code }),
  });
}

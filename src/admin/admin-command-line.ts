import { type ParseArgsOptionsConfig, parseArgs } from 'node:util';
import type { Settings } from '#config/settings.ts';
import type { Clock } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';

/** The output of a command: `data` for programs, `lines` for users. */
export interface AdminAnswer {
  data: unknown;
  lines: string[];
}

/** The command line is wrong, not what it asks for. */
export class UsageError extends Error {
  override name = 'UsageError';
}

type OptionName =
  | 'username'
  | 'email'
  | 'name'
  | 'owner'
  | 'workspace'
  | 'user'
  | 'role'
  | 'id'
  | 'passphrase-file'
  | 'key-file'
  | 'check'
  | 'git'
  | 'ref'
  | 'replace'
  | 'to'
  | 'back'
  | 'yes';
export type Options = Partial<Record<OptionName, string>>;

interface CommandWords {
  /** What follows the command's name, as the help text shows it. `unless`: the option that may take its place. */
  argument?: { name: string; isRequired: boolean; unless?: string };
  /** An option and the placeholder of its value in the help text; '': it has no value, and is 'true' when it is given. */
  required: Partial<Record<OptionName, string>>;
  optional: Partial<Record<OptionName, string>>;
  summary: string;
  /** The same through the API, for when the service runs; null: there is no such operation. */
  api: string | null;
}

interface StoreCommand extends CommandWords {
  run(context: AdminContext, options: Options, argument?: string): Promise<AdminAnswer>;
}

/** A command that comes to the store in its own way: beside a service that runs, or before there is one. */
interface LoneCommand extends CommandWords {
  runOffline(context: OfflineContext, options: Options, argument?: string): Promise<AdminAnswer>;
}

export type Command = StoreCommand | LoneCommand;

export interface AdminContext extends OfflineContext {
  store: Store;
}

export interface OfflineContext {
  clock: Clock;
  /** The version of this program. */
  version: string;
  settings: Settings;
  /** For npm's own configuration. */
  environment: Readonly<Record<string, string | undefined>>;
  /** The current working directory, which relative paths start from. */
  folder: string;
  /** Reports progress, with text output only. */
  progress(line: string): void;
  /** Progress of long work: one line that is overwritten, on terminals only. */
  status(line: string): void;
  /** True: there is a terminal at which questions can be asked. */
  isInteractive: boolean;
}

/** By name, such as `user create`. */
export type AdminCommands = Readonly<Record<string, Command>>;

/** Rows that a listing prints at most. */
export const listedMax = 10_000;

export interface AdminRequest {
  /** The words of the command, such as `user create`. */
  name: string;
  /** Undefined asks for help. */
  command: Command | undefined;
  options: Options;
  argument?: string;
  json: boolean;
}

/** Reads the command line. Throws `UsageError` that says what is wrong with it. */
export function readAdminRequest(commands: AdminCommands, argv: readonly string[]): AdminRequest {
  const { positionals, values } = parse(commands, argv);
  const { json = false, help = false, ...given } = values;
  const options = Object.fromEntries(
    Object.entries(given).map(([option, value]) => [option, String(value)]),
  ) as Options;
  const { name, argument } = commandIn(commands, positionals);
  if (help === true || name === 'help') return { name, command: undefined, options: {}, json: json === true };
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command === undefined) {
    throw new UsageError(unknownCommand(commands, name));
  }
  if (command.argument?.isRequired === true && argument === undefined) {
    const { unless } = command.argument;
    if (unless === undefined || values[unless] === undefined)
      throw new UsageError(
        `${name} needs ${command.argument.name}${unless === undefined ? '' : ` or --${unless}`}`,
      );
  }
  for (const option of Object.keys(options) as OptionName[]) {
    if (!(option in command.required) && !(option in command.optional)) {
      throw new UsageError(`${name} has no option --${option}`);
    }
    if (options[option] === '') throw new UsageError(`--${option}: must not be empty`);
  }
  const missing = Object.keys(command.required).filter(
    (option) => options[option as OptionName] === undefined,
  );
  if (missing.length > 0) {
    throw new UsageError(`${name} needs ${missing.map((option) => `--${option}`).join(', ')}`);
  }
  return { name, command, options, ...(argument === undefined ? {} : { argument }), json: json === true };
}

function unknownCommand(commands: AdminCommands, name: string): string {
  if (name === '') return 'no command was given';
  const [topic = '', ...rest] = name.split(' ');
  const words = namesAbout(commands, topic).map((one) => one.slice(topic.length + 1));
  if (words.length === 0) return `there is no command ${JSON.stringify(name)}`;
  return `${topic}: found ${rest.length === 0 ? 'nothing' : JSON.stringify(rest.join(' '))}, expected ${words.join(' or ')}`;
}

/** The last word is an argument where the words before it are a command that takes one. */
function commandIn(
  commands: AdminCommands,
  words: readonly string[],
): { name: string; argument?: string | undefined } {
  const name = words.slice(0, -1).join(' ');
  const takesArgument = Object.hasOwn(commands, name) && commands[name]?.argument !== undefined;
  return takesArgument ? { name, argument: words.at(-1) } : { name: words.join(' ') };
}

/** True when nothing can take the place of the argument. */
function isNeeded({ isRequired, unless }: NonNullable<CommandWords['argument']>): boolean {
  return isRequired && unless === undefined;
}

/** Help for the commands that begin with `topic`, such as `user`; for all of them, if none does. */
export function adminHelp(commands: AdminCommands, topic = ''): string {
  return `Administration of a Millrace, directly on its store; settings as for the service.

npm run millrace -- <command>

${usageOf(commands, topic).join('\n')}
  help
      all commands

--json prints JSON for machines (npm run --silent keeps npm's own lines out of it).
On the embedded store the service must be stopped; on PostgreSQL it may run, unless a command says otherwise. A backup is made beside
a service that runs, on both.
Exit codes: 0 done, 1 failed, 2 the command line is wrong.
`;
}

/** How the commands that begin with `topic` are used, and what each does; all of them, if none does. */
export function usageOf(commands: AdminCommands, topic: string): string[] {
  const names = namesAbout(commands, topic);
  const entries = Object.entries(commands).filter(([name]) => names.length === 0 || names.includes(name));
  return entries.map(([name, { argument, required, optional, summary }]) => {
    const needed = Object.entries(required).map(([option, value]) => ` --${option} ${value}`);
    const possible = Object.entries(optional).map(
      ([option, value]) => ` [--${option}${value === '' ? '' : ` ${value}`}]`,
    );
    const own =
      argument === undefined ? '' : isNeeded(argument) ? ` ${argument.name}` : ` [${argument.name}]`;
    return `  ${name}${own}${needed.join('')}${possible.join('')}\n      ${summary}`;
  });
}

/** `user create` and `user list` for `user`. */
function namesAbout(commands: AdminCommands, topic: string): string[] {
  return Object.keys(commands).filter((name) => name.split(' ')[0] === topic);
}

function parse(commands: AdminCommands, argv: readonly string[]) {
  const known = Object.values(commands).flatMap((command) =>
    Object.entries({ ...command.required, ...command.optional }),
  );
  const options: ParseArgsOptionsConfig = {
    ...Object.fromEntries(
      known.map(([name, value]) => [name, { type: value === '' ? 'boolean' : 'string' }]),
    ),
    json: { type: 'boolean' },
    help: { type: 'boolean', short: 'h' },
  };
  try {
    return parseArgs({ args: [...argv], options, allowPositionals: true });
  } catch (error) {
    throw new UsageError((error as Error).message, { cause: error });
  }
}

export function columnsOf(...values: string[]): string {
  return values.join('  ').trimEnd();
}

import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Health } from '#sdk';
import { idOfNamed, kindsOf } from './find-by-name.ts';
import { type CommonOptions, Session, type SessionOptions } from './session.ts';

/** How commands get what they need, once the command line is read. */
export type GetSessionOptions = () => SessionOptions;

export interface CommandOptions extends CommonOptions {
  readonly [option: string]: unknown;
}

type Run = (session: Session, options: CommandOptions, ...operands: string[]) => Promise<void>;

/**
 * A command that calls the service, with the options that all of them have. Operands and values of options whose names in the
 * help are those of an object (`<source>`, `--to <listener>`) reach `run` as ids.
 */
export function leaf(
  parent: Command,
  signature: string,
  summary: string,
  sessionOptions: GetSessionOptions,
  run: Run,
  options: { isDefault?: boolean } = {},
): Command {
  return plain(parent, signature, summary, options)
    .addOption(
      new Option('--workspace <workspace>', 'work in this workspace instead of with your own things'),
    )
    .addOption(new Option('--profile <name>', 'use this login'))
    .addOption(new Option('--json', 'print what the API answers, for machines'))
    .action(async (...given: unknown[]) => {
      const command = given.at(-1) as Command;
      const options = command.opts<CommandOptions>();
      const operands = given.slice(0, -2).map((one) => (one === undefined ? '' : String(one)));
      const session = await withWorkspaceId(new Session(sessionOptions(), options));
      const resolved = await withIds(session, command, options, operands);
      await run(session, resolved.options, ...resolved.operands);
    });
}

/** Names are looked for in the workspace, so its own comes first. */
async function withWorkspaceId(session: Session): Promise<Session> {
  const { workspace } = session;
  if (workspace === undefined) return session;
  return session.inWorkspace(await idOfNamed(session, await session.api(), workspace, ['workspace']));
}

async function withIds(
  session: Session,
  command: Command,
  options: CommandOptions,
  operands: readonly string[],
): Promise<{ options: CommandOptions; operands: string[] }> {
  const idOf = async (name: string, text: unknown): Promise<string | undefined> => {
    const kinds = kindsOf(name);
    if (kinds === undefined || typeof text !== 'string' || text === '') return undefined;
    return idOfNamed(session, await session.api(), text, kinds);
  };
  const changed: Record<string, unknown> = { ...options };
  for (const option of command.options) {
    const key = option.attributeName();
    const id = key === 'workspace' ? undefined : await idOf(valueName(option), options[key]);
    if (id !== undefined) changed[key] = id;
  }
  const ids: string[] = [];
  for (const [at, text] of operands.entries())
    ids.push((await idOf(command.registeredArguments[at]?.name() ?? '', text)) ?? text);
  return { options: changed, operands: ids };
}

/** `listener` of `--to <listener>`. */
export function valueName({ flags }: Option): string {
  return /[<[]([^\]>]+)[\]>]/.exec(flags)?.[1] ?? '';
}

export function plain(
  parent: Command,
  signature: string,
  summary: string,
  options: { isDefault?: boolean } = {},
): Command {
  const command = parent.command(signature, options).description(summary).allowExcessArguments(false);
  const path = [parent.parent === null ? [] : [parent.name()], command.name()].flat().join(' ');
  return command.showHelpAfterError(`\`millrace ${path} --help\` shows its arguments and options.`);
}

export function group(program: Command, name: string, summary: string): Command {
  return program
    .command(name)
    .description(summary)
    .showHelpAfterError(`\`millrace ${name} --help\` lists its commands.`);
}

export function integer(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`Expected an integer from ${min} to ${max}.`);
  };
}

export function collect(text: string, before: string[] = []): string[] {
  return [...before, text];
}

export function addLimit(command: Command, initial = 100): Command {
  return command.option('-n, --limit <number>', 'how many at most', integer(1, 100_000), initial);
}

const healthStates: Health['state'][] = ['healthy', 'failing', 'paused', 'disabled', 'waiting', 'untested'];

/** For lists of what has health. */
export function addHealth(command: Command): Command {
  return command.addOption(new Option('--health <state>', 'only those in this state').choices(healthStates));
}

export function addProps(command: Command): Command {
  return command
    .option('--prop <name=value>', 'value of a prop; may be given several times', collect)
    .option('--props <file>', 'values of props as a JSON object in a file, - for standard input')
    .option('-y, --yes', 'ask nothing: what is missing is an error');
}

/** An option that was given as text. */
export function textOption(options: CommandOptions, name: string): string | undefined {
  const value = options[name];
  return typeof value === 'string' ? value : undefined;
}

export function limitOf(options: CommandOptions): number {
  return typeof options.limit === 'number' ? options.limit : 100;
}

import { type Command, CommanderError } from 'commander';
import { CliError, exitCodes, usageError } from './exit-codes.ts';
import { isLocal, runLocal } from './local-admin.ts';
import { everyCommand, makeProgram } from './program.ts';
import type { SessionOptions } from './session.ts';
import { visibleJson, visibleLines } from './visible-text.ts';

/** Carries out a command line; resolves to the exit code. */
export async function runCli(words: readonly string[], options: SessionOptions): Promise<number> {
  try {
    if (await isLocal(words, options.environment)) return await runLocal(words, options.environment);
    const { stdout, stderr } = options.terminal.streams;
    const program = makeProgram(() => options, options.version);
    for (const command of [program, ...everyCommand(program)]) {
      command.configureOutput({
        writeOut: (text) => stdout.write(text),
        writeErr: (text) => stderr.write(visibleLines(text)),
      });
    }
    refuseUnknownTopic(program, words);
    if (words.length === 0) stdout.write(program.helpInformation());
    else await program.parseAsync(words, { from: 'user' });
    return exitCodes.ok.code;
  } catch (error) {
    return fail(error, words, options);
  } finally {
    options.terminal.endStatus();
  }
}

/** `millrace help x`: for an unknown command commander prints the help of the whole program, without a word about `x`. */
function refuseUnknownTopic(program: Command, [first, topic]: readonly string[]): void {
  if (first !== 'help' || topic === undefined || topic.startsWith('-')) return;
  if (topic === 'help' || program.commands.some((command) => command.name() === topic)) return;
  throw usageError(`there is no command ${JSON.stringify(topic)}`, '`millrace help` lists the commands.');
}

function fail(error: unknown, words: readonly string[], { terminal }: SessionOptions): number {
  terminal.endStatus();
  // It has printed its message, or the requested help.
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok.code : exitCodes.usage.code;
  if (!(error instanceof CliError)) {
    terminal.note(error instanceof Error ? String(error.stack) : String(error));
    return exitCodes.failed.code;
  }
  const { code } = exitCodes[error.reason];
  if (words.includes('--json')) {
    const told = {
      error: error.message,
      code: error.code ?? error.reason,
      details: error.details,
      hint: error.hint,
    };
    terminal.streams.stderr.write(`${visibleJson(told, 0)}\n`);
    return code;
  }
  if (error.reason === 'interrupted') terminal.note(error.message);
  else terminal.problem(error.message);
  if (error.hint !== undefined) terminal.note(error.hint);
  return code;
}

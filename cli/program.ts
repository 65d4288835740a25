import { Command } from 'commander';
import { accountCommands } from './account-commands.ts';
import type { GetSessionOptions } from './command-kit.ts';
import { completionCommand } from './completion.ts';
import { componentCommands } from './component-commands.ts';
import { devCommand } from './dev-command.ts';
import { eventCommands } from './event-commands.ts';
import { exitCodes } from './exit-codes.ts';
import { invokeCommand } from './invoke-command.ts';
import { localCommands } from './local-admin.ts';
import { logCommand } from './log-commands.ts';
import { loginCommands } from './login-commands.ts';
import { processCommands } from './process-commands.ts';
import { registryCommands } from './registry-commands.ts';
import { replayCommand, runCommands } from './run-commands.ts';
import { sourceCommands } from './source-commands.ts';
import { testEventCommands } from './test-event-commands.ts';
import { variableCommands } from './variable-commands.ts';
import { verifyCommand } from './verify-command.ts';
import { deliveryCommands, subscriptionCommands, webhookCommands } from './webhook-commands.ts';
import { workflowCommands } from './workflow-commands.ts';

export const localHeading =
  'On the data folder, without the API (the service must be stopped, unless it is on PostgreSQL; for a backup it may run):';

/** Every command there is: the help, the completion and the reference page are made from it. */
export function makeProgram(options: GetSessionOptions, version: string): Command {
  const program = new Command('millrace')
    .description('Sources, workflows and what flows between them, from a terminal.')
    .version(version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'what it does and takes')
    .helpCommand('help [command]', 'what a command does and takes')
    .configureHelp({ showGlobalOptions: false })
    .exitOverride();
  program.commandsGroup('Getting in:');
  loginCommands(program, options);
  verifyCommand(program, options);
  program.commandsGroup('Running components:');
  sourceCommands(program, options);
  devCommand(program, options);
  invokeCommand(program, options);
  componentCommands(program, options);
  registryCommands(program, options);
  program.commandsGroup('What flows:');
  eventCommands(program, options);
  logCommand(program, options);
  subscriptionCommands(program, options);
  webhookCommands(program, options);
  deliveryCommands(program, options);
  replayCommand(program, options);
  program.commandsGroup('Workflows and accounts:');
  workflowCommands(program, options);
  runCommands(program, options);
  testEventCommands(program, options);
  accountCommands(program, options);
  variableCommands(program, options);
  program.commandsGroup('The instance:');
  processCommands(program, options);
  program.commandsGroup('Your shell:');
  completionCommand(program, options);
  program.commandsGroup(localHeading);
  for (const [name, summary] of Object.entries(localCommands)) program.command(name).description(summary);
  program.addHelpText('after', `\n${afterHelp()}`);
  // A command inherits what its parent had when it was made; the settings of the whole are for all.
  for (const command of everyCommand(program))
    command.exitOverride().helpOption('-h, --help', 'what it does and takes');
  return program;
}

export function everyCommand(command: Command): Command[] {
  return command.commands.flatMap((one) => [one, ...everyCommand(one)]);
}

function afterHelp(): string {
  const codes = Object.values(exitCodes).map(
    ({ code, meaning }) => `  ${String(code).padStart(3)}  ${meaning}`,
  );
  return [
    'Everything else asks the service that you are logged in to (`millrace login`), or the one of MILLRACE_URL and',
    'MILLRACE_API_KEY, which win over a login. `registry` also works on the data folder: with --local, for folders, and',
    'where you are not logged in.',
    '',
    'Exit codes:',
    ...codes,
  ].join('\n');
}

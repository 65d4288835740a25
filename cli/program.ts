import { Command } from 'commander';
import { accessCommands } from './access-commands.ts';
import { accountCommands } from './account-commands.ts';
import { auditCommand } from './audit-command.ts';
import type { GetSessionOptions } from './command-kit.ts';
import { completionCommand } from './completion.ts';
import { componentCommands } from './component-commands.ts';
import { dataStoreCommands } from './data-store-commands.ts';
import { devCommand } from './dev-command.ts';
import { eventCommands } from './event-commands.ts';
import { exitCodes } from './exit-codes.ts';
import { folderCommands } from './folder-commands.ts';
import { importCommands } from './import-commands.ts';
import { invokeCommand } from './invoke-command.ts';
import { limitsCommand } from './limits-command.ts';
import { localCommands } from './local-admin.ts';
import { logCommand } from './log-commands.ts';
import { loginCommands } from './login-commands.ts';
import { movingCommands } from './moving-commands.ts';
import { processCommands } from './process-commands.ts';
import { registryCommands } from './registry-commands.ts';
import { retentionCommand } from './retention-command.ts';
import { replayCommand, runCommands } from './run-commands.ts';
import { sharesCommand } from './shares-command.ts';
import { sourceCommands } from './source-commands.ts';
import { startCommand } from './start-command.ts';
import { testEventCommands } from './test-event-commands.ts';
import { usageCommand } from './usage-command.ts';
import { variableCommands } from './variable-commands.ts';
import { verifyCommand } from './verify-command.ts';
import { deliveryCommands, subscriptionCommands, webhookCommands } from './webhook-commands.ts';
import { workflowCommands } from './workflow-commands.ts';

const localHeading =
  'On the data folder, without the API (the service must be stopped, unless it is on PostgreSQL; for a backup it may run):';

/** Every command there is: the help, the completion and the reference page are made from it. */
export function makeProgram(options: GetSessionOptions, version: string): Command {
  const program = new Command('millrace')
    .description('Sources, workflows and what flows between them, from a terminal.')
    .version(version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'what it does and takes')
    .helpCommand('help [command]', 'what a command does and takes')
    .configureHelp({ showGlobalOptions: false })
    .showHelpAfterError('`millrace help` lists the commands.')
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
  importCommands(program, options);
  runCommands(program, options);
  testEventCommands(program, options);
  accountCommands(program, options);
  variableCommands(program, options);
  dataStoreCommands(program, options);
  program.commandsGroup('Workflows as files:');
  folderCommands(program, options);
  program.commandsGroup('Moving senders:');
  movingCommands(program, options);
  program.commandsGroup('Access:');
  accessCommands(program, options);
  auditCommand(program, options);
  usageCommand(program, options);
  sharesCommand(program, options);
  limitsCommand(program, options);
  retentionCommand(program, options);
  program.commandsGroup('The instance:');
  startCommand(program, options);
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

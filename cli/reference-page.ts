import type { Command } from 'commander';
import { exitCodes } from './exit-codes.ts';
import { localCommands } from './local-admin.ts';
import { makeProgram } from './program.ts';

/** Options that nearly all commands have are described once. */
const common = ['--workspace', '--profile', '--json', '--help'];

/** Markdown of every command, from the same definitions as the help. */
export function commandLinePage(): string {
  const program = makeProgram(() => {
    throw new Error('assertion failed: a page runs no command');
  }, '');
  const commands = program.commands.filter((one) => one.name() !== 'help');
  const asking = commands.filter((one) => !Object.hasOwn(localCommands, one.name()));
  return [
    '# Command line',
    '',
    '`npm run millrace -- <command>` in the folder of the project, or `bin/millrace` from anywhere (link it into a folder of your',
    '`PATH`; completion of a shell needs that name). `millrace help <command>` says the same as this page.',
    '',
    ...introduction,
    '',
    '## Exit codes',
    '',
    '| code | meaning |',
    '| --- | --- |',
    ...Object.values(exitCodes).map(({ code, meaning }) => `| ${code} | ${cell(meaning)} |`),
    '',
    ...asking.flatMap((command) => section(command)),
    '## On the data folder',
    '',
    'Without the API, with the settings of the service, and on the embedded store only while it is stopped.',
    'For a backup it may run ([backup and restore](../backup.md)). `npm run millrace -- user --help` has their options. `registry` is among them with `--local`, with a folder as its argument,',
    'and where you are not logged in.',
    '',
    '| command | what it is about |',
    '| --- | --- |',
    ...Object.entries(localCommands).map(([name, summary]) => `| \`${name}\` | ${cell(summary)} |`),
    '',
  ].join('\n');
}

const introduction = [
  'Commands ask the service of a login (`millrace login`), which is kept in `$XDG_CONFIG_HOME/millrace/config.json` (else',
  '`~/.config/…`), readable by its owner alone. `MILLRACE_URL` and `MILLRACE_API_KEY` win over it, `MILLRACE_PROFILE` names one',
  'of several. The key of a login is never sent to another service.',
  '',
  '- What has a name (sources, workflows, webhooks, accounts, apps, templates, projects, workspaces) is given by its id, its name or its slug,',
  '  in any case of letters, among your own things or those of `--workspace`. A name of several is an error that lists them with their ids.',
  '- Most commands take `--workspace <workspace>` (work in this workspace instead of with your own things), `--profile <name>`, and',
  '  `--json`: the `data` of the API, as it is, in place of a table; with `-f`, and in `dev`, one line of JSON for each. Errors are',
  '  JSON on standard error then, with the `code` of the API.',
  '- Answers are on standard output, all else on standard error. Tables fit the terminal; in a pipe nothing is cut, unless `COLUMNS` is',
  '  set. Colours are only for terminals, and never with `NO_COLOR`. Characters that a terminal would obey are shown as `\\x1b`.',
  '- Questions are only asked at a terminal. Elsewhere, and with `--yes`, what is missing is an error that names it.',
  '- A component is a file (with what it imports by relative paths; npm packages are installed by the service), a key of the registry,',
  '  a URL, or the id of saved code.',
  '- `--prop name=value`: the type of the prop says what the value is. Lists have commas or are JSON, objects are JSON, an account is',
  '  its name or id, a timer is seconds or cron. Secrets are better in a file: `--props`.',
];

function section(command: Command): string[] {
  const leaves = command.commands.filter((one) => one.name() !== 'help');
  const lines = [`## ${command.name()}`, '', `${sentence(command.description())}`, ''];
  if (leaves.length === 0) return [...lines, ...usage(command, [])];
  return [
    ...lines,
    ...leaves.flatMap((one) => [
      `### ${command.name()} ${one.name()}`,
      '',
      sentence(one.description()),
      '',
      ...usage(one, [command.name()]),
    ]),
  ];
}

function usage(command: Command, path: readonly string[]): string[] {
  const operands = command.registeredArguments.map((one) =>
    one.required ? `<${one.name()}>` : `[${one.name()}]`,
  );
  const own = command.options.filter((one) => !common.includes(one.long ?? ''));
  const words = [
    'millrace',
    ...path,
    command.name(),
    ...operands,
    ...(own.length === 0 ? [] : ['[options]']),
  ];
  return [
    '```sh',
    words.join(' '),
    '```',
    '',
    ...(own.length === 0
      ? []
      : [
          '| option | meaning |',
          '| --- | --- |',
          ...own.map((one) => {
            const initial =
              one.defaultValue === undefined || typeof one.defaultValue === 'boolean'
                ? ''
                : ` (default ${String(one.defaultValue)})`;
            return `| \`${cell(one.flags)}\` | ${cell(one.description)}${initial} |`;
          }),
          '',
        ]),
  ];
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ');
}

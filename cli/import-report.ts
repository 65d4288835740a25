import type { Import, ImportedWorkflow } from '#sdk';
import { visible } from './visible-text.ts';

/** A part of the report, the same in a terminal and in Markdown. */
export interface ReportSection {
  title: string;
  lines: string[];
  table?: { columns: string[]; rows: string[][] };
}

type Report = Import['report'];

/** Before a command that a line is. */
const commandIndent = '      ';
/** Before a changed line of code. */
const codeIndent = '    | ';

const statusTexts: Readonly<Record<ImportedWorkflow['status'], string>> = {
  converted: 'converted',
  check: 'check',
  by_hand: 'by hand',
};

/** What an import did, or in a dry run would do, and what is left to do. */
export function reportSections(
  { report }: Pick<Import, 'report'>,
  { isPlan }: { isPlan: boolean },
): ReportSection[] {
  return [
    workflowsSection(report, isPlan),
    objectsSection(report, isPlan),
    ...[...report.objects, ...report.workflows].flatMap((item) => [
      changesSection(item, isPlan),
      findingsSection(item),
    ]),
    addressesSection(report),
    accountsSection(report),
    variablesSection(report),
    componentsSection(report),
    storesSection(report),
    remarksSection(report),
  ].filter(({ lines, table }) => lines.length > 0 || (table !== undefined && table.rows.length > 0));
}

function workflowsSection(report: Report, isPlan: boolean): ReportSection {
  const { counts } = report;
  return {
    title: isPlan ? 'Workflows, as they would be imported' : 'Workflows',
    lines: [
      `${counts.workflows === 1 ? '1 workflow' : `${counts.workflows} workflows`}: ${counts.converted} converted, ${counts.check} to check, ${counts.by_hand} with something to do by hand`,
      `${counts.created} new, ${counts.updated} changed, ${counts.unchanged} unchanged, ${counts.conflict} in conflict, ${counts.failed} failed`,
    ],
    table: {
      columns: ['WORKFLOW', 'STATUS', 'OUTCOME', 'ACTIVE', 'ACTIVE THERE', 'ID', 'ID THERE'],
      rows: report.workflows.map(
        ({ name, folder, status, outcome, active, was_active, workflow_id, old_id }) => [
          folder === '' ? name : `${folder}/${name}`,
          ...[
            statusTexts[status],
            outcome,
            active ? 'yes' : 'no',
            was_active ? 'yes' : 'no',
            workflow_id ?? '-',
            old_id,
          ],
        ],
      ),
    },
  };
}

function objectsSection({ objects }: Report, isPlan: boolean): ReportSection {
  const title = 'Sources, webhooks and subscriptions';
  return {
    title: isPlan ? `${title}, as they would be imported` : title,
    lines: [],
    table: {
      columns: ['KIND', 'NAME', 'STATUS', 'OUTCOME', 'ACTIVE', 'ID', 'ID THERE'],
      rows: objects.map(({ kind, name, status, outcome, active, id, old_id }) => [
        ...[kind, name, statusTexts[status], outcome, active ? 'yes' : 'no', id ?? '-', old_id],
      ]),
    },
  };
}

const changeSigns: Readonly<Record<ImportedWorkflow['changes'][number]['what'], string>> = {
  added: '+',
  removed: '-',
  changed: '~',
};

/** How what is imported differs from what is here. */
function changesSection(
  {
    name,
    outcome,
    changes,
    changes_left_out: leftOut,
  }: Pick<ImportedWorkflow, 'name' | 'outcome' | 'changes' | 'changes_left_out'>,
  isPlan: boolean,
): ReportSection {
  const title =
    outcome === 'conflict'
      ? `${name}: differs there, and stays as it is here`
      : `${name}: ${isPlan ? 'would change' : 'changed'}`;
  return {
    title,
    lines: [
      ...changes.flatMap(({ path, what, old, new: wanted, lines }) => {
        const values = [old, wanted].filter((value) => value !== null).join(' -> ');
        return [
          `- ${changeSigns[what]} ${path}${values === '' ? '' : `: ${values}`}`,
          ...lines.map((line) => `${codeIndent}${line}`),
        ];
      }),
      ...(leftOut === 0 ? [] : [`- and ${leftOut} more`]),
    ],
  };
}

function findingsSection({
  name,
  status,
  findings,
}: Pick<ImportedWorkflow, 'name' | 'status' | 'findings'>): ReportSection {
  return {
    title: `${name}: ${statusTexts[status]}`,
    lines: findings.flatMap(({ level, step, message, command }) => [
      `- ${level === 'by_hand' ? 'by hand: ' : ''}${step === '' ? '' : `${step}: `}${message}`,
      ...(command === '' ? [] : [`${commandIndent}${command}`]),
    ]),
  };
}

function addressesSection({ workflows, objects }: Report): ReportSection {
  const rows = [
    ...workflows.flatMap(({ name, triggers }) =>
      triggers.flatMap(({ old_id, address, old_address }) =>
        address === null ? [] : [[name, old_address ?? old_id, address]],
      ),
    ),
    ...objects.flatMap(({ name, old_id, address, old_address }) =>
      address === null ? [] : [[name, old_address ?? old_id, address]],
    ),
  ];
  return {
    title: 'New addresses',
    lines: [],
    table: {
      columns: ['WORKFLOW', 'TRIGGER THERE', 'ADDRESS HERE'],
      rows,
    },
  };
}

function accountsSection({ accounts }: Report): ReportSection {
  return {
    title: 'Accounts',
    lines: accounts.some(({ account_id }) => account_id === null)
      ? ['Connect each with `millrace accounts create APP`, and import again with --account APP=ID.']
      : [],
    table: {
      columns: ['APP', 'ACCOUNT HERE', 'ACCOUNT THERE', 'USED BY'],
      rows: accounts.map(({ app, account_id, old_id, name, places }) => [
        ...[app, account_id ?? 'none', name === '' ? old_id : `${old_id} (${name})`, places.join('; ')],
      ]),
    },
  };
}

function variablesSection({ variables }: Report): ReportSection {
  const unset = variables.filter(({ set, secret }) => !set && !secret);
  return {
    title: 'Variables',
    lines:
      unset.length > 0
        ? ['Set those that are not set with `millrace env set NAME`, or all of a file with --env FILE.']
        : [],
    table: {
      columns: ['VARIABLE', 'SET', 'USED BY'],
      rows: variables.map(({ name, set, secret, workflows }) => [
        ...[name, secret ? 'a secret of the export' : set ? 'yes' : 'no', workflows.join('; ')],
      ]),
    },
  };
}

function componentsSection({ actions }: Report): ReportSection {
  const hasMissing = actions.some(({ state }) => state === 'missing' || state === 'other_version');
  return {
    title: 'Components',
    lines: hasMissing
      ? [
          'This brings every version of the public components; then import again:',
          `${commandIndent}millrace registry add --git https://github.com/PipedreamHQ/pipedream`,
        ]
      : [],
    table: {
      columns: ['COMPONENT', 'VERSION THERE', 'HERE', 'USED BY'],
      rows: actions.map(({ key, version, state, found, places }) => [
        ...[key, version === '' ? '-' : version],
        state === 'missing' ? 'missing' : state === 'included' ? 'included' : found,
        places.join('; '),
      ]),
    },
  };
}

function storesSection({ data_stores }: Report): ReportSection {
  return {
    title: 'Data stores',
    lines: data_stores.length > 0 ? ['They are empty: an export has no records.'] : [],
    table: {
      columns: ['DATA STORE THERE', 'HERE', 'USED BY'],
      rows: data_stores.map(({ old_id, data_store_id, workflows }) => [
        ...[old_id, data_store_id ?? '-', workflows.join('; ')],
      ]),
    },
  };
}

function remarksSection({
  runtimes,
  notified,
  not_compiled,
  keys,
  problems,
  unreadable,
  workflows,
}: Report): ReportSection {
  const triggers = workflows.flatMap((workflow) => workflow.triggers);
  const timers = triggers.filter(({ kind, complete }) => kind === 'timer' && !complete).length;
  const node = runtimes.filter(({ runtime }) => runtime.startsWith('node'));
  const unknown = keys.filter(({ outcome }) => outcome === 'unknown');
  return {
    title: 'For all workflows',
    lines: [
      ...unreadable.map(({ part, reason }) => `- ${part}: not readable: ${reason}`),
      ...problems.map(({ path, message }) => `- ${path} was not imported: ${message}`),
      ...(node.length === 0
        ? []
        : [
            `- Steps ran on ${node.map(({ runtime, steps }) => `${runtime} (${steps})`).join(', ')}; they run on the Node.js of this service.`,
          ]),
      ...(notified.length === 0
        ? []
        : [
            `- Notified of errors there: ${notified.join(', ')}. Here, subscribe to the channel $errors of each.`,
          ]),
      ...(not_compiled === 0
        ? []
        : [
            `- Code steps that were not compiled yet, because it takes long: ${not_compiled}. The import compiles them.`,
          ]),
      ...(triggers.some(({ kind }) => kind === 'http')
        ? ['- Whether HTTP triggers ask for a token is in no export: where they did, set it here.']
        : []),
      ...(timers === 0
        ? []
        : [
            `- The ${timers === 1 ? 'schedule of 1 timer is' : `schedules of ${timers} timers are`} not in what was read: --api-key-file reads schedules too.`,
          ]),
      `- ${keys.reduce((sum, { count }) => sum + count, 0)} keys were read, ${unknown.reduce((sum, { count }) => sum + count, 0)} of them unknown${unknown.length === 0 ? '' : `: ${unknown.map(({ key }) => key).join(', ')}`}.`,
    ],
  };
}

/** Names and messages come from the archive: they are text in Markdown, never markup. */
function markdownText(text: string): string {
  return visible(text)
    .replace(/[\\`*[\]|~]/g, '\\$&')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;');
}

/** As it is, whatever backticks are in it. */
function codeSpan(text: string): string {
  const runs = (text.match(/`+/g) ?? []).map(({ length }) => length);
  const fence = '`'.repeat(Math.max(0, ...runs) + 1);
  return `${fence} ${visible(text)} ${fence}`;
}

function markdownLine(line: string): string {
  if (line.startsWith('- ')) return `- ${markdownText(line.slice(2))}`;
  if (line.startsWith(codeIndent)) return `  - ${codeSpan(line.slice(codeIndent.length))}`;
  if (line.startsWith(commandIndent)) return `\n  ~~~sh\n  ${visible(line.trim())}\n  ~~~\n`;
  // What is left is said by this file.
  return line;
}

/** The same report as a file. */
export function markdownReport(sections: readonly ReportSection[], title: string): string {
  const row = (cells: readonly string[]) => `| ${cells.map(markdownText).join(' | ')} |`;
  const parts = sections.map(({ title: heading, lines, table }) =>
    [
      `## ${markdownText(heading)}`,
      lines.map(markdownLine).join('\n'),
      table === undefined || table.rows.length === 0
        ? ''
        : [row(table.columns), row(table.columns.map(() => '---')), ...table.rows.map(row)].join('\n'),
    ]
      .filter((part) => part !== '')
      .join('\n\n'),
  );
  return `# ${title}\n\n${parts.join('\n\n')}\n`;
}

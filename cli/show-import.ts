import { writeFile } from 'node:fs/promises';
import type { Import } from '#sdk';
import { markdownReport, type ReportSection, reportSections } from './import-report.ts';
import type { Session } from './session.ts';
import { visible } from './visible-text.ts';

/** The report of an import or of a dry run: as tables, as the answer of the API, and where a file is given as Markdown too. */
export async function showImport(
  session: Session,
  result: Import,
  { isPlan, markdown }: { isPlan: boolean; markdown: string | undefined },
): Promise<void> {
  const sections = reportSections(result, { isPlan });
  if (markdown !== undefined) {
    const title = isPlan
      ? 'Import from Pipedream: what would be done'
      : `Import from Pipedream: ${result.id ?? ''}`;
    await writeFile(session.path(markdown), markdownReport(sections, title));
  }
  if (session.isJson) return session.terminal.printJson(result);
  printSections(session, sections);
}

export function printSections(session: Session, sections: readonly ReportSection[]): void {
  const { terminal } = session;
  for (const [at, { title, lines, table }] of sections.entries()) {
    if (at > 0) terminal.print('');
    terminal.print(terminal.style('bold', visible(title)));
    for (const line of lines) terminal.print(visible(line));
    if (table === undefined || table.rows.length === 0) continue;
    terminal.printTable(
      table.columns.map((column) => ({ title: column, isWhole: /^(?:ID|ADDRESS HERE)$/.test(column) })),
      table.rows,
    );
  }
}

/** What an undo left as it is. */
export function noteKept(session: Session, kept: Import['kept']): void {
  for (const { kind, id, reason } of kept)
    session.terminal.note(`Left ${kind.replace('_', ' ')} ${id}: ${reason}.`);
}

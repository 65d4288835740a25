import type { SourceQueue, WorkflowQueue } from '#sdk';
import type { Session } from './session.ts';
import { column, showList, timeColumn } from './show.ts';

/** What waits for a workflow or source under flow control, and why; of a source also which events did not run. */
export async function showQueue(session: Session, path: string): Promise<void> {
  const found = await (await session.api()).data<WorkflowQueue & Partial<SourceQueue>>('GET', path);
  if (session.isJson) return session.terminal.printJson(found);
  const { waiting_keys, keys_under_way: _, totals, not_run = [], ...counts } = found;
  const { arrived, collected, waiting, under_way } = counts;
  session.terminal.printFields([
    ['arriving', `${arrived} (accepted, not yet placed by key)`],
    ['collected', `${collected} (wait for more events: debounce or batch)`],
    ['waiting', `${waiting} (wait for their turn)`],
    ['under way', under_way],
    ['begun', `${totals.started} since there is flow control`],
    ...Object.entries(totals).filter(([name]) => name !== 'started'),
  ]);
  if (waiting_keys.length > 0) {
    session.terminal.print('');
    showList<WorkflowQueue['waiting_keys'][number]>(
      session,
      waiting_keys,
      [
        column('KEY', 'key'),
        column('WAITING', 'waiting'),
        column('UNDER WAY', 'under_way'),
        column('REASON', 'reason'),
      ],
      '',
    );
  }
  if (not_run.length === 0) return;
  session.terminal.print('');
  showList<SourceQueue['not_run'][number]>(
    session,
    not_run,
    [timeColumn('NOT RUN AT (UTC)', 'at'), column('REASON', 'reason')],
    '',
  );
}

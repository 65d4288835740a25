import type { Command } from 'commander';
import type { Processes } from '#sdk';
import { bytesText } from './amounts.ts';
import { type GetSessionOptions, leaf } from './command-kit.ts';
import type { Session } from './session.ts';
import { column, showList, timeColumn } from './show.ts';

/** `millrace processes`: where user code runs on the node that answers. */
export function processCommands(program: Command, sessionOptions: GetSessionOptions): void {
  leaf(
    program,
    'processes',
    'the processes of user code, and what was set apart; for the admin of the instance',
    sessionOptions,
    show,
  );
}

async function show(session: Session): Promise<void> {
  const data = await (await session.api()).data<Processes>('GET', '/v1/instance/processes');
  if (session.isJson) {
    session.terminal.printJson(data);
    return;
  }
  const names = new Map(data.deployments.map(({ id, name }) => [id, name]));
  showList(
    session,
    data.processes,
    [
      column('PID', ({ pid }) => pid ?? '…'),
      column('OWNER', ownerOf),
      column('STATE', 'state'),
      column('SHARED', ({ shared }) => (shared ? 'yes' : 'no')),
      // A node of the version before, during an upgrade, answers without names.
      column('WITH ACCOUNTS OF', ({ trust_domain: members, trust_domain_names: usernames }) =>
        members
          .map((id, index) => usernames?.[index] ?? id)
          .slice(1)
          .join(', '),
      ),
      column('DEPLOYMENTS', ({ purpose, deployment_count: count, deployment_ids: [first] }) =>
        purpose === 'evaluation' ? 'being deployed' : count === 1 ? (names.get(first ?? '') ?? first) : count,
      ),
      column('CALLS', 'calls'),
      column('MEMORY', ({ memory_bytes: bytes }) => (bytes === null ? '' : bytesText(bytes))),
      // A node of the version before says nothing of the processor.
      column('CORES', ({ cpu_cores: cores, priority }) =>
        cores === undefined ? '' : `${cores.toFixed(2)}${priority === 'low' ? ', low priority' : ''}`,
      ),
      timeColumn('STARTED', 'started_at'),
      column('LAST BLAME', ({ last_blame: blame }) =>
        blame === null ? '' : `${names.get(blame.deployment_id) ?? blame.deployment_id}: ${blame.reason}`,
      ),
    ],
    'No process of user code is alive now. The next call starts one.',
  );
  // A node of the version before does not say how many are ready.
  const ready = data.ready === undefined ? '' : ` Ready for code: ${data.ready} more.`;
  session.terminal.note(`Sandbox: ${data.sandbox}.${ready}`);
  if (data.set_apart.length === 0) return;
  session.terminal.note('Set apart, each in a process of its own until its code changes:');
  showList(
    session,
    data.set_apart,
    [
      column('DEPLOYMENT', 'deployment_id', { isWhole: true }),
      column('NAME', ({ deployment_id: id }) => names.get(id)),
      column('OWNER', ownerOf),
      column('REASON', 'reason'),
      timeColumn('AT', 'at'),
    ],
    '',
  );
  if (data.set_apart_count > data.set_apart.length)
    session.terminal.note(`The latest ${data.set_apart.length} of ${data.set_apart_count} are shown.`);
}

function ownerOf({ owner_id, owner_name }: { owner_id: string; owner_name: string | null }): string {
  return owner_name ?? owner_id;
}

import type { Command } from 'commander';
import type { Shares } from '#sdk';
import { type GetSessionOptions, leaf } from './command-kit.ts';
import type { Session } from './session.ts';
import { column, showList, timeColumn } from './show.ts';

/** `millrace shares`: what waited or was refused because a user or workspace had its share of a node. */
export function sharesCommand(program: Command, sessionOptions: GetSessionOptions): void {
  leaf(
    program,
    'shares',
    'what waited or was refused because your own things, or those of a workspace, had their share',
    sessionOptions,
    show,
  );
}

async function show(session: Session): Promise<void> {
  const { workspace } = session;
  const path = workspace === undefined ? '/v1/users/me/shares' : `/v1/workspaces/${workspace}/shares`;
  const shares = await (await session.api()).whole<Shares>(path);
  showList<Shares>(
    session,
    shares,
    [
      column('RESOURCE', 'resource', { isWhole: true }),
      column('DELAYED', 'delayed'),
      column('REFUSED', 'refused'),
      timeColumn('LAST', 'last_at'),
      column('REASON', ({ reason }) => reason ?? ''),
    ],
    'Nothing waited or was refused since the start of the node that answers.',
  );
}

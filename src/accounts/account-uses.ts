import { CallerError } from '#lib/errors.ts';
import type { Db } from '#storage/store.ts';
import {
  type AccountUser,
  countSourcesUsing,
  countWorkflowsUsing,
  type RecordedUse,
  recordedUses,
  sourcesUsing,
  type UserFilter,
  workflowsUsing,
} from './account-uses-store.ts';

/** Sources, workflows and days that are listed for one account; the rest is counted. */
const listedMax = 100;

/** Where an account is used, as seen by a user who may read what `ownerIds` own. */
export interface AccountUses {
  sources: AccountUser[];
  workflows: AccountUser[];
  /** Those that are not listed: they belong to others, or there are too many. */
  more: { sources: number; workflows: number };
}

export async function usesOf(
  db: Db,
  accountId: string,
  ownerIds: readonly string[],
  filter: Pick<UserFilter, 'active'> = {},
): Promise<AccountUses> {
  const all = { accountId, ...filter };
  const visible = { ...all, ownerIds };
  const sources = await sourcesUsing(db, visible, listedMax);
  const workflows = await workflowsUsing(db, visible, listedMax);
  return {
    sources,
    workflows,
    more: {
      sources: (await countSourcesUsing(db, all)) - sources.length,
      workflows: (await countWorkflowsUsing(db, all)) - workflows.length,
    },
  };
}

/** Throws CallerError `account_in_use` while an active source or workflow uses the account. */
export async function refuseInUse(db: Db, accountId: string, ownerIds: readonly string[]): Promise<void> {
  const { sources, workflows, more } = await usesOf(db, accountId, ownerIds, { active: true });
  const [ofSources, ofWorkflows] = [sources.length + more.sources, workflows.length + more.workflows];
  if (ofSources + ofWorkflows === 0) return;
  const named = ({ id, name }: AccountUser) => ({ id, name });
  throw new CallerError(
    'account_in_use',
    `account ${accountId} is used by ${counted(ofSources, 'active source')} and ` +
      `${counted(ofWorkflows, 'active workflow')}, which would fail from their next run on: give them another account ` +
      'first, or send force=true to delete it all the same',
    { parameter: 'force', sources: sources.map(named), workflows: workflows.map(named), more },
  );
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

/** As the API answers it. `used`: who was given the credentials, by UTC day, latest first. */
export async function viewUses(db: Db, accountId: string, ownerIds: readonly string[]) {
  const { sources, workflows, more } = await usesOf(db, accountId, ownerIds);
  const used = await recordedUses(db, accountId, ownerIds, listedMax);
  return {
    sources: sources.map(viewUser),
    workflows: workflows.map(viewUser),
    more,
    used: used.map(viewUse),
  };
}

function viewUser({ id, name, state }: AccountUser) {
  return { id, name, active: state === 'active' };
}

function viewUse(use: RecordedUse) {
  return {
    id: use.used_by,
    name: use.name,
    day: use.day,
    uses: use.uses,
    first_used_at: new Date(use.first_used_at_ms).toISOString(),
    last_used_at: new Date(use.last_used_at_ms).toISOString(),
  };
}

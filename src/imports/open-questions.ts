import { selectAccounts } from '#accounts/account-store.ts';
import type { Db } from '#storage/store.ts';

/** What the workflows and sources of a project need and have not; asked once for all of them. */
export interface OpenQuestions {
  /** `name`: what an answer is given under: the slug of an app, or the id of an account there where the app has several. */
  accounts: { name: string; app: string; old_id: string; places: string[] }[];
  variables: { name: string; workflows: string[] }[];
}

export interface AccountChoice {
  id: string;
  name: string | null;
}

/** Accounts of an app that a question offers, newest first. */
const choicesMax = 50;

export const noQuestions: OpenQuestions = { accounts: [], variables: [] };

/** Pure. Variables that secrets of the export become are made by the import. */
export function openQuestions({
  accounts,
  variables,
}: {
  accounts: readonly { app: string; old_id: string; account_id: string | null; places: string[] }[];
  variables: readonly { name: string; set: boolean; secret: boolean; workflows: string[] }[];
}): OpenQuestions {
  const open = accounts.filter(({ account_id }) => account_id === null);
  return {
    accounts: open.map(({ app, old_id, places }) => {
      const isOnly = open.filter((one) => one.app === app).length === 1;
      return { name: isOnly ? app : old_id, app, old_id, places };
    }),
    variables: variables
      .filter(({ set, secret }) => !set && !secret)
      .map(({ name, workflows }) => ({ name, workflows })),
  };
}

/** The accounts of an app that may be chosen. */
export async function accountChoices(
  db: Db,
  app: string,
  ownerIds: readonly string[],
): Promise<AccountChoice[]> {
  const { rows } = await selectAccounts(db, { ownerIds, app }, { limit: choicesMax });
  return rows.map(({ id, name }) => ({ id, name }));
}

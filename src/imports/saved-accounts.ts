import { isRecord } from '#components/validate-props.ts';
import { refused } from './project-files.ts';

/** An account that was chosen when a bundle was saved. It is found again by its id, or by its app and name; its credentials are never saved. */
export interface SavedAccount {
  /** Slug of an app, or the id of an account there. */
  place: string;
  /** apn_… */
  id: string;
  app: string;
  /** '': it had none. */
  name: string;
}

const savedMax = 1_000;
const textMax = 200;

/** The `answers` of a bundle. Throws CallerError `invalid_import` for anything else than accounts by app or id. */
export function readSavedAccounts(answers: unknown): SavedAccount[] {
  if (answers === undefined) return [];
  const accounts = isRecord(answers) ? answers.accounts : undefined;
  if (!isRecord(accounts)) throw refused('answers: expected an object with accounts');
  const entries = Object.entries(accounts);
  if (entries.length > savedMax)
    throw refused(`answers.accounts: found ${entries.length}, expected at most ${savedMax}`);
  return entries.map(([place, one]) => {
    const { id, app, name = '' } = isRecord(one) ? one : {};
    const isRead = [place, id, app, name].every((text) => typeof text === 'string' && text.length <= textMax);
    if (!isRead || !/^[\w.-]+$/.test(place))
      throw refused(
        'answers.accounts: expected the id, app and name of an account by an app or an account there',
      );
    return { place, id: String(id), app: String(app), name: String(name) };
  });
}

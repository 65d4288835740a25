import type { Import } from '#sdk';

type Report = Import['report'];

/** What is asked once for all workflows of an archive. */
export type Question =
  | { kind: 'account'; id: string; app: string; oldId: string; places: readonly string[] }
  | { kind: 'file'; id: string; names: readonly string[] }
  | { kind: 'variable'; id: string; name: string; workflows: readonly string[] }
  | { kind: 'components'; id: string; actions: Report['actions'] };

/** Accounts that were chosen, as the API takes them: by the slug of an app, or by the id of an account there. */
export type ChosenAccounts = Readonly<Record<string, string>>;

/** What an import that is asking needs. */
export function questionsOfImport({ accounts, variables }: Import['questions']): Question[] {
  return [
    ...accounts.map(({ name, app, old_id, places }): Question => {
      return { kind: 'account', id: name, app, oldId: name === app ? '' : old_id, places };
    }),
    ...questionsOfVariables(variables),
  ];
}

function questionsOfVariables(unset: Import['questions']['variables']): Question[] {
  return [
    ...(unset.length > 1
      ? [{ kind: 'file', id: '.env', names: unset.map(({ name }) => name) } as const]
      : []),
    ...unset.map(
      ({ name, workflows }): Question => ({ kind: 'variable', id: `variable ${name}`, name, workflows }),
    ),
  ];
}

export function questionsOf({ accounts, variables, actions }: Report): Question[] {
  const open = accounts.filter(({ account_id }) => account_id === null);
  const unset = variables.filter(({ set, secret }) => !set && !secret);
  const missing = actions.filter(({ state }) => state === 'missing' || state === 'other_version');
  return [
    ...open.map(({ app, old_id, places }): Question => {
      const isOnly = open.filter((one) => one.app === app).length === 1;
      return { kind: 'account', id: isOnly ? app : old_id, app, oldId: isOnly ? '' : old_id, places };
    }),
    ...questionsOfVariables(unset),
    ...(missing.length > 0 ? [{ kind: 'components', id: 'components', actions: missing } as const] : []),
  ];
}

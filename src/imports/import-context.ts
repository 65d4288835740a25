import { findAccount } from '#accounts/account-store.ts';
import { CallerError } from '#lib/errors.ts';
import type { ComponentAvailability } from '#registry/component-availability.ts';
import { findSource } from '#sources/source-store.ts';
import type { Db } from '#storage/store.ts';
import { variablesOfWorkflows } from '#user-data/variables/variable-store.ts';
import { type ImportScope, listImported } from './import-store.ts';
import type { MapContext } from './map-step.ts';
import type { ForeignProject } from './project.ts';

/** What users choose for an import; a later one of the same project remembers it. */
export interface ImportAnswers {
  /** Accounts (apn_…) here, by the slug of their app or by the id of the account there. */
  accounts: Record<string, string>;
}

/** Where an account is given for a place, the first of these that has it wins. */
export interface GivenAccounts extends ImportAnswers {
  /** Those of a bundle, as they are here. */
  saved: Record<string, string>;
}

/** Finds out how a component can be named here. */
export type FindComponent = (key: string, version: string) => Promise<ComponentAvailability>;

/** What sources and workflows are mapped with. The maps have ids here by ids there; what the import makes is added to them. */
export interface ImportContext extends MapContext {
  dataStores: Map<string, string>;
  sources: Map<string, string>;
}

/** What workflows are mapped with. Components are looked up once, before: mapping is pure. */
export async function loadContext(
  db: Db,
  project: ForeignProject,
  {
    scope,
    answers,
    findComponent,
  }: { scope: ImportScope; answers: GivenAccounts; findComponent: FindComponent },
): Promise<ImportContext> {
  const components = new Map<string, ComponentAvailability>();
  for (const { key, version } of componentsIn(project)) {
    const id = `${key}@${version}`;
    if (!components.has(id)) components.set(id, await findComponent(key, version));
  }
  const newIds = async (kind: 'account' | 'data_store' | 'source') =>
    new Map((await listImported(db, scope, kind)).map(({ old_id, new_id }) => [old_id, new_id]));
  const [remembered, dataStores] = [await newIds('account'), await newIds('data_store')];
  const sources = new Map<string, string>();
  for (const [oldId, newId] of await newIds('source'))
    if ((await findSource(db, newId)) !== undefined) sources.set(oldId, newId);
  const subscriptions = new Set(project.objects?.subscriptions.map(({ id }) => id));
  const appOfAccount = new Map(project.objects?.accounts.map(({ id, app }) => [id, app]));
  const { owner_id: ownerId, project_id: projectId } = scope;
  const variables = await variablesOfWorkflows(db, ownerId, projectId === '' ? null : projectId);
  const set = new Set(variables.map(({ name }) => name));
  const secret = new Set(variables.flatMap((one) => (Number(one.secret) === 1 ? one.name : [])));
  const [given, saved] = [answers.accounts, answers.saved].map((ids) => new Map(Object.entries(ids)));
  return {
    dataStores,
    sources,
    account: (oldId, app) => {
      // A prop may be called otherwise than its app, and the API knows the app.
      const apps = [app, appOfAccount.get(oldId) ?? app];
      const names = [oldId, ...apps];
      const known = [given, remembered, saved].flatMap((ids) => ids ?? []);
      const [found] = known.flatMap((ids) => names.flatMap((name) => ids.get(name) ?? []));
      return found;
    },
    source: (oldId) => sources.get(oldId),
    subscribes: (oldId) => subscriptions.has(oldId),
    // In a dry run there is none yet.
    dataStore: (oldId) => dataStores.get(oldId) ?? oldId,
    isSet: (name) => set.has(name),
    isSecret: (name) => secret.has(name),
    action: (key, version) => components.get(`${key}@${version}`) ?? { state: 'missing' },
  };
}

/** Every component that a step or a source names. */
function componentsIn({ workflows, objects }: ForeignProject): { key: string; version: string }[] {
  const actions = workflows.flatMap(({ steps }) =>
    steps.flatMap(({ content }) => (content.kind === 'action' ? [content] : [])),
  );
  const sources = (objects?.sources ?? []).map(({ component }) => component);
  return [...actions, ...sources].filter(({ key }) => key !== '');
}

/** Throws CallerError `invalid_parameter` for an account that workflows of this owner may not use. */
export async function checkAnswers(
  db: Db,
  { accounts }: ImportAnswers,
  owners: readonly string[],
): Promise<void> {
  for (const [name, id] of Object.entries(accounts)) {
    if (!/^[\w.-]{1,200}$/.test(name))
      throw new CallerError(
        'invalid_parameter',
        `accounts: found ${JSON.stringify(name.slice(0, 60))}, expected the slug of an app or the id of an account`,
        { parameter: 'accounts' },
      );
    const account = /^apn_\w+$/.test(id) ? await findAccount(db, id) : undefined;
    if (account !== undefined && owners.includes(account.owner_id)) continue;
    const parameter = `accounts.${name}`;
    throw new CallerError(
      'invalid_parameter',
      `${parameter}: no account ${JSON.stringify(id.slice(0, 60))}`,
      {
        parameter,
      },
    );
  }
}

import { setTimeout as pause } from 'node:timers/promises';
import type { Account, App, ConfigurableProp, ConnectAccountAnswer } from '#sdk';
import { type Api, isObject, pathOf } from './api.ts';
import { CliError } from './exit-codes.ts';
import { titleOf } from './prop-values.ts';
import type { Session } from './session.ts';

const connectPatienceMs = 10 * 60_000;
const connectPollMs = 2000;
const accountsShown = 200;

/** Which connected account a component is to use; makes one where there is none. */
export async function askForAccount(
  session: Session,
  api: Api,
  definition: ConfigurableProp,
): Promise<unknown> {
  const slug = definition.app ?? '';
  const found = await api.list<Account>('/v1/accounts', accountsShown, { app: slug, ...session.owner });
  const other = Symbol('other');
  const none = Symbol('none');
  const chosen = await session.questions.one<unknown>(titleOf(definition), [
    ...found.map((account) => ({ label: labelOf(account), value: { authProvisionId: account.id } })),
    { label: `(connect ${found.length === 0 ? 'an' : 'another'} account of ${slug})`, value: other },
    ...(definition.optional === true ? [{ label: '(none)', value: none }] : []),
  ]);
  if (chosen === none) return undefined;
  if (chosen !== other) return chosen;
  const account = await connectAccount(session, api, slug, undefined);
  return { authProvisionId: account.id };
}

/** A new account: asks for its fields, or prints a link that the user opens in a browser. */
export async function connectAccount(
  session: Session,
  api: Api,
  slug: string,
  name: string | undefined,
): Promise<Account> {
  const app = await findApp(api, slug);
  if (app?.auth_type !== 'oauth') {
    const credentials =
      app === undefined ? await askForAnyFields(session, slug) : await askForFields(session, app);
    return api.data<Account>('POST', '/v1/accounts', {
      body: { ...session.owner, app: slug, name, credentials },
    });
  }
  return connectInBrowser(session, api, slug, name);
}

/** Waits until the link was followed. */
async function connectInBrowser(
  session: Session,
  api: Api,
  slug: string,
  name: string | undefined,
): Promise<Account> {
  const list = () => api.list<Account>('/v1/accounts', accountsShown, { app: slug, ...session.owner });
  const before = new Set((await list()).map(({ id }) => id));
  const link = await api.data<ConnectAccountAnswer>('POST', '/v1/accounts/connect', {
    body: { ...session.owner, app: slug, name },
  });
  session.terminal.note(`Open this in a browser:\n${link.connect_url}`);
  session.terminal.status('Waiting for the account …');
  const end = Date.now() + connectPatienceMs;
  while (Date.now() < end) {
    await pause(connectPollMs, undefined, { signal: session.interrupted }).catch(() => {
      throw new CliError('interrupted', 'interrupted');
    });
    const account = (await list()).find(({ id }) => !before.has(id));
    if (account !== undefined) return account;
  }
  throw new CliError('failed', `no account was connected within ${connectPatienceMs / 60_000} minutes`);
}

/** Undefined: the catalogue does not have it. Accounts of such an app work all the same. */
export async function findApp(api: Api, slug: string): Promise<App | undefined> {
  try {
    return await api.data<App>('GET', pathOf`/v1/apps/${slug}`);
  } catch (error) {
    if (error instanceof CliError && error.reason === 'notFound') return undefined;
    throw error;
  }
}

/** The fields of an account of an app that is not in the catalogue, which the user names. */
async function askForAnyFields(session: Session, slug: string): Promise<Record<string, unknown>> {
  session.terminal.note(
    `The app ${slug} is not in the catalogue. Give the fields that the component reads from $auth, such as api_key.`,
  );
  const credentials: Record<string, unknown> = {};
  for (;;) {
    const field = await session.questions.text('Name of a field (empty: no more):');
    if (field === '') return credentials;
    credentials[field] = await session.questions.secret(`${field}:`);
  }
}

export async function askForFields(
  session: Session,
  app: Pick<App, 'custom_fields_json'>,
): Promise<Record<string, unknown>> {
  const fields: unknown = JSON.parse(app.custom_fields_json);
  const credentials: Record<string, unknown> = {};
  for (const field of Array.isArray(fields) ? fields : []) {
    if (!isObject(field) || typeof field.name !== 'string') continue;
    const title = `${typeof field.label === 'string' ? field.label : field.name}:`;
    // Whatever is not known to be harmless is not shown while it is typed.
    const text = await (field.secret === false
      ? session.questions.text(title)
      : session.questions.secret(title));
    if (text !== '') credentials[field.name] = text;
  }
  return credentials;
}

function labelOf({ id, name, health }: Account): string {
  return `${name === null ? '' : `${name} `}${id}${health.state === 'failing' ? ', failing' : ''}`;
}

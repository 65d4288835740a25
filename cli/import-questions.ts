import type { Account, Import } from '#sdk';
import { type Api, pathOf } from './api.ts';
import { connectAccount } from './ask-account.ts';
import { readEnvFile } from './env-file.ts';
import { CliError } from './exit-codes.ts';
import { readTextFile } from './prop-values.ts';
import type { Choice } from './questions.ts';
import type { Session } from './session.ts';
import { visible } from './visible-text.ts';

/** Accounts of an app that a question offers. */
const accountsShown = 100;
/** Places and workflows that a question names. */
const placesShown = 3;

export interface NewVariable {
  name: string;
  value: string;
}

/** What a user answered; what was left empty is not in it. */
interface ImportAnswers {
  /** By the slug of an app, or by the id of an account there. */
  accounts: Record<string, string>;
  variables: NewVariable[];
}

type Report = Import['report'];

/** Asks once for each app and each variable that the workflows need and have not, as the dashboard does. `known`: variables with a value. */
export async function askForAnswers(
  session: Session,
  api: Api,
  { plan: { report }, known }: { plan: Pick<Import, 'report'>; known: readonly string[] },
): Promise<ImportAnswers> {
  return {
    accounts: await askForAccounts(session, api, report),
    variables: await askForVariables(session, report, known),
  };
}

async function askForAccounts(
  session: Session,
  api: Api,
  { accounts }: Report,
): Promise<Record<string, string>> {
  const answers: Record<string, string> = {};
  const open = accounts.filter(({ account_id }) => account_id === null);
  for (const { app, old_id, name, places } of open) {
    const isOnly = open.filter((one) => one.app === app).length === 1;
    const which = isOnly ? '' : ` in place of ${name === '' ? old_id : `${old_id} (${name})`}`;
    const chosen = await askForAccount(session, api, {
      app,
      title: `Account of ${app}${which}, ${usedBy(places)}`,
    });
    if (chosen !== undefined) answers[isOnly ? app : old_id] = chosen;
  }
  return answers;
}

/** Undefined: it is left empty. */
async function askForAccount(
  session: Session,
  api: Api,
  { app, title }: { app: string; title: string },
): Promise<string | undefined> {
  if (!(await isApp(api, app))) {
    session.terminal.note(
      `This service has no app ${visible(app)}: what uses it stays without an account until you describe the app.`,
    );
    return undefined;
  }
  const connect = Symbol('connect');
  const leave = Symbol('leave');
  for (;;) {
    const found = await api.list<Account>('/v1/accounts', accountsShown, { app, ...session.owner });
    const choices: Choice<string | symbol>[] = [
      ...found.map(({ id, name }) => ({ label: name === null ? id : `${name} ${id}`, value: id })),
      { label: `(connect ${found.length === 0 ? 'an' : 'another'} account of ${app})`, value: connect },
      { label: '(leave empty)', value: leave },
    ];
    const chosen = await session.questions.one<string | symbol>(title, choices);
    if (typeof chosen === 'string') return chosen;
    if (chosen === leave) return undefined;
    try {
      return (await connectAccount(session, api, app, undefined)).id;
    } catch (error) {
      // The question is asked again, and has the other ways out.
      if (!(error instanceof CliError) || error.reason === 'interrupted') throw error;
      session.terminal.problem(error.message);
    }
  }
}

async function isApp(api: Api, app: string): Promise<boolean> {
  try {
    await api.data('GET', pathOf`/v1/apps/${app}`);
    return true;
  } catch (error) {
    if (error instanceof CliError && error.reason === 'notFound') return false;
    throw error;
  }
}

async function askForVariables(
  session: Session,
  { variables }: Report,
  known: readonly string[],
): Promise<NewVariable[]> {
  const unset = variables.filter(({ name, set, secret }) => !set && !secret && !known.includes(name));
  const answers = unset.length > 1 ? await askForFile(session, unset) : new Map<string, string>();
  for (const { name, workflows } of unset) {
    if (answers.has(name)) continue;
    const value = await session.questions.secret(`Value of ${name}, ${usedBy(workflows)} (empty: skip)`);
    if (value !== '') answers.set(name, value);
  }
  return [...answers].map(([name, value]) => ({ name, value }));
}

/** The values of all of them in one file. */
async function askForFile(
  session: Session,
  unset: readonly { name: string }[],
): Promise<Map<string, string>> {
  const wanted = new Set(unset.map(({ name }) => name));
  for (;;) {
    const file = await session.questions.text(
      `The workflows read ${unset.length} variables that are not set. A .env file with their values (empty: ask for each)`,
    );
    if (file === '') return new Map();
    try {
      const { variables } = readEnvFile(await readTextFile(session, file, 'the .env file'));
      const found = variables.filter(({ name }) => wanted.has(name));
      session.terminal.note(`${file} sets ${found.length} of them.`);
      return new Map(found.map(({ name, value }) => [name, value]));
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      session.terminal.problem(error.message);
    }
  }
}

function usedBy(places: readonly string[]): string {
  const shown = places.slice(0, placesShown).join('; ');
  return places.length > placesShown
    ? `used by ${shown} and ${places.length - placesShown} more`
    : `used by ${shown}`;
}

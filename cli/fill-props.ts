import type { ConfigurableProp, ReloadComponentPropsAnswer } from '#sdk';
import type { Api } from './api.ts';
import { askForProp } from './ask-prop.ts';
import { componentErrors } from './component-errors.ts';
import type { KnownComponent } from './component-reference.ts';
import { CliError, usageError } from './exit-codes.ts';
import { idOfNamed } from './find-by-name.ts';
import { type GivenProps, isAskedFor, isNeeded, readPropText } from './prop-values.ts';
import type { Session } from './session.ts';

/** A component whose props change with every answer would never be done. */
const reloadsMax = 50;

export interface FillOptions {
  given: GivenProps;
  /** Without questions: a missing value is an error. */
  isSilent: boolean;
}

/**
 * Values for the props of a component: the given ones, and at a terminal the user's answers. Props that make others
 * appear (`reloadProps`) are settled as they come, so that the prompts fit the component at that point.
 */
export async function fillProps(
  session: Session,
  api: Api,
  component: KnownComponent,
  { given, isSilent }: FillOptions,
): Promise<Record<string, unknown>> {
  const values: Record<string, unknown> = { ...given.values };
  const mayAsk = !isSilent && session.questions.canAsk;
  let definitions = component.props;
  let reloads = 0;
  const settled = new Set<string>();
  const reload = async (): Promise<void> => {
    reloads += 1;
    if (reloads > reloadsMax)
      throw new CliError('failed', `the props of ${component.id} never come to an end`);
    definitions = await reloadedProps(session, api, component.id, values, definitions);
  };
  /** Asks for the value of a prop if necessary. True when its value makes other props. */
  const settle = async (definition: ConfigurableProp, ask: boolean): Promise<boolean> => {
    settled.add(definition.name);
    const text = given.texts.get(definition.name);
    if (text !== undefined) values[definition.name] = await readGivenProp(session, api, definition, text);
    else if (ask && values[definition.name] === undefined) {
      const value = await askForProp({ session, api, componentId: component.id, values, definition });
      if (value !== undefined) values[definition.name] = value;
    }
    return definition.reloadProps === true && values[definition.name] !== undefined;
  };
  // What is needed, in the order of the component; a reload may put something new before what comes next.
  for (let next = nextOf(definitions, settled); next !== undefined; next = nextOf(definitions, settled)) {
    if (await settle(next, mayAsk && isNeeded(next))) await reload();
  }
  if (mayAsk) {
    for (;;) {
      const optional = definitions.filter(
        (one) => isAskedFor(one) && values[one.name] === undefined && one.optional === true,
      );
      if (optional.length === 0) break;
      const chosen = await session.questions.many(
        'Which optional props do you want to set?',
        optional.map((one) => ({
          label: one.label ?? one.name,
          value: one,
          ...(one.description === undefined ? {} : { description: one.description }),
        })),
      );
      let hasNew = false;
      for (const definition of chosen) {
        if (await settle(definition, true)) {
          await reload();
          hasNew = true;
        }
      }
      for (let next = nextOf(definitions, settled); next !== undefined; next = nextOf(definitions, settled)) {
        if (await settle(next, isNeeded(next))) await reload();
      }
      if (!hasNew) break;
    }
  }
  refuseUnknown(given, definitions);
  refuseMissing(definitions, values, isSilent);
  return values;
}

/** As `readPropText`, with accounts by their name too. */
export async function readGivenProp(
  session: Session,
  api: Api,
  definition: ConfigurableProp,
  text: string,
): Promise<unknown> {
  if (definition.type !== 'app' || text.startsWith('{')) return readPropText(definition, text);
  return readPropText(definition, await idOfNamed(session, api, text, ['account'], { app: definition.app }));
}

function nextOf(
  definitions: readonly ConfigurableProp[],
  settled: ReadonlySet<string>,
): ConfigurableProp | undefined {
  return definitions.find(({ name }) => !settled.has(name));
}

async function reloadedProps(
  session: Session,
  api: Api,
  id: string,
  values: Record<string, unknown>,
  before: ConfigurableProp[],
): Promise<ConfigurableProp[]> {
  session.terminal.status('Asking the component for more props …');
  const answer = await api.call<ReloadComponentPropsAnswer>('POST', '/v1/components/props', {
    body: { ...session.owner, id, configured_props: values, dynamic_props: { configurableProps: before } },
  });
  session.terminal.endStatus();
  for (const problem of componentErrors(answer.errors)) session.terminal.problem(problem);
  return answer.dynamicProps?.configurableProps ?? before;
}

function refuseUnknown(given: GivenProps, definitions: readonly ConfigurableProp[]): void {
  const names = definitions.map(({ name }) => name);
  const unknown = [...given.texts.keys()].filter((name) => !names.includes(name));
  if (unknown.length === 0) return;
  throw usageError(
    `the component has no prop ${unknown.join(', ')}`,
    names.length === 0 ? 'It has no props.' : `It has: ${names.join(', ')}.`,
  );
}

function refuseMissing(
  definitions: readonly ConfigurableProp[],
  values: Record<string, unknown>,
  isSilent: boolean,
): void {
  const missing = definitions.filter((one) => isNeeded(one) && values[one.name] === undefined);
  if (missing.length === 0) return;
  const names = missing.map(
    ({ name, type, app }) => `${name} (${type === 'app' ? `account of ${app}` : type})`,
  );
  const account = missing.find(({ type }) => type === 'app');
  throw usageError(
    `missing prop${missing.length === 1 ? '' : 's'}: ${names.join(', ')}`,
    `Give them with --prop name=value or --props FILE${isSilent ? ', or leave out --yes to be asked at a terminal' : ''}.` +
      (account === undefined
        ? ''
        : ` \`millrace accounts list --app ${account.app}\` shows the ids of accounts, and \`millrace accounts create ${account.app}\` connects one.`),
  );
}

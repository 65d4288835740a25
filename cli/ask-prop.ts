import type { ConfigurableProp, ConfigureComponentAnswer } from '#sdk';
import { type Api, isObject } from './api.ts';
import { askForAccount } from './ask-account.ts';
import { componentErrors } from './component-errors.ts';
import { CliError } from './exit-codes.ts';
import { isNeeded, readPropText, titleOf } from './prop-values.ts';
import type { Choice } from './questions.ts';
import type { Session } from './session.ts';

export interface PropQuestion {
  session: Session;
  api: Api;
  /** Saved id (`sc_…`) or key of the component. */
  componentId: string;
  /** Values of the earlier props: the options of this one may depend on them. */
  values: Readonly<Record<string, unknown>>;
  definition: ConfigurableProp;
}

interface OptionPage {
  choices: Choice<unknown>[];
  context: unknown;
}

/** Entries of the list that are not options: the next page, and typing a value. */
const more = Symbol('more');
const typed = Symbol('typed');
/** Maximum pages of options that are loaded for a choice of several. */
const pagesAtOnce = 5;

/** Asks for the value of one prop. Undefined when the user leaves it out. */
export async function askForProp(question: PropQuestion): Promise<unknown> {
  const { session, api, definition } = question;
  const { type, description } = definition;
  if (description !== undefined && description !== '')
    session.terminal.note(`  ${description.slice(0, 500)}`);
  if (type === 'app') return askForAccount(session, api, definition);
  if (type === 'boolean') return session.questions.yes(titleOf(definition), definition.default === true);
  if (definition.remoteOptions === true) return askWithRemoteOptions(question);
  if (Array.isArray(definition.options) && definition.options.length > 0)
    return askWithChoices(question, definition.options.map(choiceOf));
  return askForText(question);
}

async function askForText({ session, definition }: PropQuestion): Promise<unknown> {
  const title = `${titleOf(definition)}${hintFor(definition.type)}:`;
  if (definition.secret === true) {
    const text = await session.questions.secret(title);
    return text === '' ? undefined : readPropText(definition, text);
  }
  const initial = initialOf(definition);
  const text = await session.questions.text(title, {
    ...(initial === undefined ? {} : { initial }),
    check: (entered) => {
      if (entered === '') return isNeeded(definition) ? 'a value is needed' : true;
      try {
        readPropText(definition, entered);
        return true;
      } catch (error) {
        if (error instanceof CliError) return error.message;
        throw error;
      }
    },
  });
  return text === '' ? undefined : readPropText(definition, text);
}

async function askWithChoices(question: PropQuestion, choices: Choice<unknown>[]): Promise<unknown> {
  const { session, definition } = question;
  if (definition.type.endsWith('[]')) return session.questions.many(titleOf(definition), choices);
  const chosen = await session.questions.one<unknown>(
    titleOf(definition),
    [...choices, { label: '(type a value)', value: typed }],
    definition.default,
  );
  return chosen === typed ? askForText(question) : chosen;
}

async function askWithRemoteOptions(question: PropQuestion): Promise<unknown> {
  const { session, definition } = question;
  if (definition.useQuery === true && !definition.type.endsWith('[]')) {
    const chosen = await session.questions.find<unknown>(
      `${titleOf(definition)}, type to search`,
      async (query) => [
        ...(await optionPage(question, { page: 0, query })).choices,
        { label: '(type a value)', value: typed },
      ],
    );
    return chosen === typed ? askForText(question) : chosen;
  }
  const isMany = definition.type.endsWith('[]');
  const choices: Choice<unknown>[] = [];
  let context: unknown = {};
  for (let page = 0; ; page += 1) {
    const found = await optionPage(question, { page, context });
    choices.push(...found.choices);
    context = found.context;
    const mayGoOn = found.choices.length > 0;
    if (choices.length === 0) {
      session.terminal.note('  The component offers nothing to choose from; type a value.');
      return askForText(question);
    }
    if (isMany) {
      if (mayGoOn && page + 1 < pagesAtOnce && isObject(context) && Object.keys(context).length > 0) continue;
      return session.questions.many(titleOf(definition), choices);
    }
    const chosen = await session.questions.one<unknown>(titleOf(definition), [
      ...choices,
      ...(mayGoOn ? [{ label: '(more …)', value: more }] : []),
      { label: '(type a value)', value: typed },
    ]);
    if (chosen === typed) return askForText(question);
    if (chosen !== more) return chosen;
  }
}

async function optionPage(
  { session, api, componentId, values, definition }: PropQuestion,
  { page, context = {}, query = '' }: { page: number; context?: unknown; query?: string },
): Promise<OptionPage> {
  if (query === '') session.terminal.status(`Asking what ${definition.name} can be …`);
  const answer = await api.call<ConfigureComponentAnswer>('POST', '/v1/components/configure', {
    body: {
      ...session.owner,
      id: componentId,
      prop_name: definition.name,
      configured_props: values,
      page,
      prev_context: context,
      query,
    },
  });
  session.terminal.endStatus();
  for (const problem of componentErrors(answer.errors)) session.terminal.problem(problem);
  return { choices: answer.options.map(choiceOf), context: answer.context };
}

/** Some components need the label of an option, so it is sent with the value. */
function choiceOf(option: unknown): Choice<unknown> {
  if (!isObject(option) || !('value' in option)) return { label: textOf(option), value: option };
  const label = typeof option.label === 'string' ? option.label : textOf(option.value);
  return { label, value: { __lv: { label, value: option.value } } };
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function initialOf({ type, default: initial }: ConfigurableProp): string | undefined {
  if (initial === undefined || initial === null) return undefined;
  if (type === '$.interface.timer' && isObject(initial)) {
    if (typeof initial.intervalSeconds === 'number') return String(initial.intervalSeconds);
    if (typeof initial.cron === 'string') return initial.cron;
  }
  return textOf(initial);
}

function hintFor(type: string): string {
  if (type === '$.interface.timer') return ', seconds or cron';
  if (type.endsWith('[]')) return ', with commas between or as JSON';
  return type === 'object' ? ', as JSON' : '';
}

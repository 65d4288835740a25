import { parse } from 'node:path';
import type { Source } from '#sdk';
import { type Api, isObject } from './api.ts';
import { type CommandOptions, textOption } from './command-kit.ts';
import {
  type ComponentReference,
  type KnownComponent,
  knowComponent,
  type LocalCode,
  readReference,
} from './component-reference.ts';
import { CliError, usageError } from './exit-codes.ts';
import { fillProps } from './fill-props.ts';
import { readGivenProps, readJsonArgument } from './prop-values.ts';
import type { Session } from './session.ts';

/** Options of commands that make a source. */
export function givenProps(session: Session, options: CommandOptions) {
  return readGivenProps(session, {
    ...(Array.isArray(options.prop) ? { prop: options.prop as string[] } : {}),
    ...(typeof options.props === 'string' ? { props: options.props } : {}),
  });
}

/** How many runs of a source there may be, and when they may begin; what is not given stays as it is. */
export async function runLimits(
  session: Session,
  options: CommandOptions,
): Promise<{ concurrency?: number; flow_control?: unknown }> {
  const concurrency = textOption(options, 'concurrency');
  const flowControl = textOption(options, 'flowControl');
  return {
    ...(concurrency === undefined ? {} : { concurrency: wholeNumber(concurrency, '--concurrency') }),
    ...(flowControl === undefined
      ? {}
      : { flow_control: await readJsonArgument(session, flowControl, '--flow-control') }),
  };
}

function wholeNumber(text: string, option: string): number {
  if (!/^\d{1,9}$/.test(text)) throw usageError(`${option}: ${text}, expected a whole number`);
  return Number(text);
}

export interface MadeSource {
  source: Source;
  local: LocalCode | undefined;
}

/** Makes an active source of a file, a key or a URL: values come from the options, or from prompts. */
export async function makeSource(
  session: Session,
  api: Api,
  text: string,
  options: CommandOptions,
): Promise<MadeSource> {
  const given = await givenProps(session, options);
  session.terminal.status('Reading the component …');
  const reference = readReference(session.folder, text);
  const component = await knowComponent(api, reference, session.owner);
  session.terminal.endStatus();
  refuseOtherThanSource(component, text);
  const values = await fillProps(session, api, component, { given, isSilent: options.yes === true });
  session.terminal.status(`Deploying ${component.name} …`);
  const source = await api.data<Source>('POST', '/v1/sources', {
    body: {
      ...session.owner,
      ...(component.id.startsWith('sc_') ? { component_id: component.id } : { key: component.id }),
      name: textOption(options, 'name') ?? fileName(reference, component),
      configured_props: values,
      ...(await runLimits(session, options)),
    },
  });
  session.terminal.endStatus();
  return { source, local: component.local };
}

/** What the service calls a component that names itself neither by name nor by key. */
const nameless = 'Component';

/** A component without a name is called as its file; undefined: the service names the source. */
function fileName(reference: ComponentReference, { name }: KnownComponent): string | undefined {
  if (reference.kind !== 'file' || name !== nameless) return undefined;
  return parse(reference.file).name.slice(0, 200);
}

/** Where requests to a source or a trigger go; undefined when it takes none. */
export function endpointOf({
  configured_props: props,
}: Pick<Source, 'configured_props'>): string | undefined {
  const endpoint = Object.values(props).find(
    (value) => isObject(value) && typeof value.endpoint_url === 'string',
  );
  return isObject(endpoint) ? String(endpoint.endpoint_url) : undefined;
}

function refuseOtherThanSource(component: KnownComponent, text: string): void {
  if (component.type === 'source') return;
  throw new CliError('failed', `${text} is an ${component.type}, and only sources are deployed`, {
    hint:
      component.type === 'action'
        ? `\`millrace invoke ${text}\` runs it once; workflows use it as a step.`
        : undefined,
  });
}

import { globSync } from 'node:fs';

/** A component as its file exports it, as far as the page shows it. */
interface Component {
  key: string;
  name: string;
  version: string;
  description: string;
  type: 'source' | 'action';
  props: Record<string, Prop | string>;
}

interface Prop {
  type: string;
  /** The rest of the definition: a prop of an app, by its name. */
  propDefinition?: readonly [app: { propDefinitions?: Record<string, Prop> }, name: string];
  label?: string;
  description?: string;
  optional?: boolean;
  default?: unknown;
  options?: readonly (unknown | { label: string; value: unknown })[];
}

/** The components in the folder `root`, in the order of their keys. */
export async function builtInComponents(root: URL): Promise<Component[]> {
  const paths = globSync('*/{sources,actions}/*.ts', { cwd: root }).filter(
    (path) => !path.endsWith('.test.ts'),
  );
  const modules = await Promise.all(
    paths.map((path) => import(new URL(path, root).href) as Promise<{ default: Component }>),
  );
  return modules.map((module) => module.default).sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
}

/** The page of the manual about the components that are included. */
export function componentPage(components: readonly Component[], notice: string): string {
  const byApp = Map.groupBy(components, ({ key }) => key.slice(0, key.indexOf('-')));
  return [
    notice,
    '# Built-in components',
    '',
    'These sources and actions are included in Millrace and need no package. A source is deployed by its key, and an action is a step of a workflow',
    'or [runs by API](../how-it-works/actions.md). Each has its own table of props.',
    '',
    ...[...byApp].flatMap(([app, of]) => [
      `- [${app}](#${app}): ${of.map(({ key }) => `\`${key}\``).join(', ')}`,
    ]),
    '',
    ...[...byApp].flatMap(([app, of]) => [`## ${app}`, '', ...of.flatMap(componentSection)]),
  ].join('\n');
}

function componentSection({ key, name, type, version, description, props }: Component): string[] {
  const shown = Object.entries(props).flatMap(([prop, given]) => {
    const definition = resolved(given);
    // An app without a description of its own is there for its methods, and has no account.
    const isHidden =
      /^\$\.service\.|^alert$/.test(definition.type) ||
      (definition.type === 'app' && definition.description === undefined);
    return isHidden ? [] : [propRow(prop, definition)];
  });
  const table = ['| prop | type | default | meaning |', '| --- | --- | --- | --- |', ...shown, ''];
  return [
    `### ${key}`,
    '',
    `**${name}** (${type}, version ${version}). ${description}.`,
    '',
    ...(shown.length === 0 ? ['No props.', ''] : table),
  ];
}

function resolved(given: Prop | string): Prop {
  if (typeof given === 'string') return { type: given };
  const [app, name] = given.propDefinition ?? [];
  return { ...(name === undefined ? {} : app?.propDefinitions?.[name]), ...given };
}

function propRow(
  name: string,
  { type, label, description, optional, default: byDefault, options }: Prop,
): string {
  const isDefault = byDefault !== undefined;
  const isGiven = optional === true || type === 'data_store' || type === '$.interface.http';
  const value = isDefault ? `\`${JSON.stringify(byDefault)}\`` : isGiven ? 'none' : 'required';
  const choices = (options ?? []).map((option) => `\`${choiceOf(option)}\`${labelOf(option)}`);
  const meaning = [description ?? label ?? '', choices.length === 0 ? '' : `One of ${choices.join(', ')}`];
  const cells = [`\`${name}\``, `\`${type}\``, value, meaning.filter((text) => text !== '').join('. ')];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`;
}

function choiceOf(option: unknown): string {
  return String(isLabelled(option) ? option.value : option);
}

function labelOf(option: unknown): string {
  return isLabelled(option) && option.label !== String(option.value) ? ` (${option.label})` : '';
}

function isLabelled(option: unknown): option is { label: string; value: unknown } {
  return typeof option === 'object' && option !== null && 'value' in option;
}

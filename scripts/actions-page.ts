import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { table } from './api-tables.ts';

interface ActionFile {
  key: string;
  name: string;
  description: string;
  props: Record<string, PropText | string>;
}

interface PropText {
  type: string;
  description?: string;
  optional?: boolean;
  default?: unknown;
  options?: unknown;
  /** The app file, and the name of the definition there. */
  propDefinition?: [{ propDefinitions: Record<string, PropText> }, string];
}

const componentsFolder = join(import.meta.dirname, '..', 'components');

/** The page of the actions in `components/`, from the files themselves. */
export async function actionsPage(notice: string): Promise<{ path: string; text: string }> {
  const paths = globSync('*/actions/*.ts', { cwd: componentsFolder }).filter(
    (path) => !basename(path).endsWith('.test.ts'),
  );
  const actions = await Promise.all(
    paths.sort().map(async (path) => {
      const module = await import(pathToFileURL(join(componentsFolder, path)).href);
      return { app: path.split(/[/\\]/)[0] ?? '', ...(module.default as ActionFile) };
    }),
  );
  const sections = [...Map.groupBy(actions, ({ app }) => app)].flatMap(([app, ofApp]) => [
    `## ${appName(app)}`,
    '',
    ...ofApp.flatMap(actionSection),
  ]);
  const text = [
    notice,
    '# Built-in actions',
    '',
    'These actions come with Millrace and need no account. A step of a workflow names one by its key:',
    '`{"namespace": "trim", "component": "formatting-trim-whitespace", "props": {"input": "{{steps.trigger.event.body.name}}"}}`.',
    'The value that an action returns is `steps.<namespace>.$return_value`. An action whose props are wrong ends the run with a',
    '`ConfigurationError` that names the prop, what was found, and what was expected.',
    '',
    ...sections,
  ].join('\n');
  return { path: 'docs/reference/built-in-actions.md', text };
}

function appName(slug: string): string {
  const file = join(componentsFolder, '..', 'apps', `${slug}.json`);
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as { name: string }).name : slug;
}

function actionSection({ key, name, description, props }: ActionFile): string[] {
  const rows = Object.entries(props)
    .map(([prop, definition]) =>
      propRow(prop, typeof definition === 'string' ? { type: definition } : definition),
    )
    .filter((row) => row !== undefined);
  return [
    `### ${name}`,
    '',
    `\`${key}\`: ${description}`,
    '',
    ...(rows.length === 0 ? [] : [table(['prop', 'type', 'meaning'], rows), '']),
  ];
}

/** Undefined for props that have no value. */
function propRow(name: string, own: PropText): string[] | undefined {
  const [app, inherited = ''] = own.propDefinition ?? [];
  const prop = { ...app?.propDefinitions[inherited], ...own };
  if (prop.type === 'app' || prop.type === 'alert') return undefined;
  const isRequired = prop.optional !== true && prop.default === undefined;
  const values = Array.isArray(prop.options) ? prop.options.map(valueOfOption) : [];
  const meaning = [
    isRequired ? 'Required.' : '',
    prop.description === undefined ? '' : `${prop.description}.`.replace(/\.\.$/, '.'),
    values.length === 0 || values.length > 12
      ? ''
      : `Values: ${values.map((value) => code(value)).join(' ')}.`,
    prop.default === undefined || prop.default === '' ? '' : `Default: ${code(prop.default)}.`,
  ];
  return [`\`${name}\``, prop.type, meaning.filter((text) => text !== '').join(' ')];
}

function valueOfOption(option: unknown): unknown {
  return typeof option === 'object' && option !== null && 'value' in option ? option.value : option;
}

function code(value: unknown): string {
  return `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``;
}

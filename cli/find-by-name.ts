import { type Api, type ApiObject, type Parameters, pathOf } from './api.ts';
import { CliError, usageError } from './exit-codes.ts';
import { ownedPath } from './owned-path.ts';
import type { Session } from './session.ts';

/** What a user may name instead of giving its id. */
export type NamedKind =
  | 'source'
  | 'workflow'
  | 'webhook'
  | 'account'
  | 'app'
  | 'project'
  | 'template'
  | 'data store'
  | 'workspace';

/** Objects of one kind that a name is looked for among; in larger workspaces the id is needed. */
const namesMax = 10_000;
/** Candidates that an error lists. */
const candidatesMax = 20;

/** As the service makes them; `dc_*` and `p_*` are all of a kind. */
const idPattern = /^(?:[a-z]{1,4}_(?:[A-Za-z0-9]{12}|[A-Za-z0-9]{27}|\*)|[A-Za-z0-9]{27})$/;
/** Text that may still be an id: the service then reports what is wrong with it. */
const prefixPattern = /^[a-z]{1,4}_[A-Za-z0-9]+$/;

interface NamedThing {
  kind: NamedKind;
  id: string;
  name: string;
  names: readonly string[];
}

/** What operands and values of options are called in the help, and what may be named there. */
const kindsByOperand: Readonly<Record<string, readonly NamedKind[]>> = {
  source: ['source'],
  workflow: ['workflow'],
  webhook: ['webhook'],
  account: ['account'],
  app: ['app'],
  project: ['project'],
  template: ['template'],
  'data-store': ['data store'],
  workspace: ['workspace'],
  emitter: ['source', 'workflow'],
  listener: ['webhook', 'workflow', 'source'],
};

/** Undefined: the operand is no id of something that has a name. */
export function kindsOf(operand: string): readonly NamedKind[] | undefined {
  return Object.hasOwn(kindsByOperand, operand) ? kindsByOperand[operand] : undefined;
}

/** The id of an object that is given by its id, name or slug. Names are compared without case. */
export async function idOfNamed(
  session: Session,
  api: Api,
  text: string,
  kinds: readonly NamedKind[],
  filter: Parameters = {},
): Promise<string> {
  const found = isId(text) ? text : await findByName(session, api, text, kinds, filter);
  if (found !== undefined) return found;
  if (prefixPattern.test(text) || kinds.includes('app')) return text;
  const lists = kinds
    .filter((kind) => kind !== 'project' && kind !== 'template')
    .map((kind) =>
      kind === 'workspace' ? '`millrace whoami`' : `\`millrace ${kind.replace(' ', '-')}s list\``,
    );
  throw new CliError('notFound', `no ${inWords(kinds, 'or')} has the name ${JSON.stringify(text)}`, {
    hint: [
      ...(lists.length === 0
        ? []
        : [`${inWords(lists, 'and')} show${lists.length === 1 ? 's' : ''} the names.`]),
      ...(kinds.includes('template') ? ['The page Templates of the dashboard shows them.'] : []),
      ...(kinds.includes('workspace') || session.workspace !== undefined
        ? []
        : ['Names of a workspace need --workspace.']),
    ].join(' '),
  });
}

/** `a, b or c`. */
function inWords(names: readonly string[], word: 'and' | 'or'): string {
  return names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} ${word} ${names.at(-1)}`;
}

export function isId(text: string): boolean {
  return idPattern.test(text);
}

/**
 * The id of the one object of these kinds with this name, among the caller's own or those of the workspace; undefined: none has it.
 * Throws a usage error with the candidates if several have it.
 */
export async function findByName(
  session: Session,
  api: Api,
  text: string,
  kinds: readonly NamedKind[],
  filter: Parameters = {},
): Promise<string | undefined> {
  const wanted = folded(text);
  if (wanted === '') return undefined;
  const things = await Promise.all(kinds.map((kind) => thingsOf(session, api, kind, text, filter)));
  const found = things.flat().filter(({ names }) => names.some((name) => folded(name) === wanted));
  if (found.length > 1) throw ambiguous(text, found);
  return found[0]?.id;
}

async function thingsOf(
  session: Session,
  api: Api,
  kind: NamedKind,
  text: string,
  filter: Parameters,
): Promise<NamedThing[]> {
  const items = await listOf(session, api, kind, text, filter);
  return items.map((item) => {
    const name = typeof item.name === 'string' ? item.name : '';
    const slugs = [item.name_slug, item.orgname].filter((one) => typeof one === 'string');
    const names = [name, ...(slugs.length === 0 ? [slugOf(name)] : slugs)].filter((one) => one !== '');
    return { kind, id: String(kind === 'app' ? item.name_slug : item.id), name, names };
  });
}

function listOf(
  session: Session,
  api: Api,
  kind: NamedKind,
  text: string,
  filter: Parameters,
): Promise<ApiObject[]> {
  const { workspace, owner } = session;
  switch (kind) {
    case 'source':
      return api.list(ownedPath(session, 'sources'), namesMax, { include: 'id,name,name_slug' });
    case 'workflow':
    case 'webhook':
      return api.list(ownedPath(session, `${kind}s`), namesMax, { include: 'id,name' });
    case 'account':
      return api.list('/v1/accounts', namesMax, { include: 'id,name', ...owner, ...filter });
    case 'app':
      return api.list('/v1/apps', namesMax, { q: text, include: 'name,name_slug', ...owner });
    case 'project':
      if (workspace === undefined)
        throw usageError('a project is named within its workspace', 'Give --workspace, or the id (proj_…).');
      return api.whole(pathOf`/v1/workspaces/${workspace}/projects`);
    case 'template':
      return api.list('/v1/templates', namesMax, { include: 'id,name' });
    case 'data store':
      return api.list(ownedPath(session, 'data_stores'), namesMax, { include: 'id,name' });
    case 'workspace':
      return api.whole('/v1/workspaces');
  }
}

function ambiguous(text: string, found: readonly NamedThing[]): CliError {
  const candidates = found.slice(0, candidatesMax).map(({ kind, id, name }) => ({ kind, id, name }));
  const more = found.length - candidates.length;
  return new CliError('usage', `${JSON.stringify(text)} is the name of ${found.length} objects`, {
    details: { candidates },
    hint: `Give the id of one of them:\n${candidates
      .map(({ kind, id, name }) => `  ${id}  ${kind}  ${name}`)
      .join('\n')}${more === 0 ? '' : `\n  and ${more} more`}`,
  });
}

function folded(text: string): string {
  return text.normalize('NFC').trim().toLowerCase();
}

/** As the service makes slugs: what has none of its own is found by this one. */
function slugOf(name: string): string {
  return name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll('ß', 'ss')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '');
}

import type { Account, Import } from '#sdk';
import { type Api, pathOf } from './api.ts';
import { usageError } from './exit-codes.ts';
import { PipedreamApi } from './pipedream-api.ts';
import { readTextFile } from './prop-values.ts';
import { type ApiRecords, type KnownIds, readPipedream } from './read-pipedream.ts';
import { archiveBytesMax, isBundle, type ProjectContent } from './read-project.ts';
import type { Session } from './session.ts';

/** As the service reads it (src/imports/read-bundle.ts). */
const bundleFormat = { format: 'millrace-import-bundle', version: 1 };

/** What the service is asked for beside the content. */
interface ImportOptions {
  org_id: string | undefined;
  project_id: string | undefined;
  activate: boolean;
  accounts: Readonly<Record<string, string>>;
  dry_run?: boolean;
}

/** An archive or a bundle is the body itself, which may be larger than one in JSON. */
export function sendImport(
  api: Api,
  content: ProjectContent,
  { accounts, ...options }: ImportOptions,
): Promise<Import> {
  if (!('bytes' in content))
    return api.data<Import>('POST', '/v1/imports', { body: { ...options, ...content, accounts } });
  const pairs = Object.entries(accounts).map(([name, id]) => `${name}=${id}`);
  const query = { ...options, accounts: pairs.length === 0 ? undefined : pairs.join(',') };
  return api.data<Import>('POST', '/v1/imports', { query, body: content.bytes });
}

/**
 * Reads what the API there has, and puts it beside what is `given`. The key goes to that API alone; should an answer or a file hold it, it is
 * replaced. The service says which workflows and triggers a repository or an archive names: it reads every format.
 */
export async function readBundle(
  session: Session,
  api: Api,
  {
    keyFile,
    given,
    url,
    workspaces,
  }: { keyFile: string; given: ProjectContent | undefined; url: string; workspaces: readonly string[] },
): Promise<Buffer> {
  if (given !== undefined && 'bytes' in given && isBundle(given.bytes))
    throw usageError(
      'a bundle has what the API answered already',
      'Give the repository or the archive, or leave out --api-key-file.',
    );
  for (const id of workspaces)
    if (!/^o_\w{1,100}$/.test(id))
      throw usageError(`--api-workspace ${id}: expected the id of a workspace (o_…)`);
  const key = (await readTextFile(session, keyFile, '--api-key-file')).trim();
  const { terminal, interrupted } = session;
  const pipedream = new PipedreamApi({
    ...{ url, key, signal: interrupted },
    onWait: (text) => terminal.status(text),
  });
  const known = given === undefined ? { workflows: [], triggers: [] } : await knownIds(session, api, given);
  const records = await readPipedream(pipedream, {
    ...{ known, workspaces },
    onPart: (part) => terminal.status(`Reading ${part} …`),
  });
  terminal.endStatus();
  return bundleOf(records, { given, key, url: pipedream.url });
}

/**
 * A bundle with the accounts that were chosen, so that an import of it does not ask for them again: by their ids, and by app and name for
 * other workspaces and services. Accounts of an earlier save stay unless another one was chosen. Credentials are not read.
 */
export async function withAccounts(
  api: Api,
  bundle: Buffer,
  accounts: Readonly<Record<string, string>>,
): Promise<Buffer> {
  const content = JSON.parse(bundle.toString()) as { answers?: { accounts?: object } };
  const saved: Record<string, unknown> = { ...content.answers?.accounts };
  for (const [place, id] of Object.entries(accounts)) {
    const { name, app } = await api.data<Account>('GET', pathOf`/v1/accounts/${id}`);
    saved[place] = { id, app: app.name_slug, ...(name === null ? {} : { name }) };
  }
  return asBytes({ ...content, answers: { accounts: saved } });
}

function asBytes(bundle: object): Buffer {
  const bytes = Buffer.from(`${JSON.stringify(bundle)}\n`);
  if (bytes.length > archiveBytesMax)
    throw usageError('the bundle would be larger than 64 MB', 'Import the repository folder by folder.');
  return bytes;
}

async function knownIds(session: Session, api: Api, given: ProjectContent): Promise<KnownIds> {
  session.terminal.status('Reading …');
  const { report } = await sendImport(api, given, {
    ...{ ...session.owner, project_id: undefined, activate: false, accounts: {}, dry_run: true },
  });
  return {
    workflows: report.workflows.map(({ old_id }) => old_id),
    triggers: report.workflows.flatMap(({ triggers }) => triggers.map(({ old_id }) => old_id)),
  };
}

function bundleOf(
  records: ApiRecords,
  { given, key, url }: { given: ProjectContent | undefined; key: string; url: string },
): Buffer {
  const content =
    given === undefined
      ? {}
      : 'bytes' in given
        ? { archive: given.bytes.toString('base64') }
        : { files: given.files };
  const bundle = {
    ...bundleFormat,
    created_at: new Date().toISOString(),
    api_url: url,
    ...content,
    api: records,
  };
  const inJson = JSON.stringify(key).slice(1, -1);
  return asBytes(JSON.parse(JSON.stringify(bundle).replaceAll(inJson, 'API_KEY_REMOVED')) as object);
}

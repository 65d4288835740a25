import { isRecord } from '#components/validate-props.ts';
import { isDeeperThan } from '#lib/json-depth.ts';
import { readApiRecords } from './api-records.ts';
import { completeProject } from './complete-project.ts';
import type { ForeignProject } from './project.ts';
import { type ProjectFiles, refused } from './project-files.ts';
import { checkFiles, readArchive } from './read-archive.ts';
import { readProject } from './read-project.ts';
import { readSavedAccounts, type SavedAccount } from './saved-accounts.ts';

/** `format` of a bundle. */
export const bundleFormat = 'millrace-import-bundle';
/** The one version of the format that is read. */
const bundleVersion = 1;
/** Objects and lists within one another: events of sources are in it. */
const depthMax = 300;

/** What was read of the hosted service by its API, with the repository or archive beside it. */
export interface Bundle {
  /** Undefined: it has only what the API answered. */
  files: ProjectFiles | undefined;
  /** As the API answered it (api-records.ts). */
  api: Record<string, unknown>;
  /** Accounts that were chosen when it was saved. */
  accounts: SavedAccount[];
}

/** True for JSON: an archive begins with `PK`. */
export function isBundle(bytes: Buffer): boolean {
  return /^\s*\{/.test(bytes.subarray(0, 100).toString('latin1'));
}

/** Throws CallerError `invalid_import` for what is no bundle, or one of another version. */
export async function readBundle(bytes: Buffer): Promise<Bundle> {
  const text = bytes.toString('utf8');
  if (isDeeperThan(text, depthMax)) throw refused(`the bundle is nested more than ${depthMax} levels deep`);
  const bundle = parse(text);
  if (!isRecord(bundle) || bundle.format !== bundleFormat)
    throw refused(`format: expected ${bundleFormat}, in a bundle that millrace import --save has written`);
  const { version, api, archive, files, answers } = bundle;
  if (version !== bundleVersion)
    throw refused(
      `version: found ${typeof version === 'number' ? version : 'no number'}, expected ${bundleVersion}: update this service, or save the bundle again`,
    );
  if (!isRecord(api)) throw refused('api: expected an object with what the API answered');
  const accounts = readSavedAccounts(answers);
  if (archive !== undefined && files !== undefined)
    throw refused('archive: found beside files, expected one of the two');
  if (archive !== undefined) {
    if (typeof archive !== 'string') throw refused('archive: expected a ZIP archive in base64');
    return { files: await readArchive(Buffer.from(archive, 'base64')), api, accounts };
  }
  if (files === undefined) return { files: undefined, api, accounts };
  if (!isTexts(files)) throw refused('files: expected texts by their paths');
  return { files: checkFiles(files), api, accounts };
}

/** The project of a bundle: what the repository or archive has, completed by what the API answered. */
export function readBundledProject({ files, api, accounts }: Bundle): ForeignProject {
  const project = files === undefined || files.size === 0 ? undefined : readProject(files);
  return { ...completeProject(project, readApiRecords(api)), savedAccounts: accounts };
}

/** For an outline: the files, and the answers of the API without events and without the ids that they are found by. */
export function bundleFiles({ files, api }: Pick<Bundle, 'files' | 'api'>): ProjectFiles {
  const { events: _events, components, workflows, ...lists } = api;
  const values = (given: unknown) => (isRecord(given) ? Object.values(given) : given);
  const answers = { ...lists, components: values(components), workflows: values(workflows) };
  return new Map([...(files ?? []), ['api.json', JSON.stringify(answers)]]);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw refused('the bundle is not well-formed JSON');
  }
}

function isTexts(value: unknown): value is Record<string, string> {
  return isRecord(value) && Object.values(value).every((text) => typeof text === 'string');
}

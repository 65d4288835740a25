import { findComponentByKey } from '#components/component-store.ts';
import type { Db } from '#storage/store.ts';
import { newestOf } from './component-versions.ts';
import type { LocalRegistry } from './local-registry.ts';
import { findPackagedKey } from './package-store.ts';
import { findRepositoryVersions } from './repository-store.ts';

/** How a component that is pinned elsewhere can be named here. Nothing is built to find it out. */
export type ComponentAvailability =
  /** This version. */
  | { state: 'exact'; component: string; version: string }
  /** It ships with the service, which has versions of its own. */
  | { state: 'included'; component: string; version: string }
  | { state: 'other_version'; component: string; version: string }
  | { state: 'missing' };

/** `version` '': any. `owners`: those whose saved components may be used. */
export async function findAvailability(
  { db, registry }: { db: Db; registry: Pick<LocalRegistry, 'find'> },
  { key, version, owners }: { key: string; version: string; owners: readonly string[] },
): Promise<ComponentAvailability> {
  const packaged = await findPackagedKey(db, key);
  const committed = await findRepositoryVersions(db, key);
  const saved = await findComponentByKey(db, key, owners);
  if (version !== '') {
    const isThere =
      [...packaged, ...committed].some((one) => one.version === version) ||
      (await findComponentByKey(db, key, owners, version)) !== undefined;
    if (isThere) return { state: 'exact', component: `${key}@${version}`, version };
  }
  if ((await registry.find(key)) !== undefined) return { state: 'included', component: key, version: '' };
  const candidates = (rows: readonly { version: string }[]) =>
    rows.map((row) => ({ version: row.version, package_created_at_ms: 0 }));
  const state = version === '' ? 'exact' : 'other_version';
  const heads = committed.filter(({ is_head }) => Number(is_head) === 1);
  const newest = newestOf(candidates([...packaged, ...heads, ...(saved === undefined ? [] : [saved])]));
  if (newest !== undefined) return { state, component: key, version: newest.version };
  // It is in the history only, where a version has to be named.
  const last = newestOf(candidates(committed));
  if (last !== undefined) return { state, component: `${key}@${last.version}`, version: last.version };
  return { state: 'missing' };
}

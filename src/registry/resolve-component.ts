import { createHash } from 'node:crypto';
import type { BuiltBundle, ComponentBuilder, ComponentSource } from '#components/build-component.ts';
import {
  findComponent,
  findComponentByCode,
  findComponentByKey,
  findComponentByOrigin,
  findComponentByTree,
  insertComponent,
} from '#components/component-store.ts';
import { recordUse } from '#components/component-use-store.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { nearestName } from '#lib/nearest-name.ts';
import { bytesText } from '#lib/units.ts';
import type { Runner } from '#runner/runner.ts';
import type { Store } from '#storage/store.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import type { RegistryComponentTable } from '#storage/tables/registry-tables.ts';
import { isComponentUrl, requireComponentUrl } from './check-component-url.ts';
import { compareVersions, newestOf } from './component-versions.ts';
import { type BuildWay, buildAndEvaluate, shapeFrom } from './evaluated-component.ts';
import type { LocalRegistry } from './local-registry.ts';
import { findPackagedKey, keepBuilt, readPackageFile } from './package-store.ts';
import type { RepositoryFiles } from './repository-files.ts';
import { findRepositoryVersions, type RepositoryVersion } from './repository-store.ts';
import { originOf } from './repository-url.ts';

/** How a request names a component; the first of these that is there counts (specification, section 4, Sources). */
export interface ComponentReference {
  component_id?: string;
  component_code?: string;
  component_url?: string;
  key?: string;
}

export interface ComponentOwner {
  ownerId: string;
  userId: string;
  /** Owners whose components the caller may use. */
  readableOwners: readonly string[];
}

/** The owner of what is built from the registry's own files. */
export const registryOwner = 'registry';
const ownerOfRegistry = { ownerId: registryOwner, userId: registryOwner };

/** Versions of a component that an error message names. */
const versionsShown = 5;

/** Source text of one component at most (specification: 400 for more). */
const codeBytesMax = 2 * 1024 * 1024;

/**
 * From a reference to a saved component: found, or built and evaluated once. The same code of the same owner is the
 * same component, with the dependency versions of its first build: nothing is resolved, bundled or evaluated twice.
 */
export class ComponentResolver {
  readonly #store: Store;
  readonly #builder: Pick<ComponentBuilder, 'build' | 'evaluated'>;
  readonly #runner: Pick<Runner, 'describe'>;
  readonly #registry: LocalRegistry;
  readonly #repositories: Pick<RepositoryFiles, 'use'>;
  readonly #clock: Clock;
  /** Builds from repositories that are under way, by where the component comes from. */
  readonly #fromRepositories = new Map<string, Promise<ComponentTable>>();

  constructor(options: {
    store: Store;
    builder: Pick<ComponentBuilder, 'build' | 'evaluated'>;
    runner: Pick<Runner, 'describe'>;
    registry: LocalRegistry;
    repositories: Pick<RepositoryFiles, 'use'>;
    clock: Clock;
  }) {
    this.#store = options.store;
    this.#builder = options.builder;
    this.#runner = options.runner;
    this.#registry = options.registry;
    this.#repositories = options.repositories;
    this.#clock = options.clock;
  }

  /** Throws `missing_parameter` without a reference, `not_found` for an unknown id or key, and the errors of building. */
  async resolve(reference: ComponentReference, owner: ComponentOwner): Promise<ComponentTable> {
    const { component_id, component_code, component_url, key } = reference;
    if (component_id !== undefined) return this.#useSaved(component_id, owner);
    if (component_code !== undefined) return this.#saveCode(component_code, component_url ?? null, owner);
    if (component_url !== undefined) return this.#saveUrl(component_url, owner);
    if (key !== undefined) {
      if (key.indexOf('@') > 0) return this.resolveText(key, owner);
      return (await this.findInRegistry(key)) ?? this.#useSaved(key, owner);
    }
    throw new CallerError(
      'missing_parameter',
      'component_code: one of component_id, component_code, component_url or key is required',
      { parameter: 'component_code' },
    );
  }

  /** As `resolve`, and the component is kept for good. */
  async save(reference: ComponentReference, owner: ComponentOwner): Promise<ComponentTable> {
    const component = await this.resolve(reference, owner);
    await this.#use(component, { saves: true });
    return component;
  }

  /** Records the use before the component is answered, so that it is not pruned: what uses it may be stored hours later. False: it is gone. */
  #use(component: ComponentTable, options: { saves?: boolean } = {}): Promise<boolean> {
    return recordUse(this.#store, component, { nowMs: this.#clock.now(), ...options });
  }

  async #useSaved(keyOrId: string, owner: Pick<ComponentOwner, 'readableOwners'>): Promise<ComponentTable> {
    const component = await this.findSaved(keyOrId, owner);
    if (await this.#use(component)) return component;
    throw noComponent(keyOrId);
  }

  /** A saved component by id, by the `key` in its code, or by `key@version`. */
  async findSaved(keyOrId: string, owner: Pick<ComponentOwner, 'readableOwners'>): Promise<ComponentTable> {
    if (keyOrId.indexOf('@') > 0) return this.#findVersion(keyOrId, owner);
    const owners = [...owner.readableOwners, registryOwner];
    const component = keyOrId.startsWith('sc_')
      ? await findComponent(this.#store.read, keyOrId)
      : ((await findComponentByKey(this.#store.read, keyOrId, owner.readableOwners)) ??
        (await this.findInRegistry(keyOrId)));
    if (component === undefined || !owners.includes(component.owner_id)) {
      throw keyOrId.startsWith('sc_') ? noComponent(keyOrId) : await this.#unknownKey(keyOrId);
    }
    return component;
  }

  async #unknownKey(key: string): Promise<CallerError> {
    const nearest = nearestName(await this.#registry.keys(), key);
    const hint = nearest === undefined ? elsewhere(key) : `: did you mean ${JSON.stringify(nearest)}?`;
    return noComponent(key, hint);
  }

  /**
   * A component as a step of a workflow names it: saved id, URL, key, or `key@version`. A version that a newer one has
   * replaced is still found for those who used it. Throws as `resolve` does.
   */
  async resolveText(text: string, owner: ComponentOwner): Promise<ComponentTable> {
    if (text.startsWith('sc_')) return this.#useSaved(text, owner);
    if (isComponentUrl(text)) return this.resolve({ component_url: text }, owner);
    return text.lastIndexOf('@') > 0 ? this.#findVersion(text, owner) : this.resolve({ key: text }, owner);
  }

  /** `key@version`. */
  async #findVersion(text: string, owner: Pick<ComponentOwner, 'readableOwners'>): Promise<ComponentTable> {
    const at = text.lastIndexOf('@');
    const key = text.slice(0, at);
    const version = text.slice(at + 1);
    const packaged = await this.findInRegistry(key, version);
    if (packaged !== undefined) return packaged;
    const owners = [...owner.readableOwners, registryOwner];
    const saved = await findComponentByKey(this.#store.read, key, owners, version);
    if (saved !== undefined && (await this.#use(saved))) return saved;
    const known = await this.#versionsOf(key, owners);
    const shown = known.slice(0, versionsShown).map((one) => JSON.stringify(one));
    const more = known.length > versionsShown ? ` and ${known.length - versionsShown} older` : '';
    const hint = shown.length === 0 ? '' : `; there is version ${shown.join(', ')}${more}`;
    throw new CallerError('not_found', `there is no component ${JSON.stringify(text)}${hint}`, { id: text });
  }

  /**
   * Exactly this version: of packages, then of the history of Git repositories, then of what ships. Without a version, the highest
   * of packages and of repositories at their refs (of equal ones that of a package), else what ships.
   */
  async findInRegistry(key: string, version?: string): Promise<ComponentTable | undefined> {
    const packaged = await findPackagedKey(this.#store.read, key);
    const found = newestOf(
      version === undefined ? packaged : packaged.filter((candidate) => candidate.version === version),
    );
    const inHistory = await findRepositoryVersions(this.#store.read, key, version);
    const committed = newestOf(
      inHistory
        .filter(({ is_head }) => version !== undefined || Number(is_head) === 1)
        .map((one) => ({ ...one, package_created_at_ms: Number(one.repository_created_at_ms) })),
    );
    const isNewer =
      committed !== undefined &&
      (found === undefined || compareVersions(committed.version, found.version) > 0);
    if (isNewer) return this.#findCommitted(committed);
    if (found !== undefined) return this.#findPackaged(found);
    const entry = await this.#registry.find(key);
    if (entry === undefined) return undefined;
    const source = { kind: 'file', path: entry.path, root: entry.root } as const;
    const component = await this.#saveSource(source, null, ownerOfRegistry, 'key');
    return version === undefined || component.version === version ? component : undefined;
  }

  /** Built once from its commit: the repository is not needed again, and its dependencies stay as they were then. */
  async #findCommitted(found: RepositoryVersion): Promise<ComponentTable> {
    const { component_key: key, repository_id: repositoryId, url, commit_id: commit, path } = found;
    const origin = originOf({ url, commit, path });
    const known = await findComponentByOrigin(this.#store.read, { ownerId: registryOwner, key, origin });
    if (known !== undefined && (await this.#use(known))) return known;
    let building = this.#fromRepositories.get(origin);
    if (building === undefined) {
      building = this.#repositories
        .use({ repositoryId, url, commit, path }, (read) => {
          const source = { kind: 'stored', packageId: `${url}#${commit}`, path, read } as const;
          return this.#saveSource(source, origin, ownerOfRegistry, 'key');
        })
        .finally(() => this.#fromRepositories.delete(origin));
      this.#fromRepositories.set(origin, building);
    }
    return building;
  }

  /** Built once for each package: what it needs of npm stays as it was then. */
  async #findPackaged(found: RegistryComponentTable): Promise<ComponentTable> {
    const { package_id: packageId, component_key: key, path, component_id } = found;
    const known = component_id === null ? undefined : await findComponent(this.#store.read, component_id);
    if (known !== undefined && (await this.#use(known))) return known;
    const read = (file: string) => readPackageFile(this.#store.read, packageId, file);
    const source = { kind: 'stored', packageId, path, read } as const;
    const component = await this.#saveSource(source, null, ownerOfRegistry, 'key');
    await this.#store.transaction((tx) => keepBuilt(tx, { packageId, key, componentId: component.id }));
    return component;
  }

  async #versionsOf(key: string, owners: readonly string[]): Promise<string[]> {
    const packaged = await findPackagedKey(this.#store.read, key);
    const shipped = await this.#registry.find(key);
    // Nothing is built for an error message, except what ships with the service.
    const other =
      shipped === undefined
        ? await findComponentByKey(this.#store.read, key, owners)
        : await this.#saveSource(
            { kind: 'file', path: shipped.path, root: shipped.root },
            null,
            ownerOfRegistry,
            'key',
          );
    const committed = await findRepositoryVersions(this.#store.read, key);
    const versions = new Set([...packaged, ...committed].map(({ version }) => version));
    if (other !== undefined) versions.add(other.version);
    return [...versions].sort((a, b) => compareVersions(b, a));
  }

  async #saveCode(code: string, url: string | null, owner: ComponentOwner): Promise<ComponentTable> {
    checkCode(code);
    const codeHash = createHash('sha256').update(code).digest('hex');
    const known = await findComponentByCode(this.#store.read, { ownerId: owner.ownerId, codeHash, url });
    if (known !== undefined && (await this.#use(known))) return known;
    return this.#saveSource({ kind: 'code', code }, url, owner, 'component_code');
  }

  async #saveUrl(url: string, owner: ComponentOwner): Promise<ComponentTable> {
    requireComponentUrl(url);
    return this.#saveSource({ kind: 'url', url }, url, owner, 'component_url');
  }

  async #build(
    source: ComponentSource,
    owner: Pick<ComponentOwner, 'ownerId'>,
    parameter: string,
    way: BuildWay,
  ): Promise<BuiltBundle> {
    try {
      return await this.#builder.build(source, { ownerId: owner.ownerId, ...way });
    } catch (error) {
      if (error instanceof CallerError) {
        throw new CallerError(
          error.code,
          `${parameter}: ${error.message}`,
          { parameter, ...error.details },
          { cause: error },
        );
      }
      throw error;
    }
  }

  async #saveSource(
    source: ComponentSource,
    url: string | null,
    owner: Pick<ComponentOwner, 'ownerId' | 'userId'>,
    parameter: string,
  ): Promise<ComponentTable> {
    const { ownerId } = owner;
    const { built, outcome } = await buildAndEvaluate<KnownComponent>(
      {},
      {
        build: (way) => this.#build(source, owner, parameter, way),
        evaluate: async ({ treeHash, bundle }) => {
          const component = await findComponentByTree(this.#store.read, { ownerId, treeHash, url });
          return component === undefined || !(await this.#use(component))
            ? this.#builder.evaluated(ownerId, (signal) => this.#runner.describe({ bundle, ownerId, signal }))
            : { status: 'known', component };
        },
      },
    );
    if (outcome.status === 'known') return outcome.component;
    const shape = shapeFrom(outcome, parameter, built.code);
    const nowMs = this.#clock.now();
    const component: ComponentTable = {
      id: newId('sc'),
      owner_id: owner.ownerId,
      user_id: owner.userId,
      component_key: shape.key === undefined ? null : storable(shape.key),
      code: built.code,
      code_hash: built.codeHash,
      tree_hash: built.treeHash,
      url,
      name: storable(shape.name ?? shape.key ?? 'Component'),
      version: storable(shape.version ?? ''),
      shape: JSON.stringify(shape),
      bundle_hash: built.bundle.hash,
      lock: built.lock,
      created_at_ms: nowMs,
      updated_at_ms: nowMs,
    };
    const { hash, format, code, packages } = built.bundle;
    const bundle = {
      ...{ owner_id: ownerId, hash, format, code },
      ...{ packages: packages?.lockfile ?? null, created_at_ms: nowMs },
    };
    await this.#store.transaction((tx) => insertComponent(tx, component, bundle));
    return component;
  }
}

function noComponent(id: string, hint = ''): CallerError {
  return new CallerError('not_found', `there is no component ${JSON.stringify(id)}${hint}`, { id });
}

/** What ids of other objects begin with. */
const otherIds: Readonly<Record<string, string>> = {
  dc: 'a source',
  p: 'a workflow',
  wh: 'a webhook',
  apn: 'an account',
};

/**
 * Where to look for a key that the registry does not have. Most keys begin with the name of their app, whose components may be in a
 * package. Nothing here knows whether there is such a package, so none is named.
 */
function elsewhere(key: string): string {
  const [, prefix = ''] = /^([a-z]+)_[A-Za-z0-9]{12}$/.exec(key) ?? [];
  if (Object.hasOwn(otherIds, prefix)) return `: it is the id of ${otherIds[prefix]}`;
  const app = /^([a-z0-9_]+)-./.exec(key)?.[1]?.replaceAll('_', ' ');
  if (app === undefined) return '';
  return `: the registry does not have it. If npm has a package for the app (npm search pipedream ${app}), an admin of the instance adds it: millrace registry add PACKAGE`;
}

interface KnownComponent {
  status: 'known';
  component: ComponentTable;
}

/** PostgreSQL takes no text with this character, and a name has no use for it. */
function storable(text: string): string {
  return text.replaceAll('\0', '');
}

function checkCode(code: string): void {
  if (code.trim() === '') {
    throw new CallerError(
      'invalid_parameter',
      'component_code: expected the code of a component, found nothing',
      { parameter: 'component_code' },
    );
  }
  // Read as text, or in base64.
  if (code.startsWith('PK\u0003\u0004') || code.startsWith('UEsDB')) {
    const message =
      'component_code: expected code, found an archive of files: give the address of the component as component_url (the files it imports come along), or bundle it into one file';
    throw new CallerError('invalid_component_code', message, { parameter: 'component_code' });
  }
  if (Buffer.byteLength(code) > codeBytesMax) {
    throw new CallerError(
      'component_too_large',
      `component_code: expected at most ${bytesText(codeBytesMax)}`,
      {
        parameter: 'component_code',
      },
    );
  }
}

import type { Stats } from 'node:fs';
import {
  lstat,
  mkdir,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  rmdir,
  stat,
  unlink,
  writeFile,
} from 'node:fs/promises';
import { basename, dirname, join, sep } from 'node:path';
import { isObject } from './api.ts';
import { readLocalCode } from './component-reference.ts';
import { CliError, usageError } from './exit-codes.ts';
import { onlyFilesOf } from './folder-imports.ts';
import { contentVersion, isFolderName } from './folder-names.ts';
import { readYaml, yamlText } from './folder-yaml.ts';
import { canonicalSource, sourceSchema } from './source-file.ts';
import { visible } from './visible-text.ts';
import { canonicalForm, type WorkflowForm, workflowSchema } from './workflow-file.ts';

/** Workflows, or sources, in one folder. */
const thingsMax = 10_000;
const codeBytesMax = 2 * 1024 * 1024;

export type ThingKind = 'workflows' | 'sources';
const fileOf: Readonly<Record<ThingKind, string>> = { workflows: 'workflow.yaml', sources: 'source.yaml' };
const schemaOf: Readonly<Record<ThingKind, string>> = { workflows: workflowSchema, sources: sourceSchema };
const codePath = /^\.(?:\/[A-Za-z0-9_$][A-Za-z0-9_$.-]*)+$/;
const importsFiles = /(?:\bfrom|\bimport|\brequire)\s*\(?\s*['"]\.{1,2}\//;

/** A workflow or source in a folder. */
export interface LocalThing {
  name: string;
  form: WorkflowForm;
  version: string;
}

interface ReadOptions {
  /** A file of code that is gone counts as empty. */
  isCodeRestored?: boolean;
}

/** The files of one folder. Symbolic links are refused: what is written and read stays in it. */
export class FolderFiles {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  /** Undefined: there is no such file. */
  async read(path: string): Promise<string | undefined> {
    const size = await this.#sizeOf(path);
    if (size === undefined) return undefined;
    return readFile(join(this.root, path), 'utf8');
  }

  /** True for a file; a symbolic link is refused. */
  async has(path: string): Promise<boolean> {
    return (await this.#find(path))?.isFile() === true;
  }

  /** True when the file has changed. A command that is killed leaves the file as it was or as it should be, never a part of it. */
  async write(path: string, text: string): Promise<boolean> {
    if ((await this.read(path)) === text) return false;
    const at = join(this.root, path);
    await mkdir(dirname(at), { recursive: true });
    const before = await this.#find(path);
    const written = join(dirname(at), `.${basename(at)}.${process.pid}.tmp`);
    try {
      await writeFile(written, text, { flag: 'wx', ...(before === undefined ? {} : { mode: before.mode }) });
      await rename(written, at);
    } catch (error) {
      await rm(written, { force: true });
      throw error;
    }
    return true;
  }

  /** Only if there is no such file. */
  async writeMissing(path: string, text: string): Promise<void> {
    if ((await this.read(path)) === undefined) await this.write(path, text);
  }

  /** A file that is not there is removed already; folders that it leaves empty go with it. */
  async remove(path: string): Promise<void> {
    if ((await this.#sizeOf(path)) === undefined) return;
    await unlink(join(this.root, path));
    for (let folder = dirname(path); folder !== '.'; folder = dirname(folder)) {
      try {
        await rmdir(join(this.root, folder));
      } catch {
        return;
      }
    }
  }

  async isEmpty(): Promise<boolean> {
    try {
      return (await readdir(this.root)).every((name) => name === '.git');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return true;
      if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') throw usageError(`${this.root} is a file`);
      throw error;
    }
  }

  async #sizeOf(path: string): Promise<number | undefined> {
    const found = await this.#find(path);
    if (found === undefined) return undefined;
    const at = join(this.root, path);
    // A pipe or a device would be waited for, or read for ever.
    if (!found.isFile()) throw new CliError('failed', `${at} is no regular file`);
    if (found.size > codeBytesMax) throw new CliError('failed', `${at} is larger than 2 MB`);
    return found.size;
  }

  async #find(path: string): Promise<Stats | undefined> {
    let at = this.root;
    let found: Stats | undefined;
    for (const part of path.split('/')) {
      at = `${at}${sep}${part}`;
      try {
        found = await lstat(at);
        if (found.isSymbolicLink()) throw new CliError('failed', `${at} is a symbolic link, expected a file`);
      } catch (error) {
        if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
        throw error;
      }
    }
    return found;
  }

  /** All workflows, or all sources, by their names. */
  async things(kind: ThingKind, options: ReadOptions = {}): Promise<Map<string, LocalThing>> {
    const parent = kind === 'workflows' ? this.root : join(this.root, kind);
    const entries = await readdir(parent, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    });
    for (const entry of entries)
      if (entry.isSymbolicLink()) await this.#refuseLinked(kind, join(parent, entry.name));
    const things = new Map<string, LocalThing>();
    for (const { name } of entries.filter((entry) => entry.isDirectory()).toSorted(byName)) {
      const thing = isFolderName(name) ? await this.thing(kind, name, options) : undefined;
      if (thing !== undefined) things.set(name, thing);
      if (things.size > thingsMax)
        throw new CliError('failed', `more than ${thingsMax} ${kind} in ${parent}`);
    }
    return things;
  }

  /** A workflow behind a link would look like one that was removed. */
  async #refuseLinked(kind: ThingKind, at: string): Promise<void> {
    const found = await stat(join(at, fileOf[kind])).catch(() => undefined);
    if (found !== undefined)
      throw new CliError('failed', `${at} is a symbolic link, expected a folder with ${fileOf[kind]}`);
  }

  async thing(
    kind: ThingKind,
    name: string,
    { isCodeRestored = false }: ReadOptions = {},
  ): Promise<LocalThing | undefined> {
    const path = pathOfThing(kind, name);
    const file = `${path}/${fileOf[kind]}`;
    const text = await this.read(file);
    if (text === undefined) return undefined;
    const content = readYaml(text, file);
    if (content.schema !== schemaOf[kind]) {
      throw new CliError(
        'failed',
        `${file}: schema: found ${visible(JSON.stringify(content.schema) ?? 'nothing')}, expected ${schemaOf[kind]}`,
        {
          hint: 'A folder of another service comes in with `millrace import`.',
        },
      );
    }
    const code = new Map<string, string>();
    for (const uses of pathsIn(content)) {
      const text = await this.#code(path, uses, file);
      if (text === undefined && !isCodeRestored)
        throw new CliError('failed', `${file}: uses: there is no file ${visible(uses)}`, {
          hint: '`millrace pull --force` brings the file back, and overwrites what was changed in the folder.',
        });
      code.set(uses, text ?? '');
    }
    const canonical = kind === 'workflows' ? canonicalForm : canonicalSource;
    const form = canonical({ file: content, code });
    return { name, form, version: versionOf(form) };
  }

  /** As it is; a file that imports others is one text with them. */
  async #code(path: string, uses: string, file: string): Promise<string | undefined> {
    if (!codePath.test(uses)) {
      throw new CliError(
        'failed',
        `${file}: uses: found ${visible(uses)}, expected a file in its folder, such as ./step/entry.js`,
      );
    }
    const at = `${path}/${uses.slice(2)}`;
    const text = await this.read(at);
    if (text === undefined) return undefined;
    if (!importsFiles.test(text)) return text;
    const root = await realpath(this.root);
    const { code } = await readLocalCode(join(root, at), onlyFilesOf(this, root, path));
    return code;
  }

  /**
   * Writes a workflow or source. Files with the same meaning stay as they are, with their comments and their layout; code that no
   * step uses any longer is removed. `read`: the version that the folder had when it was read. One that was changed since is `edited`,
   * and left alone; `anything` overwrites it.
   */
  async writeThing(
    kind: ThingKind,
    name: string,
    form: WorkflowForm,
    read: { version: string | undefined } | 'anything',
  ): Promise<'written' | 'same' | 'edited'> {
    const path = pathOfThing(kind, name);
    let before: LocalThing | undefined;
    try {
      before = await this.thing(kind, name);
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      if (read !== 'anything') return 'edited';
    }
    if (before?.version === versionOf(form)) return 'same';
    if (read !== 'anything' && read.version !== before?.version) return 'edited';
    for (const uses of before?.form.code.keys() ?? [])
      if (!form.code.has(uses)) await this.remove(`${path}/${uses.slice(2)}`);
    for (const [uses, text] of form.code)
      if (before?.form.code.get(uses) !== text) await this.write(`${path}/${uses.slice(2)}`, text);
    await this.write(`${path}/${fileOf[kind]}`, yamlText(form.file));
    return 'written';
  }

  /** Removes the files that a workflow or source has; others in its folder stay. */
  async removeThing(kind: ThingKind, { name, form }: LocalThing): Promise<void> {
    const path = pathOfThing(kind, name);
    for (const uses of form.code.keys()) await this.remove(`${path}/${uses.slice(2)}`);
    await this.remove(`${path}/.workflow.state`);
    await this.remove(`${path}/${fileOf[kind]}`);
  }
}

function byName(a: { name: string }, b: { name: string }): number {
  return a.name < b.name ? -1 : 1;
}

function pathOfThing(kind: ThingKind, name: string): string {
  return kind === 'workflows' ? name : `${kind}/${name}`;
}

/** Where code is, wherever `uses` stands. */
function pathsIn(value: unknown, found = new Set<string>()): Set<string> {
  if (Array.isArray(value)) for (const one of value) pathsIn(one, found);
  else if (typeof value === 'object' && value !== null) {
    const { uses, branches, steps, error_steps: errorSteps } = value as Record<string, unknown>;
    if (typeof uses === 'string' && uses.startsWith('./')) found.add(uses);
    for (const inner of [branches, steps, errorSteps]) pathsIn(inner, found);
  }
  return found;
}

/** The same for the same content, whatever its files of code are called. */
export function versionOf({ file, code }: WorkflowForm): string {
  const withCode = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(withCode);
    if (!isObject(value)) return value;
    const text = typeof value.uses === 'string' ? code.get(value.uses) : undefined;
    const inner = ['branches', 'steps', 'error_steps'].filter((field) => field in value);
    return {
      ...value,
      ...(text === undefined ? {} : { uses: { text } }),
      ...Object.fromEntries(inner.map((field) => [field, withCode(value[field])])),
    };
  };
  return contentVersion(withCode(file));
}

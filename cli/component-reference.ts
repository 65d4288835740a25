import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { SourceMap, type SourceMapPayload } from 'node:module';
import { dirname, extname, resolve } from 'node:path';
import type { BuildOptions, Metafile, Plugin } from 'esbuild';
import type { Component, ConfigurableProp } from '#sdk';
import type { Api } from './api.ts';
import { pathOf } from './api.ts';
import { CliError, usageError } from './exit-codes.ts';
import { visible } from './visible-text.ts';

/** What `FILE|KEY|URL` on a command line turned out to be. */
export type ComponentReference =
  | { kind: 'file'; file: string }
  | { kind: 'url'; url: string }
  | { kind: 'key'; key: string };

/** A component as the service knows it: its props, and the reference from which something is made of it. */
export interface KnownComponent {
  /** sc_… of saved code, or a key. */
  id: string;
  type: Component['type'];
  name: string;
  props: ConfigurableProp[];
}

const codeExtensions = ['.js', '.mjs', '.cjs', '.ts', '.mts', '.cts'];

/** A file that exists, or has the form of a path; a URL; else a key, or the id of saved code. */
export function readReference(folder: string, text: string): ComponentReference {
  if (/^https?:\/\//i.test(text)) return { kind: 'url', url: text };
  const file = resolve(folder, text);
  if (existsSync(file) && extname(file) === '.json')
    throw usageError(
      `${text} is JSON, expected the code of a source`,
      `If it is a workflow: \`millrace workflows create --file ${text}\`.`,
    );
  const looksLikeFile = /^(?:\.{0,2}\/|~)/.test(text) || codeExtensions.includes(extname(text));
  if (looksLikeFile || (existsSync(file) && codeExtensions.includes(extname(file)))) {
    if (!existsSync(file)) throw usageError(`there is no file ${file}`);
    return { kind: 'file', file };
  }
  return { kind: 'key', key: text };
}

export interface LocalCode {
  code: string;
  /** Every file that it was made of. */
  files: string[];
  /** The hash of the code: the same code needs no new deployment. */
  hash: string;
  /** From lines of the code to those of the files; undefined: the code is the file. */
  map: SourceMap | undefined;
  /** Where the paths of the map begin. */
  folder: string;
}

/**
 * The code of a component in local files, as one text. A file that imports no other is sent unchanged; others are
 * bundled. npm packages stay imports: the service installs them. `confinement`: for code that the caller did not name, which
 * files it may import.
 */
export async function readLocalCode(file: string, confinement?: Plugin): Promise<LocalCode> {
  const reading: Pick<BuildOptions, 'sourcemap' | 'plugins' | 'preserveSymlinks'> =
    confinement === undefined
      ? { sourcemap: 'external' }
      : // No maps: esbuild would read the file that a comment of the code names.
        { sourcemap: false, plugins: [confinement], preserveSymlinks: true };
  const wanted = {
    absWorkingDir: dirname(file),
    bundle: true,
    write: false,
    outfile: 'component.js',
    platform: 'node',
    target: 'node22',
    packages: 'external',
    // With a tsconfig.json of a folder above, the same file would give another result on another machine.
    tsconfigRaw: '{}',
    charset: 'utf8',
    logLevel: 'silent',
    metafile: true,
    ...reading,
  } as const;
  // Few commands bundle, and the others start without it.
  const { build } = await import('esbuild');
  try {
    const asModule = await build({ ...wanted, entryPoints: [file], format: 'esm' });
    const files = inputsOf(asModule.metafile, file);
    // `module.exports` has no place in an ES module, and require() of packages only works in CommonJS.
    const { outputFiles } = isCommonJs(asModule.metafile)
      ? await build({ ...wanted, entryPoints: [file], format: 'cjs' })
      : asModule;
    const textOf = (ending: string): string =>
      outputFiles.find(({ path }) => path.endsWith(ending))?.text ?? '';
    const isOne = files.length === 1;
    const code = isOne ? await readFile(file, 'utf8') : textOf('.js');
    return {
      code,
      files,
      hash: createHash('sha256').update(code).digest('hex'),
      map:
        isOne || confinement !== undefined
          ? undefined
          : new SourceMap(JSON.parse(textOf('.map')) as SourceMapPayload),
      folder: dirname(file),
    };
  } catch (error) {
    throw new CliError('failed', buildProblem(error), { cause: error });
  }
}

/** Asks the service what the component is; code is saved there, which by itself runs nothing. */
export async function knowComponent(
  api: Api,
  reference: ComponentReference,
  owner: { org_id: string | undefined },
): Promise<KnownComponent & { local: LocalCode | undefined }> {
  if (reference.kind === 'key') {
    return {
      ...known(await api.data<Component>('GET', pathOf`/v1/components/${reference.key}`), reference.key),
      local: undefined,
    };
  }
  const local = reference.kind === 'file' ? await readLocalCode(reference.file) : undefined;
  const body = {
    ...owner,
    ...(local === undefined ? {} : { component_code: local.code }),
    ...(reference.kind === 'url' ? { component_url: reference.url } : {}),
  };
  return { ...known(await api.data<Component>('POST', '/v1/components', { body }), undefined), local };
}

function known(
  { id, type, name, configurable_props: props }: Component,
  key: string | undefined,
): KnownComponent {
  return { id: key ?? id, type, name, props };
}

function inputsOf(metafile: Metafile, file: string): string[] {
  return Object.keys(metafile.inputs).map((path) => resolve(dirname(file), path));
}

function isCommonJs(metafile: Metafile): boolean {
  const [entry] = Object.values(metafile.outputs);
  const input = entry?.entryPoint === undefined ? undefined : metafile.inputs[entry.entryPoint];
  return input?.format === 'cjs';
}

function buildProblem(error: unknown): string {
  const { errors } = error as {
    errors?: { text: string; location: { file: string; line: number; column: number } | null }[];
  };
  if (errors === undefined) return error instanceof Error ? error.message : String(error);
  return errors
    .slice(0, 10)
    .map(({ text, location }) =>
      visible(location === null ? text : `${location.file}:${location.line}:${location.column + 1}: ${text}`),
    )
    .join('\n');
}

import { dirname, join, relative, sep } from 'node:path';
import type { Plugin } from 'esbuild';
import { CliError } from './exit-codes.ts';

/** What reads files of one folder, by their paths in it. */
export interface FolderReader {
  has(path: string): Promise<boolean>;
  read(path: string): Promise<string | undefined>;
}

const extensions = ['', '.js', '.mjs', '.cjs', '.ts', '.mts', '.cts', '.json'];
const typescript: Readonly<Record<string, string>> = { '.js': '.ts', '.mjs': '.mts', '.cjs': '.cts' };
/** As the code of a step itself: no hidden file, such as .env, is part of code. */
const hidden = /(?:^|\/)\./;

/**
 * Code of a folder that others may have written (a clone, a pull request) imports files of its workflow alone, `root`. Without
 * this a file such as /proc/self/environ would become a part of the code, and be shown or deployed with it.
 */
export function onlyFilesOf(reader: FolderReader, folder: string, root: string): Plugin {
  const placeOf = (absolute: string): string => {
    const inner = relative(join(folder, root), absolute).replaceAll(sep, '/');
    if (inner === '' || hidden.test(inner))
      throw new CliError(
        'failed',
        `it imports ${absolute}, which is not a file of ${root}: code imports only files in the folder of its workflow, and no hidden ones`,
      );
    return `${root}/${inner}`;
  };
  const find = async (absolute: string): Promise<string> => {
    const withTypes = Object.entries(typescript).flatMap(([js, ts]) =>
      absolute.endsWith(js) ? [`${absolute.slice(0, -js.length)}${ts}`] : [],
    );
    const candidates = [
      ...extensions.map((extension) => `${absolute}${extension}`),
      ...withTypes,
      ...extensions.slice(1).map((extension) => join(absolute, `index${extension}`)),
    ];
    for (const candidate of candidates) if (await reader.has(placeOf(candidate))) return candidate;
    throw new CliError('failed', `there is no file ${placeOf(absolute)}`);
  };
  return {
    name: 'only-files-of-a-folder',
    setup(build) {
      build.onResolve({ filter: /.*/ }, async ({ path, kind, resolveDir }) => {
        if (kind === 'entry-point') return { path };
        if (/^data:/i.test(path)) return undefined;
        if (!/^(?:\.{0,2}\/|\.{1,2}$|#)/.test(path)) return { path, external: true };
        if (!path.startsWith('.'))
          return { errors: [{ text: `it imports ${path}: files are imported as ./… or ../…` }] };
        return orProblem(async () => ({ path: await find(join(resolveDir, path)) }));
      });
      // What esbuild finds by itself, such as the files of a pattern, comes here too.
      build.onLoad({ filter: /.*/, namespace: 'file' }, ({ path }) =>
        orProblem(async () => ({
          contents: (await reader.read(placeOf(path))) ?? '',
          loader: 'default' as const,
          resolveDir: dirname(path),
        })),
      );
    },
  };
}

async function orProblem<T>(work: () => Promise<T>): Promise<T | { errors: { text: string }[] }> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    return { errors: [{ text: error.message }] };
  }
}

import { readdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { projectModules } from './builder-child.ts';
import { sha256 } from './bundle-cache.ts';
import { providedFolder } from './bundler-process.ts';

/** Counted up when the same input gives another bundle. */
const builderVersion = 6;

/** A hash of everything other than the component that decides what its bundle is: options, esbuild, the modules that we provide. */
export async function readBuilderVersion(options: {
  hasPackageFolders: boolean;
  hasAddons: boolean;
}): Promise<string> {
  const parts = [`builder ${builderVersion} ${options.hasPackageFolders} ${options.hasAddons}`];
  for (const name of ['esbuild', 'axios']) {
    const text = await readFile(join(projectModules, name, 'package.json'), 'utf8').catch(() => '{}');
    parts.push(`${name} ${(JSON.parse(text) as { version?: string }).version}`);
  }
  for (const name of (await readdir(providedFolder).catch(() => [])).sort()) {
    if (!name.endsWith('.test.ts'))
      parts.push(`${basename(name)} ${sha256(await readFile(join(providedFolder, name)))}`);
  }
  return sha256(parts.join('\n'));
}

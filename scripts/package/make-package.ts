import { chmod, cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { stop } from 'esbuild';
import { installationFolder } from '#lib/installation.ts';
import { buildPages } from '#web/dashboard/build-pages.ts';
import { bundlePrograms } from './bundle-programs.ts';
import { writeComponentCode } from './component-code.ts';
import { licenceTexts } from './licences.ts';
import { packageManifest } from './package-manifest.ts';

/**
 * Makes the folder that is published to npm: `npm run package`, or `node scripts/package/make-package.ts FOLDER`. It has no TypeScript, no
 * tests and no source maps. Its programs are bundles in `lib`; other files keep their place in the project (src/lib/installation.ts).
 */

/** Files that the service reads, and those that a user of the package looks for. */
const copied = [
  ...['README.md', 'CHANGELOG.md', 'ARCHITECTURE.md', 'LICENSE'],
  ...['bin/millrace', 'apps', 'docs', 'examples'],
  // The pages of the manual look like those of the dashboard.
  ...['dashboard/src/style/theme.css', 'dashboard/public/theme.js', 'dashboard/public/favicon.svg'],
];

/** Makes the package in `folder`, which is emptied first. */
export async function makePackage(folder: string): Promise<void> {
  const root = installationFolder;
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  for (const path of copied) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await cp(join(root, path), join(folder, path), { recursive: true });
  }
  await chmod(join(folder, 'bin', 'millrace'), 0o755);
  await bundlePrograms(root, folder);
  const packages = await writeComponentCode(root, folder);
  const cacheFolders = [join(root, 'node_modules', '.cache', 'dashboard')];
  const pages = await buildPages({ root, cacheFolders }, new AbortController().signal);
  await cp(pages.folder, join(folder, 'lib', 'dashboard'), { recursive: true });
  await stop();
  const project = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
  const manifest = packageManifest(project, packages.add('esbuild'));
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  await writeFile(join(folder, 'THIRD-PARTY-LICENCES'), await licenceTexts(root));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const folder = resolve(process.argv[2] ?? join(installationFolder, 'dist', 'package'));
  await makePackage(folder);
  process.stdout.write(`${folder}\nInstall it: npm install --global "$(npm pack --silent ${folder})"\n`);
}

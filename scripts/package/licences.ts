import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

interface LockedPackage {
  version?: string;
  license?: string;
  dev?: boolean;
  optional?: boolean;
}

/** The licences of all packages whose code may be a part of the bundles and pages: those that a clone runs with. */
export async function licenceTexts(root: string): Promise<string> {
  const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, LockedPackage>;
  };
  const parts: string[] = [];
  for (const [path, { version, license, dev, optional }] of Object.entries(lock.packages)) {
    if (!path.startsWith('node_modules/') || dev === true || optional === true) continue;
    const folder = join(root, path);
    const names = await readdir(folder);
    const files = names.filter((name) => /^(licen[cs]e|copying|notice)/i.test(name));
    const texts = await Promise.all(
      files.map((name) => readFile(join(folder, name), 'utf8').catch(() => '')),
    );
    const title = `${path.slice(path.lastIndexOf('node_modules/') + 13)} ${version} (${license ?? 'see below'})`;
    parts.push([title, '-'.repeat(title.length), ...texts.map((text) => text.trim())].join('\n'));
  }
  return `Millrace contains code of these packages.\n\n${parts.join('\n\n')}\n`;
}

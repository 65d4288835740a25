import { glob, mkdir, readFile, writeFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, join } from 'node:path';

/**
 * The code that the service builds components from: its own registry, and the modules that it provides. It stays many files, as in a clone, but
 * JavaScript: the types become spaces, so that lines and columns stay what they are in the sources.
 */
const globs = ['components/**/*.ts', 'src/components/provided/*.ts'];

const relativeTypeScript = /(\bfrom\s*|\bimport\s*\(?\s*)(['"])(\.{1,2}\/[^'"\n]+)\.ts\2/g;
const packageName = /(?:\bfrom|\bimport)\s*\(?\s*['"]((?:@[\w.-]+\/)?[a-z][\w.-]*)(?:\/[^'"\n]*)?['"]/g;
/** The service provides these to components. */
const provided = /^@pipedream(hq)?\//;

/** Writes the code below `folder`, and returns the names of the packages that it imports. */
export async function writeComponentCode(root: string, folder: string): Promise<Set<string>> {
  const packages = new Set<string>();
  for await (const file of glob(globs, { cwd: root })) {
    if (file.endsWith('.test.ts')) continue;
    const stripped = stripTypeScriptTypes(await readFile(join(root, file), 'utf8'));
    const code = stripped.replace(relativeTypeScript, '$1$2$3.js$2').replace(/[ \t]+$/gm, '');
    for (const [, name = ''] of code.matchAll(packageName)) if (!provided.test(name)) packages.add(name);
    const target = join(folder, file.replace(/\.ts$/, '.js'));
    await mkdir(dirname(target), { recursive: true });
    await writeFile(target, code);
  }
  return packages;
}

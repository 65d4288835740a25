import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SettingsError } from '#config/read-settings.ts';
import { toError } from '#lib/errors.ts';
import type { AppDefinition } from './app-definition.ts';
import { parseApp } from './parse-app.ts';

/**
 * The apps of a folder: one `<slug>.json` each. Throws SettingsError that lists every file that is wrong and where: a
 * catalogue that is not what its author wrote would only be noticed when accounts fail.
 */
export async function readAppFiles(folder: string): Promise<AppDefinition[]> {
  const names = await readdir(folder).catch((cause: unknown) => {
    throw new SettingsError(`the folder of apps ${folder} cannot be read: ${toError(cause).message}`);
  });
  const apps: AppDefinition[] = [];
  const problems: string[] = [];
  for (const name of names.filter((file) => file.endsWith('.json')).sort()) {
    try {
      apps.push(await readAppFile(join(folder, name), name.slice(0, -'.json'.length)));
    } catch (cause) {
      problems.push(`${join(folder, name)}: ${toError(cause).message}`);
    }
  }
  if (problems.length > 0)
    throw new SettingsError(`cannot start with these apps:\n  ${problems.join('\n  ')}`);
  return apps;
}

async function readAppFile(path: string, slug: string): Promise<AppDefinition> {
  const text = await readFile(path, 'utf8');
  const app = parseApp(parseJson(text));
  if (app.slug !== slug) throw new Error(`slug: expected ${slug}, as the file is named, found ${app.slug}`);
  return app;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Error(`not JSON: ${toError(cause).message}`, { cause });
  }
}

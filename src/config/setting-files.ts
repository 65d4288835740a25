import { readFileSync, type Stats, statSync } from 'node:fs';
import { type SettingDefinition, settingDefinitions } from './settings.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Far more than any key, password or URL has. */
const fileBytesMax = 64 * 1024;

/**
 * The variable that names a file with the value of a setting; undefined for a setting that cannot hold a secret. Container runtimes and
 * service managers show the environment to all users who may list processes, and hand secrets over as files.
 */
export function fileVariableOf(definition: SettingDefinition): string | undefined {
  if (definition.type === 'integer' || definition.type === 'choice') return undefined;
  return definition.shown === 'whole' ? undefined : `${definition.env}_FILE`;
}

/** All variables that name files. */
export function fileVariables(): string[] {
  return definitions().flatMap((definition) => fileVariableOf(definition) ?? []);
}

/**
 * The environment with the contents of the files that it names. One line end after a value is not part of it. Adds a problem for each file that
 * cannot be used, and never shows its content.
 */
export function withSettingFiles(environment: Environment, problems: string[]): Environment {
  const values: Record<string, string | undefined> = { ...environment };
  for (const definition of definitions()) {
    const variable = fileVariableOf(definition);
    const path = variable === undefined ? undefined : environment[variable];
    if (variable === undefined || path === undefined || path === '') continue;
    const { env } = definition;
    if ((environment[env] ?? '') !== '') {
      problems.push(`${variable}: ${env} is set too; expected one of the two`);
      continue;
    }
    try {
      values[env] = readValue(path);
    } catch (error) {
      problems.push(`${variable}: ${(error as Error).message}`);
    }
  }
  return values;
}

function definitions(): SettingDefinition[] {
  return Object.values(settingDefinitions);
}

function readValue(path: string): string {
  const found = JSON.stringify(path);
  const stats = statsOf(path);
  if (stats === undefined) throw new Error(`expected a file, found none at ${found}`);
  if (!stats.isFile()) throw new Error(`expected a file, found something else at ${found}`);
  if (stats.size > fileBytesMax)
    throw new Error(`expected at most ${fileBytesMax / 1024} KB in ${found}, found ${stats.size} bytes`);
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new Error(`${found} cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  const value = text.replace(/\r?\n$/, '');
  if (value === '') throw new Error(`expected a value in ${found}, found an empty file`);
  if (/[\r\n]/.test(value)) throw new Error(`expected one line in ${found}, found several`);
  return value;
}

function statsOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const reason = code === 'ELOOP' ? 'its symbolic links form a circle' : code;
    throw new Error(
      `expected a file, found a path that cannot be followed (${reason}) at ${JSON.stringify(path)}`,
    );
  }
}

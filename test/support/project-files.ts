import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { blankCommentsAndTemplates } from './source-text.ts';

/** With a slash at the end. */
export const projectRoot = fileURLToPath(new URL('../..', import.meta.url));

/** Every file of the project: tracked or about to be, relative to the root, sorted. Works without git too. */
export function projectFiles(): string[] {
  let files: string[];
  try {
    files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '-z'], {
      cwd: projectRoot,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).split('\0');
  } catch {
    files = readdirSync(projectRoot, { recursive: true, encoding: 'utf8' }).filter(
      (file) => !/(^|\/)(node_modules|\.git|\.millrace)(\/|$)/.test(file),
    );
  }
  return files.filter((file) => file !== '' && isFile(file)).sort();
}

function isFile(path: string): boolean {
  return statSync(`${projectRoot}${path}`, { throwIfNoEntry: false })?.isFile() ?? false;
}

export function readProjectFile(path: string): string {
  return readFileSync(`${projectRoot}${path}`, 'utf8');
}

/** The file without comments and without the contents of template strings. */
export function readCode(path: string): string {
  return blankCommentsAndTemplates(readProjectFile(path));
}

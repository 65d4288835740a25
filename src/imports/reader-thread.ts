import { parentPort } from 'node:worker_threads';
import { CallerError } from '#lib/errors.ts';
import { bytesText } from '#lib/units.ts';
import { outlineExport } from './outline-export.ts';
import { projectBytesMax, refused } from './project-files.ts';
import { checkFiles, readArchive } from './read-archive.ts';
import { bundleFiles, isBundle, readBundle, readBundledProject } from './read-bundle.ts';
import { readProject } from './read-project.ts';

/** What a project comes as, and what is asked of it. */
export interface ReadingTask {
  wanted: 'project' | 'outline';
  /** A ZIP archive, or a bundle. */
  bytes?: Uint8Array;
  files?: Readonly<Record<string, string>>;
}

/** What the thread of project-reader.ts answers: the result as JSON, or why the project is refused. */
export type ReadingAnswer = { json: string } | { refused: string };

/** Maximum length of a result: code takes more characters as JSON, and aliases in YAML make a value of several MB from a small file. */
const resultCharactersMax = 2 * projectBytesMax;

parentPort?.once('message', async (task: ReadingTask) => {
  parentPort?.postMessage(await answerTo(task));
});

async function answerTo(task: ReadingTask): Promise<ReadingAnswer> {
  try {
    const json = JSON.stringify(await read(task));
    if (json.length > resultCharactersMax)
      throw refused(
        `what was read from it is larger than ${bytesText(resultCharactersMax)}: import it folder by folder`,
      );
    return { json };
  } catch (error) {
    if (error instanceof CallerError) return { refused: error.message };
    throw error;
  }
}

async function read({ wanted, bytes, files = {} }: ReadingTask): Promise<unknown> {
  const given = bytes === undefined ? undefined : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  if (given === undefined || !isBundle(given)) {
    const read = given === undefined ? checkFiles(files) : await readArchive(given);
    return wanted === 'project' ? readProject(read) : outlineExport(read);
  }
  const bundle = await readBundle(given);
  if (wanted === 'project') return readBundledProject(bundle);
  return outlineExport(bundleFiles(bundle));
}

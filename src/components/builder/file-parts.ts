import type { PackageFile } from './build-messages.ts';

/** Files in parts of about `charactersMax`: no message holds up the process that reads it. None is empty. */
export function* filesInParts(
  files: readonly PackageFile[],
  charactersMax: number,
): Generator<PackageFile[]> {
  let part: PackageFile[] = [];
  let characters = 0;
  for (const file of files) {
    part.push(file);
    characters += file.text.length;
    if (characters < charactersMax) continue;
    yield part;
    part = [];
    characters = 0;
  }
  if (part.length > 0) yield part;
}

import type { FileContent } from '#components/builder/text-of.ts';
import type { PackageFetcher, PackageFile } from '#components/package-fetcher.ts';
import type { PackageArgument } from './package-argument.ts';
import { readFolder } from './read-folder.ts';
import { type ScannedPackage, scanPackage } from './scan-package.ts';

/** A package or a folder with components, as the registry reads it. */
export interface CorpusInput extends ScannedPackage {
  /** The name of the package, or the absolute path of the folder. */
  name: string;
  /** '' for a folder. */
  version: string;
  files: ReadonlyMap<string, FileContent>;
}

/** Throws what `PackageFetcher` and `readFolder` do. Without components it is empty, not an error. */
export async function readCorpusInput(
  fetcher: Pick<PackageFetcher, 'download' | 'scan'>,
  wanted: PackageArgument,
): Promise<CorpusInput> {
  if ('folder' in wanted) {
    const files = await readFolder(wanted.folder);
    return { name: wanted.folder, version: '', ...(await scanned(fetcher, files)) };
  }
  const { name, version, files } = await fetcher.download(wanted.name, wanted.version);
  return { name, version, ...(await scanned(fetcher, files)) };
}

async function scanned(
  fetcher: Pick<PackageFetcher, 'scan'>,
  files: readonly PackageFile[],
): Promise<ScannedPackage & Pick<CorpusInput, 'files'>> {
  const found = await scanPackage(files, fetcher);
  return { ...found, files: new Map(files.map(({ path, ...content }) => [path, content])) };
}

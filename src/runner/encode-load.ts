import type { PackageFiles } from './package-file-server.ts';
import type { LoadHeader } from './protocol.ts';
import type { Bundle } from './runner.ts';

/** A bundle whose packages are ready. */
export type LoadableBundle = Pick<Bundle, 'code' | 'format'> & {
  /** Folder in which the process can read them. */
  packagesFolder?: string;
  /** Files that the process requests, where it can read none. */
  packageFiles?: PackageFiles;
};

/** The frame that gives a process the code of a bundle, with its environment variables and the list of its files. */
export function encodeLoad(
  bundle: LoadableBundle,
  options: {
    name: string;
    deploymentId: string;
    place: string;
    isStep: boolean;
    variables: Readonly<Record<string, string>>;
    /** The path of a folder of packages as the process sees it. */
    packagesInside: (packagesFolder: string) => string;
    addFiles: (files: PackageFiles) => { id: number; list: Buffer };
  },
): { header: LoadHeader; payload: Buffer[]; bytes: number } {
  const { name, deploymentId, place, isStep, variables } = options;
  const header: LoadHeader = { deploymentId, place, module: name, format: bundle.format };
  if (isStep) header.isStep = true;
  if (bundle.packagesFolder !== undefined) header.packages = options.packagesInside(bundle.packagesFolder);
  const payload: Buffer[] = [Buffer.from(bundle.code)];
  if (bundle.packageFiles !== undefined) {
    const { id, list } = options.addFiles(bundle.packageFiles);
    header.packageFiles = { id, listBytes: list.length };
    payload.push(list);
  }
  if (isStep && Object.keys(variables).length > 0) {
    const text = Buffer.from(JSON.stringify(variables));
    header.variablesBytes = text.length;
    payload.push(text);
  }
  return { header, payload, bytes: payload.reduce((sum, { length }) => sum + length, 0) };
}

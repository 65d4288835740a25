import { loadNpm } from './load-npm.ts';

/** npm's own modules come without types; these are the parts that are used, as their sources have them. */
export interface PackageNode {
  name: string;
  packageName: string | null;
  version?: string;
  /** Relative to the root: `node_modules/…`. */
  location: string;
  resolved: string | null;
  integrity: string | null;
  isRoot: boolean;
  isLink: boolean;
  inBundle: boolean;
  package: Record<string, unknown>;
  inventory: Map<string, PackageNode>;
  /** The package-lock.json of a root. */
  meta?: { commit(): unknown; toString(): string };
}

export interface ArboristInstance {
  idealTree: PackageNode | null;
  buildIdealTree(): Promise<PackageNode>;
  reify(): Promise<PackageNode>;
}

export const Arborist = loadNpm('@npmcli/arborist') as new (
  options: Record<string, unknown>,
) => ArboristInstance;

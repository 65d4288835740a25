export const packageKinds = ['npm', 'folder'] as const;
export type PackageKind = (typeof packageKinds)[number];

/** A package of components that an admin added for the whole instance. Rows never change. */
export interface RegistryPackageTable {
  /** pkg_… */
  id: string;
  kind: PackageKind;
  /** The name of an npm package, or the path of a folder at which it was added. */
  name: string;
  /** Exact; of a folder, a hash of its content. */
  version: string;
  /** Subresource integrity of the tarball, or of the folder's files. */
  integrity: string;
  /** JSON: slugs of the apps it has app files of. */
  apps: string;
  /** JSON: files that are no components though they should be, `{path, message}`. */
  problems: string;
  files: number;
  bytes: number;
  /** The user who added it; null: the command line. */
  user_id: string | null;
  created_at_ms: number;
}

/** `base64` is for what is no text. */
export const fileEncodings = ['utf8', 'base64'] as const;
export type FileEncoding = (typeof fileEncodings)[number];

/** Files of packages, so that every node builds from the same. */
export interface RegistryFileTable {
  package_id: string;
  path: string;
  content: string;
  encoding: FileEncoding;
}

export const componentKinds = ['sources', 'actions'] as const;
export type ComponentKind = (typeof componentKinds)[number];

/** What is in packages, as the texts say; `component_id` once it was built. */
export interface RegistryComponentTable {
  package_id: string;
  component_key: string;
  version: string;
  kind: ComponentKind;
  app: string;
  name: string;
  description: string;
  path: string;
  component_id: string | null;
}

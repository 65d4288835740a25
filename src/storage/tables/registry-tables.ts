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

/** `waiting`: an update is due; `failing`: the last one failed, and what an earlier one found is still used. */
export const repositoryStates = ['waiting', 'updating', 'ready', 'failing'] as const;
export type RepositoryState = (typeof repositoryStates)[number];

/** A Git repository of components that an admin added for the whole instance. */
export interface RegistryRepositoryTable {
  /** repo_… */
  id: string;
  /** An https URL, or the absolute path of a clone on the machine of the service. */
  url: string;
  /** A branch, a tag or a commit; '' is the branch that a clone would get. */
  ref: string;
  /** The commit at the ref whose history is known; null: none yet. */
  commit_id: string | null;
  /** Rows of `registry_versions` of another generation do not count: they are being written, or about to be removed. */
  generation: number;
  state: RepositoryState;
  state_since_ms: number;
  /** Why it is failing, and the code of that. */
  error: string | null;
  error_code: string | null;
  /** JSON of `RepositoryProgress` while it is updating. */
  progress: string | null;
  commits: number;
  /** At the ref. */
  components: number;
  versions: number;
  /** JSON: files at the ref that are no components though they should be, `{path, message}`. */
  problems: string;
  /** The user who added it; null: the command line. */
  user_id: string | null;
  created_at_ms: number;
  indexed_at_ms: number | null;
}

/** A version of a component in the history of a repository: the first commit that has it. */
export interface RegistryVersionTable {
  repository_id: string;
  generation: number;
  component_key: string;
  version: string;
  kind: ComponentKind;
  app: string;
  name: string;
  description: string;
  path: string;
  commit_id: string;
  committed_at_ms: number;
  /** 1: the component has this version at the ref. */
  is_head: number;
}

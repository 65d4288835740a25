import type { FileContent } from './text-of.ts';

/**
 * What the service and its builder processes say to each other: one JSON text per line, requests on stdin, answers on
 * descriptor 3. The bundler asks back for the component's own files, so that it needs no right to read or fetch them.
 */

/** One of the component's own files. `path` names it in messages and in hashes: a URL, or a path below the root. */
export interface OwnFile extends FileContent {
  path: string;
  /** Absent: the bundler decides by the extension; 'either': JavaScript when it parses as such, else TypeScript. */
  loader?: 'js' | 'ts' | 'json' | 'either';
}

/** A failure that the caller of the API will read: no absolute paths, no file contents. */
export interface BuildProblem {
  kind: 'caller' | 'unavailable';
  code: string;
  message: string;
  details: Record<string, unknown>;
}

export interface BundleRequest {
  type: 'bundle';
  entry: OwnFile;
  /** Existing folder that imports of packages start from; files are read from it and from our own folder only. */
  folder: string;
  /** Absent in the first pass, which only lists the packages that are needed. By `name@range`: name it is installed as. */
  aliases?: Record<string, string>;
  /** Import specifiers that are answered by our own modules: file by name. */
  provided: Record<string, string>;
  providedFolder: string;
  /** The project's node_modules, for what the provided modules import. */
  projectModules: string;
  bundleBytesMax: number;
  /**
   * inline: packages become a part of the text. tree: they stay files, which the text imports where it runs. joined: the component's own files
   * alone, as code that is built later.
   */
  form: BundleForm | 'joined';
  /** In a tree: packages whose native addon is replaced by a stand-in where addons are refused. */
  standIns?: readonly string[];
}

export type BundleForm = 'inline' | 'tree';

export type BundlerInput =
  | BundleRequest
  | { type: 'found'; lookup: number; file: OwnFile | null; problem?: BuildProblem };

/**
 * `beside`: packages in the text that may read files beside themselves, which a text has not; `addons`: those that bring a
 * native addon.
 */
export interface BundledOutput {
  type: 'bundled';
  code: string;
  format: 'cjs' | 'esm';
  beside: string[];
  addons: string[];
}

export type BundlerOutput =
  | { type: 'lookup'; lookup: number; importer: string; specifier: string }
  | BundledOutput
  /** `asTree`: what a tree of it is when each package is installed under its own name. */
  | { type: 'needs'; specifiers: string[]; asTree?: BundledOutput }
  /** The packages cannot be a part of one text. */
  | { type: 'unfit'; problem: BuildProblem }
  | { type: 'failed'; problem: BuildProblem };

/** What npm is configured with, as data: the builder reads no environment and no home folder. */
export interface NpmConfig {
  /** With a trailing slash. */
  registry: string;
  /** Further keys npm understands: `@scope:registry`, `//host/:_authToken` and the like. */
  credentials: Record<string, string>;
  /** PEM texts that replace the bundled authorities; empty means the bundled ones. */
  ca: string[];
  /** PEM texts of one certificate each that are trusted in addition to those. */
  extraCa?: string[];
  proxy?: string;
  httpsProxy?: string;
  noProxy?: string;
}

/** What every request to the installer says. */
export interface NpmRequest {
  /** The cacache folder itself (not the folder above `_cacache`). */
  cache: string;
  npm: NpmConfig;
  specifiers: string[];
}

export interface InstallRequest extends NpmRequest {
  type: 'install';
  /** Empty folder that becomes the root of node_modules. */
  folder: string;
  /** Ranges from a package.json above the component, by package name; used where the import names no version. */
  declared: Record<string, string>;
  /** Text of the package-lock.json of an earlier install, which is repeated: then no specifiers are given. */
  lockfile?: string;
  /** Epoch ms. */
  nowMs: number;
  packagesMax: number;
  filesMax: number;
  bytesMax: number;
}

/** One package for the registry of components: its own files, without its dependencies. */
export interface FetchRequest extends NpmRequest {
  type: 'fetch';
  filesMax: number;
  bytesMax: number;
}

/** A file of a package; `path` is relative to it, with slashes. */
export interface PackageFile extends FileContent {
  path: string;
}

/** Texts to read the head of a component from; answered in the same order. */
export interface ScanRequest {
  files: PackageFile[];
}

/** What the text of a component says of it, read and not evaluated. Absent: it does not say so literally. */
export interface ComponentHead {
  type?: string;
  key?: string;
  name?: string;
  version?: string;
  description?: string;
  /** The slug of an app file. */
  app?: string;
}

export interface ScanOutput {
  /** `problem`: the text does not parse. `head` null: nothing is exported that could be a component. */
  readings: { head: ComponentHead | null; problem?: string }[];
  /** A text ended esbuild, or keeps it busy still: the process is not for another package. */
  isSpent: boolean;
}

export type InstallerOutput =
  | { type: 'files'; files: PackageFile[] }
  /** After all of its files, which come in parts so that no message is large. */
  | { type: 'fetched'; name: string; version: string; integrity: string }
  | { type: 'installed'; aliases: Record<string, string>; lock: PackageLock; lockfile: string }
  | { type: 'failed'; problem: BuildProblem };

/** Exact versions of everything a bundle holds; the same lock and files give the same bundle. */
export interface PackageLock {
  /** By import specifier without its subpath. */
  imports: Record<string, { name: string; version: string }>;
  /** By place below the build folder. */
  packages: Record<string, { name: string; version: string; integrity: string }>;
}

import type { PackageFile } from './build-messages.ts';
import type { FileChange, HistoryReport } from './git-history.ts';

/** What the service and the process that reads a Git repository say to each other, as in `build-messages.ts`. */
export type GitRequest =
  /** A clone on this machine. */
  | { type: 'open-clone'; folder: string }
  /** A pack that the service received, beside those that are open. */
  | { type: 'open-pack'; path: string }
  /** The commit behind a name of a clone, or an object name that a server gave. */
  | { type: 'resolve'; ref?: string; oid?: string }
  | { type: 'history'; tip: string; since?: string }
  /** The files of components and apps that a commit has, and how many there are of them. */
  | { type: 'list'; commit: string; below: string; all: boolean }
  | { type: 'stat'; commit: string; path: string }
  /** Those of these objects that are not in what is open. */
  | { type: 'missing'; oids: string[] }
  | { type: 'texts'; oids: string[] };

export interface FileEntry {
  path: string;
  oid: string;
}

export type GitOutput =
  | { type: 'progress'; what: 'unpack' | 'history'; done: number; total: number }
  | { type: 'changes'; changes: FileChange[] }
  | { type: 'entries'; entries: FileEntry[] }
  /** Contents, by the name of the object as `path`; one that is no code is left out. */
  | { type: 'contents'; files: PackageFile[] }
  | { type: 'done'; answer: GitAnswer }
  /** `message` is for the user. */
  | { type: 'failed'; message: string };

export interface GitAnswer {
  objects?: number;
  oid?: string | null;
  report?: HistoryReport;
  missing?: string[];
}

import {
  type GitCommit,
  type GitObjects,
  GitProblem,
  parseCommit,
  parseTag,
  TreeEntries,
} from './git-objects.ts';

/** A repository of public components has 100,000 commits. */
const commitsMax = 1_000_000;
/** Entries that one comparison may look at: a hostile tree can list the same folder many times at every level. */
const entriesMax = 2_000_000;
const depthMax = 32;
const nameBytesMax = 255;
const pathBytesMax = 1024;

/** A file whose content differs from that in the commit's first parent. */
export interface FileChange {
  /** Commits in the order in which their versions count: a lower one comes first. */
  rank: number;
  commit: string;
  /** Epoch seconds. */
  at: number;
  path: string;
  oid: string;
}

export interface HistoryReport {
  commits: number;
  /** The commit `since` is an ancestor of the tip. */
  hasSince: boolean;
  /** The clone has only a part of its history. */
  isShallow: boolean;
}

interface HistoryOptions {
  tip: string;
  /** Its own history is known, and left out. */
  since?: string | undefined;
  /** Files that count, by their path. */
  wants: (path: string) => boolean;
  onChange: (change: FileChange) => void;
  /** The number of commits that were compared. */
  progress: (done: number, total: number) => void;
}

/**
 * Every content that a wanted file ever had, and the commit that brought it: first along the line of first parents (what was
 * published), then in what was merged into it. Throws GitProblem.
 */
export function readHistory(objects: GitObjects, options: HistoryOptions): HistoryReport {
  const { tip, since, wants, onChange, progress } = options;
  const commits = new Map<string, GitCommit>();
  const report: HistoryReport = { commits: 0, hasSince: false, isShallow: false };
  const known = new Set<string>();
  const load = (oid: string): GitCommit | null => {
    const found = objects.read(oid);
    if (found === null) return null;
    if (found.type !== 'commit') throw new GitProblem(`${oid} is no commit`);
    return parseCommit(found.data);
  };
  const reach = (from: string, into: (oid: string, commit: GitCommit) => boolean): void => {
    const waiting = [from];
    for (let oid = waiting.pop(); oid !== undefined; oid = waiting.pop()) {
      const commit = load(oid);
      if (commit === null) {
        if (oid === from) throw new GitProblem(`the repository has no commit ${oid}`);
        report.isShallow = true;
      } else if (into(oid, commit)) waiting.push(...commit.parents);
    }
  };
  const remember = (set: { has(oid: string): boolean; size: number }, oid: string): boolean => {
    if (set.size >= commitsMax) throw new GitProblem(`the repository has more than ${commitsMax} commits`);
    return !set.has(oid);
  };
  if (since !== undefined)
    reach(since, (oid) => {
      const isNew = remember(known, oid);
      known.add(oid);
      return isNew;
    });
  reach(tip, (oid, commit) => {
    if (oid === since) report.hasSince = true;
    if (known.has(oid) || !remember(commits, oid)) return false;
    commits.set(oid, commit);
    return true;
  });
  report.commits = commits.size;

  // Newest first: packs store older trees as differences from newer ones.
  const main: string[] = [];
  const isMain = new Set<string>();
  for (let oid: string | undefined = tip; oid !== undefined; oid = commits.get(oid)?.parents[0]) {
    if (!commits.has(oid)) break;
    main.push(oid);
    isMain.add(oid);
  }
  const merged = [...commits]
    .filter(([oid]) => !isMain.has(oid))
    .sort(([, a], [, b]) => b.at - a.at)
    .map(([oid]) => oid);
  const treeOf = (oid: string | undefined): string | null => {
    if (oid === undefined) return null;
    return (commits.get(oid) ?? load(oid))?.tree ?? null;
  };
  let done = 0;
  const compare = (oid: string, rank: number): void => {
    const { tree, parents, at } = commits.get(oid) as GitCommit;
    compareTrees(objects, {
      before: treeOf(parents[0]),
      now: tree,
      onFile: (path, blob) => {
        if (wants(path)) onChange({ rank, commit: oid, at, path, oid: blob });
      },
    });
    done += 1;
    if (done % 64 === 0) progress(done, commits.size);
  };
  for (const [index, oid] of main.entries()) compare(oid, main.length - 1 - index);
  for (const [index, oid] of merged.entries()) compare(oid, main.length + merged.length - 1 - index);
  progress(done, commits.size);
  return report;
}

/** The commit that a ref points to, by way of tags. */
export function commitOf(objects: GitObjects, oid: string): string {
  let at = oid;
  for (let depth = 0; depth < 8; depth += 1) {
    const found = objects.read(at);
    if (found === null) throw new GitProblem(`the repository has no commit ${at}`);
    if (found.type === 'commit') return at;
    if (found.type !== 'tag') break;
    at = parseTag(found.data);
  }
  throw new GitProblem(`${oid} is no commit`);
}

export function treeOfCommit(objects: GitObjects, oid: string): string {
  const found = objects.read(oid);
  if (found === null || found.type !== 'commit') throw new GitProblem(`the repository has no commit ${oid}`);
  return parseCommit(found.data).tree;
}

/** Files that a folder has, at any depth. */
export function listFiles(
  objects: GitObjects,
  tree: string,
  onFile: (path: string, oid: string) => void,
): void {
  compareTrees(objects, { before: null, now: tree, onFile });
}

/** The entry at a path, or null: no file with content is there. */
export function fileAt(objects: GitObjects, tree: string, path: string): string | null {
  const entry = entryAt(objects, tree, path);
  return entry?.isFile === true ? entry.oid : null;
}

export function folderAt(objects: GitObjects, tree: string, path: string): string | null {
  if (path === '' || path === '.') return tree;
  const entry = entryAt(objects, tree, path);
  return entry?.isTree === true ? entry.oid : null;
}

function entryAt(objects: GitObjects, tree: string, path: string): TreeEntries | null {
  let at = tree;
  const names = path.split('/');
  for (const [index, name] of names.entries()) {
    const entries = new TreeEntries(treeData(objects, at));
    let found = false;
    while (!found && entries.advance()) found = entries.name === name;
    if (!found) return null;
    if (index === names.length - 1) return entries;
    if (!entries.isTree) return null;
    at = entries.oid;
  }
  return null;
}

interface Comparison {
  before: string | null;
  now: string;
  /** Called for each file whose content differs from that in the first parent. */
  onFile: (path: string, oid: string) => void;
}

function compareTrees(objects: GitObjects, { before, now, onFile }: Comparison): void {
  let entries = 0;
  const walk = (old: string | null, tree: string, prefix: string, depth: number): void => {
    if (depth > depthMax) return;
    const left = old === null ? null : new TreeEntries(treeData(objects, old));
    const right = new TreeEntries(treeData(objects, tree));
    let hasLeft = left?.advance() ?? false;
    while (right.advance()) {
      entries += 1;
      if (entries > entriesMax)
        throw new GitProblem(
          `comparing one commit of the repository takes more than ${entriesMax} entries of folders`,
        );
      if (hasLeft && left?.equals(right) === true) {
        hasLeft = left.advance();
        continue;
      }
      let order = 1;
      while (hasLeft && left !== null) {
        order = left.compareName(right);
        if (order >= 0) break;
        hasLeft = left.advance();
      }
      const same = hasLeft && left !== null && order === 0 ? left : null;
      if (same?.equals(right) === true || (!right.isTree && !right.isFile)) continue;
      const name = right.name;
      if (!isUsableName(name)) continue;
      const path = prefix === '' ? name : `${prefix}/${name}`;
      if (path.length > pathBytesMax) continue;
      if (right.isFile) onFile(path, right.oid);
      else walk(same?.isTree === true ? same.oid : null, right.oid, path, depth + 1);
    }
  };
  if (before !== now) walk(before, now, '', 0);
}

/** What a file system could have below a folder, and no folder that holds the packages of others. */
function isUsableName(name: string): boolean {
  return (
    name !== '' &&
    name !== '.' &&
    name !== '..' &&
    name !== 'node_modules' &&
    name.toLowerCase() !== '.git' &&
    name.length <= nameBytesMax &&
    !name.includes('/') &&
    !name.includes('\\') &&
    !name.includes('\ufffd') &&
    !/\p{Cc}/u.test(name)
  );
}

function treeData(objects: GitObjects, oid: string): Buffer {
  const found = objects.read(oid);
  if (found === null) throw new GitProblem(`the repository has no folder ${oid}`);
  if (found.type !== 'tree') throw new GitProblem(`${oid} is no folder`);
  return found.data;
}

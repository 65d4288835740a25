import { writeSync } from 'node:fs';
import type { PackageFile } from './build-messages.ts';
import { GitClone } from './git-clone.ts';
import {
  commitOf,
  type FileChange,
  fileAt,
  folderAt,
  listFiles,
  readHistory,
  treeOfCommit,
} from './git-history.ts';
import type { FileEntry, GitAnswer, GitOutput, GitRequest } from './git-messages.ts';
import { type GitObject, type GitObjects, GitProblem } from './git-objects.ts';
import { GitPack } from './git-pack.ts';
import { isAppPath, isComponentPath } from './git-paths.ts';
import { readMessages } from './message-lines.ts';
import { contentOf } from './text-of.ts';

/**
 * The process that reads Git repositories: packs that the service received, and clones. It has no network, writes no file, starts no
 * program (hooks and filters of a repository are files that nothing looks at) and evaluates nothing. Requests are answered in turn; it
 * ends when its stdin does.
 */
const rowsPerMessage = 1_000;
/** Code is far smaller. */
const fileBytesMax = 2 * 1024 * 1024;
const charactersPerMessage = 1024 * 1024;
const listedMax = 500_000;

const outputFd = 3;
const pauseMs = 5;
const never = new Int32Array(new SharedArrayBuffer(4));
const packs: GitPack[] = [];
let clone: GitClone | undefined;

const objects: GitObjects = {
  has: (oid) => packs.some((pack) => pack.has(oid)) || clone?.has(oid) === true,
  read: (oid): GitObject | null => {
    for (const pack of packs) {
      const found = pack.read(oid);
      if (found !== null) return found;
    }
    return clone?.read(oid) ?? null;
  },
};

readMessages<GitRequest>(process.stdin, (request) => {
  try {
    say({ type: 'done', answer: answer(request) });
  } catch (error) {
    if (!(error instanceof GitProblem)) throw error;
    say({ type: 'failed', message: error.message });
  }
});

/** Written at once: a request is read in one go, which would hold up a stream until its end. */
function say(message: GitOutput): void {
  let left = Buffer.from(`${JSON.stringify(message)}\n`);
  while (left.length > 0) {
    try {
      left = left.subarray(writeSync(outputFd, left));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      Atomics.wait(never, 0, 0, pauseMs);
    }
  }
}

function answer(request: GitRequest): GitAnswer {
  switch (request.type) {
    case 'open-clone':
      clone = new GitClone(request.folder);
      return {};
    case 'open-pack': {
      const pack = GitPack.indexed(request.path, (done, total) =>
        say({ type: 'progress', what: 'unpack', done, total }),
      );
      packs.push(pack);
      return { objects: pack.count };
    }
    case 'resolve': {
      const oid = request.oid ?? clone?.resolve(request.ref ?? '') ?? null;
      return { oid: oid === null ? null : commitOf(objects, oid) };
    }
    case 'history':
      return history(request);
    case 'list':
      return list(request);
    case 'stat':
      return { oid: fileAt(objects, treeOfCommit(objects, request.commit), request.path) };
    case 'missing':
      return { missing: request.oids.filter((oid) => !objects.has(oid)) };
    case 'texts':
      return texts(request.oids);
  }
}

function history({ tip, since }: Extract<GitRequest, { type: 'history' }>): GitAnswer {
  let changes: FileChange[] = [];
  const flush = (): void => {
    if (changes.length > 0) say({ type: 'changes', changes });
    changes = [];
  };
  const report = readHistory(objects, {
    tip,
    // One that is not there cannot be an ancestor.
    since: since !== undefined && objects.has(since) ? since : undefined,
    wants: isComponentPath,
    onChange: (change) => {
      changes.push(change);
      if (changes.length >= rowsPerMessage) flush();
    },
    progress: (done, total) => say({ type: 'progress', what: 'history', done, total }),
  });
  flush();
  return { report };
}

function list({ commit, below, all }: Extract<GitRequest, { type: 'list' }>): GitAnswer {
  const folder = folderAt(objects, treeOfCommit(objects, commit), below);
  let entries: FileEntry[] = [];
  let count = 0;
  const flush = (): void => {
    if (entries.length > 0) say({ type: 'entries', entries });
    entries = [];
  };
  if (folder !== null)
    listFiles(objects, folder, (name, oid) => {
      const path = below === '' || below === '.' ? name : `${below}/${name}`;
      if (!all && !isComponentPath(path) && !isAppPath(path)) return;
      count += 1;
      if (count > listedMax) throw new GitProblem(`the repository has more than ${listedMax} files`);
      entries.push({ path, oid });
      if (entries.length >= rowsPerMessage) flush();
    });
  flush();
  return { objects: count };
}

function texts(oids: readonly string[]): GitAnswer {
  let files: PackageFile[] = [];
  let characters = 0;
  const flush = (): void => {
    if (files.length > 0) say({ type: 'contents', files });
    files = [];
    characters = 0;
  };
  for (const oid of oids) {
    const found = objects.read(oid);
    if (found === null || found.type !== 'blob' || found.data.length > fileBytesMax) continue;
    const content = contentOf(found.data);
    files.push({ path: oid, ...content });
    characters += content.text.length;
    if (characters > charactersPerMessage) flush();
  }
  flush();
  return {};
}

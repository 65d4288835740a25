import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { ProcessGroups } from './process-groups.ts';

/** A folder with the files of a group. What is written to them stays there, as no kernel reads it. */
let folder: TempFolder;
let root: string;
let membership: string;
const base = () => join(root, 'system.slice', 'millrace.service');
const fileOf = (path: string) => readFileSync(join(base(), path), 'utf8');
const removed: string[] = [];
const removeFolder = (path: string): void => {
  if (!existsSync(path)) throw Object.assign(new Error('no such group'), { code: 'ENOENT' });
  removed.push(path);
  rmSync(path, { recursive: true });
};
const open = () => ProcessGroups.open({ root, membership, removeFolder });

before(async () => {
  folder = await createTempFolder('groups');
});
after(() => folder?.remove());
beforeEach(() => {
  rmSync(folder.path, { recursive: true });
  root = join(folder.path, 'cgroup');
  membership = join(folder.path, 'membership');
  mkdirSync(base(), { recursive: true });
  write('', { 'cgroup.controllers': 'cpuset cpu io memory pids\n', 'cgroup.subtree_control': '\n' });
  write('', { 'cgroup.procs': `${process.pid}\n` });
  writeFileSync(membership, '1:name=systemd:/\n0::/system.slice/millrace.service\n');
  removed.length = 0;
});

function write(group: string, files: Record<string, string>): void {
  mkdirSync(join(base(), group), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(base(), group, name), text);
}

test('a group that was delegated is divided: one for the service, and one for each process with its limits', async () => {
  const groups = open();
  assert.ok(groups instanceof ProcessGroups, String(groups));
  assert.equal(fileOf('service/cgroup.procs'), String(process.pid));
  assert.equal(fileOf('cgroup.subtree_control'), '+memory +pids +cpu');
  const group = groups.make({ memoryBytesMax: 1_000_000, tasksMax: 100, niceness: 10 });
  const name = `sandbox-${process.pid}-1`;
  assert.equal(group.procsFile, join(base(), name, 'cgroup.procs'));
  assert.deepEqual(
    ['memory.max', 'memory.oom.group', 'pids.max', 'cpu.weight'].map((file) => fileOf(`${name}/${file}`)),
    ['1000000', '1', '100', '11'],
  );
  assert.equal(group.beNice(19), true);
  assert.equal(fileOf(`${name}/cpu.weight`), '1');
  group.take([4_000_001]);
  assert.equal(fileOf(`${name}/cgroup.procs`), '4000001');
  assert.equal(group.ranOutOfMemory, false);
  write(name, { 'memory.events': 'max 7\noom 1\noom_kill 0\n' });
  assert.equal(group.ranOutOfMemory, false);
  write(name, { 'memory.events': 'max 7\noom 1\noom_kill 2\n' });
  assert.equal(group.ranOutOfMemory, true);
  await group.remove();
  groups.close();
  assert.equal(fileOf('cgroup.subtree_control'), '-memory -pids -cpu');
  assert.equal(fileOf('cgroup.procs'), String(process.pid));
  assert.deepEqual(removed, [join(base(), name), join(base(), 'service')]);
});

test('what outlived a process in its group is ended, and a group that is not empty yet is removed later', async () => {
  const attempts: string[] = [];
  const groups = ProcessGroups.open({
    ...{ root, membership },
    removeFolder: (path) => {
      attempts.push(readFileSync(join(path, 'cgroup.kill'), 'utf8'));
      if (attempts.length < 3) throw Object.assign(new Error('busy'), { code: 'EBUSY' });
      rmSync(path, { recursive: true });
    },
  });
  assert.ok(groups instanceof ProcessGroups);
  const group = groups.make({ memoryBytesMax: 1, tasksMax: 1, niceness: 0 });
  await group.remove();
  assert.deepEqual(attempts, ['1', '1', '1']);
});

test('groups of a service that was killed are emptied and removed', () => {
  write('sandbox-123-4', {});
  write('service', {});
  const groups = open();
  assert.ok(groups instanceof ProcessGroups, String(groups));
  assert.deepEqual(removed, [join(base(), 'sandbox-123-4')]);
});

test('a service that systemd starts in a group below the delegated one uses the delegated one', () => {
  write('service', { 'cgroup.procs': `${process.pid}\n` });
  write('', { 'cgroup.procs': '' });
  writeFileSync(membership, '0::/system.slice/millrace.service/service\n');
  const groups = open();
  assert.ok(groups instanceof ProcessGroups, String(groups));
  groups.make({ memoryBytesMax: 1, tasksMax: 1, niceness: 0 });
  assert.ok(readdirSync(base()).includes(`sandbox-${process.pid}-1`));
});

test('without the controller for processor time the other limits are set', () => {
  write('', { 'cgroup.controllers': 'memory pids\n' });
  const groups = open();
  assert.ok(groups instanceof ProcessGroups, String(groups));
  assert.equal(fileOf('cgroup.subtree_control'), '+memory +pids');
  const group = groups.make({ memoryBytesMax: 1, tasksMax: 1, niceness: 10 });
  assert.equal(group.beNice(19), false);
});

const reasons: Readonly<Record<string, { change: () => void; reason: RegExp }>> = {
  'without cgroup v2': {
    change: () => writeFileSync(membership, '4:memory:/x\n1:name=systemd:/\n'),
    reason: /^cgroup v2 is not mounted$/,
  },
  'with cgroup v2 mounted elsewhere': {
    change: () => rmSync(join(base(), 'cgroup.controllers')),
    reason: /^cgroup v2 is not mounted$/,
  },
  'without controllers': {
    change: () => write('', { 'cgroup.controllers': 'cpu\n' }),
    reason: /^its group has no controller memory and pids \(found: cpu\)$/,
  },
  'with a group that others may change alone': {
    // Also root cannot write what is not there.
    change: () => rmSync(join(base(), 'cgroup.subtree_control')),
    reason: /millrace\.service cannot be written$/,
  },
  'with others in its group': {
    change: () => write('', { 'cgroup.procs': `1\n${process.pid}\n2\n` }),
    reason: /^other processes are in its group: 1, 2$/,
  },
};
for (const [name, { change, reason }] of Object.entries(reasons))
  test(`${name} the service makes no groups, changes nothing and says why`, () => {
    change();
    assert.match(String(open()), reason);
    assert.ok(!existsSync(join(base(), 'service')));
  });

test('a group whose controllers cannot be given on is left as it was found', () => {
  rmSync(join(base(), 'cgroup.subtree_control'));
  mkdirSync(join(base(), 'cgroup.subtree_control'));
  assert.match(String(open()), /EISDIR/);
  assert.equal(fileOf('cgroup.procs'), String(process.pid));
  assert.ok(!existsSync(join(base(), 'service')));
});

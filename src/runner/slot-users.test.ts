import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { waitFor } from '../../test/support/wait-for.ts';
import { findExecutable } from './runner-folders.ts';
import { SlotUsers } from './slot-users.ts';

const three = { first: 70_000, last: 70_002 };
const setpriv = findExecutable('setpriv');
const nobodyLeft = async () => new Map<number, number[]>();

describe('the users of sandboxed processes', () => {
  test('each user is used once before any is used again', async () => {
    const users = new SlotUsers({
      range: three,
      processesOf: nobodyLeft,
      onLeft: () => {},
      random: () => 0.5,
    });
    const first = users.take();
    assert.equal(first, 70_001);
    users.release(first);
    assert.deepEqual([users.take(), users.take()], [70_002, 70_000]);
    await waitFor(async () => {
      const again = users.take();
      if (again !== undefined) assert.equal(again, first);
      return again !== undefined;
    });
    assert.equal(users.take(), undefined);
    await users.close();
  });

  test('there are so many users that none is given to a second process, and services begin at different ones', () => {
    const starts = Array.from({ length: 20 }, () =>
      new SlotUsers({ processesOf: nobodyLeft, onLeft: () => {} }).take(),
    );
    assert.equal(new Set(starts).size, starts.length);
  });

  test('a user with a remaining process is not given to another process', async () => {
    let isLeft = true;
    const looked: number[] = [];
    const users = new SlotUsers({
      range: { first: 70_000, last: 70_000 },
      processesOf: async (asked) => {
        looked.push(...asked);
        return new Map(isLeft ? [[70_000, []]] : []);
      },
      onLeft: () => {},
    });
    assert.equal(users.take(), 70_000);
    users.release(70_000);
    await waitFor(() => looked.length > 0);
    await setImmediate();
    assert.equal(users.take(), undefined);
    isLeft = false;
    await waitFor(() => users.take() === 70_000);
    await users.close();
  });

  test('a user whose process reappears is not given to another process', async () => {
    const looks = [[], [1], [], []].map((pids) => new Map(pids.length === 0 ? [] : [[70_000, []]]));
    let looked = 0;
    const users = new SlotUsers({
      range: { first: 70_000, last: 70_000 },
      processesOf: async () => {
        // After these looks the user is free.
        if (looked < looks.length) assert.equal(users.take(), undefined);
        return looks[looked++] ?? new Map();
      },
      onLeft: () => {},
    });
    assert.equal(users.take(), 70_000);
    users.release(70_000);
    await waitFor(() => users.take() === 70_000);
    assert.equal(looked, looks.length);
    await users.close();
  });

  test('a program that has taken the rights of another user is ended as any other', {
    skip: (process.getuid?.() !== 0 || setpriv === undefined) && 'not root, or no setpriv',
  }, async () => {
    const users = new SlotUsers({ onLeft: () => {} });
    const user = users.take();
    assert.ok(user !== undefined && setpriv !== undefined);
    // A set-uid program has these user IDs.
    const args = ['--ruid', String(user), '--euid', '0', '/bin/sleep', '60'];
    const child = spawn(setpriv, args, { detached: true, stdio: 'ignore' });
    const status = (): Promise<string> => readFile(`/proc/${child.pid}/status`, 'utf8');
    await waitFor(async () => (await status()).includes(`Uid:\t${user}\t0`));
    const ended = once(child, 'exit');
    users.release(user);
    assert.deepEqual(await ended, [null, 'SIGKILL']);
    await users.close();
  });

  test('a program that outlives its sandbox is ended with it', {
    skip: process.getuid?.() !== 0 && 'not root',
  }, async () => {
    const told: unknown[] = [];
    const users = new SlotUsers({ onLeft: (left) => told.push(left) });
    const user = users.take();
    assert.ok(user !== undefined);
    const child = spawn('/bin/sleep', ['60'], { uid: user, gid: user, detached: true, stdio: 'ignore' });
    await once(child, 'spawn');
    const ended = once(child, 'exit');
    users.release(user);
    assert.deepEqual(await ended, [null, 'SIGKILL']);
    assert.deepEqual(told, [{ user, pids: [child.pid] }]);
    await users.close();
  });
});

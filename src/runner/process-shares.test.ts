import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ProcessShares } from './process-shares.ts';

describe('the shares of owners in the processes', () => {
  const busy = () => ({ idle: false, hasCode: true });
  const none = new Set<string>();
  const sharesOf = (processesMax: number, memoryBudgetMb = 2048) =>
    new ProcessShares({ processesMax, memoryBudgetMb });
  /** Gives an owner as many processes as it may have, at most `max`, and returns their number. */
  const takeAll = (shares: ProcessShares, ownerId: string, waiting = none, max = 64): number => {
    let count = 0;
    while (count < max && shares.mayTake(ownerId, waiting)) {
      shares.took(busy(), ownerId);
      count += 1;
    }
    return count;
  };

  test('an owner that is alone may have everything except what the first call of another needs', () => {
    const shares = sharesOf(64);
    assert.equal(takeAll(shares, 'a'), 48);
    assert.equal(takeAll(shares, 'new'), 16);
    assert.equal(takeAll(sharesOf(1), 'a'), 1);
  });

  test('the reason for no process names whose share is used up, and what to do', () => {
    const shares = sharesOf(8);
    takeAll(shares, 'a');
    assert.match(
      shares.whyNone('a').reason,
      /^6 of 8 processes are busy with runs of this owner, .*\$\.flow\.delay/,
    );
    assert.match(
      shares.whyNone('b').reason,
      /^6 of 8 processes are busy with runs of other owners; .*operator/,
    );
    assert.match(sharesOf(8).whyNone('b').reason, /^the machine started none in time; .*log/);
  });

  test('where there are several owners, each leaves room for the next, however many have come before', () => {
    const shares = sharesOf(64);
    assert.ok(shares.mayTake('b', none));
    assert.equal(takeAll(shares, 'a'), 28);
    assert.equal(takeAll(shares, 'c'), 16);
    assert.equal(takeAll(shares, 'd'), 4);
    const later = Array.from({ length: 10 }, (_, n) => takeAll(shares, `later-${n}`));
    assert.deepEqual(later, [2, 2, 2, 2, 1, 1, 1, 1, 1, 1]);
    assert.ok(shares.mayTake('new', none));
  });

  test('while another owner with less than a quarter waits, no owner gets more than a quarter', () => {
    const shares = sharesOf(64);
    assert.equal(takeAll(shares, 'a', new Set(['b'])), 16);
    assert.deepEqual(shares.order(new Set(['a', 'b'])), ['b']);
    assert.equal(takeAll(shares, 'b', new Set(['a']), 16), 16);
    assert.ok(shares.mayTake('a', new Set(['b'])), 'both have their quarter, and half is free');
  });

  test('workspaces of one user take turns together: the first process of another user does not come behind those of all of them', () => {
    const createdBy: Record<string, string> = {
      o_1: 'u_1',
      o_2: 'u_1',
      o_3: 'u_1',
      o_4: 'u_1',
      o_5: 'u_2',
      o_6: 'u_2',
    };
    const shares = new ProcessShares({ processesMax: 64, memoryBudgetMb: 2048 }, (ownerId) => {
      const user = createdBy[ownerId];
      return user === undefined ? {} : { createdBy: user };
    });
    for (const ownerId of ['o_1', 'o_2', 'o_5']) shares.took(busy(), ownerId);
    assert.deepEqual(shares.order(new Set(['o_1', 'o_3', 'o_4', 'o_5', 'o_6', 'u_3'])), [
      'u_3',
      'o_6',
      'o_5',
      'o_3',
      'o_4',
      'o_1',
    ]);
  });

  test('a process without work does not count: it can be ended', () => {
    const shares = sharesOf(4);
    assert.ok(shares.mayTake('b', none));
    const idle = { idle: true, hasCode: true };
    for (let count = 0; count < 4; count += 1) shares.took({ ...idle }, 'a');
    assert.ok(shares.mayTake('a', none));
    const given = { idle: true, hasCode: false };
    const other = sharesOf(4);
    assert.ok(other.mayTake('b', none));
    for (let count = 0; count < 2; count += 1) other.took({ ...given }, 'a');
    assert.ok(!other.mayTake('a', none), 'one that was just given away is about to have work');
  });

  test('a process that has ended does not count', () => {
    const shares = sharesOf(2);
    assert.ok(shares.mayTake('b', none));
    const process = busy();
    shares.took(process, 'a');
    assert.ok(!shares.mayTake('a', none));
    shares.left(process);
    assert.ok(shares.mayTake('a', none));
  });

  const mebibyte = 1024 * 1024;
  /** Gives an owner a process that uses this much memory. */
  const withMemory = (shares: ProcessShares, ownerId: string, megabytes: number, process = busy()) => {
    shares.took(process, ownerId);
    shares.sawMemory(process, megabytes * mebibyte);
    return process;
  };
  const toFree = (shares: ProcessShares) =>
    shares.memoryToFree().map(({ owners, bytes }) => [[...owners], bytes / mebibyte]);

  test('an owner that is alone may use all of the memory, and gets no further process beyond it', () => {
    const shares = sharesOf(64, 1000);
    const large = withMemory(shares, 'a', 999);
    assert.ok(shares.mayTake('a', none));
    assert.deepEqual(toFree(shares), []);
    shares.sawMemory(large, 1010 * mebibyte);
    assert.ok(!shares.mayTake('a', none));
    assert.deepEqual(toFree(shares), [[['a'], 10]]);
  });

  test('where there are several owners, memory beyond a quarter is limited to what is left for the others', () => {
    const shares = sharesOf(64, 1000);
    const small = withMemory(shares, 'b', 200);
    const large = withMemory(shares, 'a', 390);
    assert.ok(shares.mayTake('a', none));
    shares.sawMemory(large, 410 * mebibyte);
    assert.ok(!shares.mayTake('a', none), 'others can use less than it does: 390 MB');
    assert.ok(shares.mayTake('b', none));
    assert.match(
      shares.whyNone('a').reason,
      /^processes of this owner use 410 MB of memory, and its share is 400 MB; /,
    );
    shares.left(small);
    assert.ok(shares.mayTake('a', none));
  });

  test('memory of an owner beyond its share ends no process of owners within theirs', () => {
    const shares = sharesOf(64, 1000);
    withMemory(shares, 'b', 240);
    withMemory(shares, 'a', 800);
    assert.deepEqual(toFree(shares), [[['a'], 420]]);
    const many = sharesOf(64, 1000);
    for (let n = 0; n < 6; n += 1) withMemory(many, `o${n}`, 200);
    assert.deepEqual(toFree(many), [[['o0', 'o1', 'o2', 'o3', 'o4', 'o5'], 200]], 'all are within theirs');
  });

  test('the limits that an operator has set for an owner apply also where its share is larger', () => {
    const limits = { processesMax: 2, memoryMbMax: 100 };
    const shares = new ProcessShares({ processesMax: 64, memoryBudgetMb: 2048 }, (ownerId) =>
      ownerId === 'a' ? limits : {},
    );
    assert.equal(takeAll(shares, 'a'), 2);
    assert.match(shares.whyNone('a').reason, /^2 processes are busy with .* its quota is 2; .*operator/);
    limits.processesMax = 3;
    assert.ok(shares.mayTake('a', none));
    withMemory(shares, 'a', 130, { idle: true, hasCode: true });
    assert.ok(!shares.mayTake('a', none));
    assert.deepEqual(toFree(shares), [[['a'], 30]]);
    assert.ok(shares.mayTake('b', none));
  });

  test('the owner with the most processes makes room; an owner beyond its share takes none from owners with fewer', () => {
    const shares = sharesOf(8);
    const idle = { idle: true, hasCode: true };
    for (let n = 0; n < 4; n += 1) shares.took({ ...idle }, 'many');
    for (let n = 0; n < 3; n += 1) shares.took(busy(), 'greedy');
    shares.took({ ...idle }, 'one');
    const ranks = (ownerId: string) => ['many', 'greedy', 'one'].map(shares.roomFor(ownerId));
    assert.deepEqual(ranks('new'), [4, 3, 1]);
    assert.deepEqual(ranks('greedy'), [4, 3, 0]);
  });
});

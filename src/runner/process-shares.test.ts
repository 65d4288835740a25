import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ProcessShares } from './process-shares.ts';

describe('the shares of owners in the processes', () => {
  const busy = () => ({ idle: false, hasCode: true });
  const none = new Set<string>();
  /** Gives an owner as many as it may have, at most `max`; answers how many those are. */
  const takeAll = (shares: ProcessShares, ownerId: string, waiting = none, max = 64): number => {
    let count = 0;
    while (count < max && shares.mayTake(ownerId, waiting)) {
      shares.took(busy(), ownerId);
      count += 1;
    }
    return count;
  };

  test('who is alone may have all but what the first call of another needs', () => {
    const shares = new ProcessShares(64);
    assert.equal(takeAll(shares, 'a'), 48);
    assert.equal(takeAll(shares, 'new'), 16);
    assert.equal(takeAll(new ProcessShares(1), 'a'), 1);
  });

  test('who gets no process is told whose share is used up, and what to do', () => {
    const shares = new ProcessShares(8);
    takeAll(shares, 'a');
    assert.match(
      shares.whyNone('a'),
      /^6 of 8 processes are busy with runs of this owner, .*\$\.flow\.delay/,
    );
    assert.match(shares.whyNone('b'), /^6 of 8 processes are busy with runs of other owners; .*operator/);
    assert.match(new ProcessShares(8).whyNone('b'), /^the machine started none in time; .*log/);
  });

  test('where there are others, one leaves room for the next, however many have come before', () => {
    const shares = new ProcessShares(64);
    assert.ok(shares.mayTake('b', none));
    assert.equal(takeAll(shares, 'a'), 32);
    assert.equal(takeAll(shares, 'c'), 16);
    assert.equal(takeAll(shares, 'd'), 16);
  });

  test('while another waits who has less than a quarter, nobody gets more than one', () => {
    const shares = new ProcessShares(64);
    assert.equal(takeAll(shares, 'a', new Set(['b'])), 16);
    assert.deepEqual([...shares.order(new Set(['a', 'b']))], [['b', 0]]);
    assert.equal(takeAll(shares, 'b', new Set(['a']), 16), 16);
    assert.ok(shares.mayTake('a', new Set(['b'])), 'both have their quarter, and half is free');
  });

  test('a process without work counts for nobody: it can be ended', () => {
    const shares = new ProcessShares(4);
    assert.ok(shares.mayTake('b', none));
    const idle = { idle: true, hasCode: true };
    for (let count = 0; count < 4; count += 1) shares.took({ ...idle }, 'a');
    assert.ok(shares.mayTake('a', none));
    const given = { idle: true, hasCode: false };
    const other = new ProcessShares(4);
    assert.ok(other.mayTake('b', none));
    for (let count = 0; count < 2; count += 1) other.took({ ...given }, 'a');
    assert.ok(!other.mayTake('a', none), 'one that was just given away is about to have work');
  });

  test('what has ended counts no more', () => {
    const shares = new ProcessShares(2);
    assert.ok(shares.mayTake('b', none));
    const process = busy();
    shares.took(process, 'a');
    assert.ok(!shares.mayTake('a', none));
    shares.left(process);
    assert.ok(shares.mayTake('a', none));
  });
});

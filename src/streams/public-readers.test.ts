import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { TestClock } from '../../test/support/test-clock.ts';
import { PublicReaders } from './public-readers.ts';

const connection = () => Object.assign(new EventEmitter(), { destroyed: false }) as unknown as ServerResponse;

test('a workflow has so many readers without a key, and all workflows so many, until their connections close', () => {
  const readers = new PublicReaders({
    clock: new TestClock(1_800_000_000_000),
    perWorkflowMax: 2,
    max: 3,
  });
  const take = (id: string) => {
    const response = connection();
    readers.check(id);
    readers.take(id, response);
    return response;
  };
  const [first] = [take('p_1'), take('p_1')];
  assert.throws(() => take('p_1'), {
    code: 'streams_busy',
    message: /of this workflow .* found 2/,
    details: { limit: 2, retry_after: 5, reset_at: 1_800_000_005 },
  });
  take('p_2');
  assert.throws(() => take('p_3'), { code: 'streams_busy', message: /of all workflows .* found 3/ });
  first?.emit('close');
  take('p_1');
  readers.take('p_1', Object.assign(connection(), { destroyed: true }));
  assert.throws(() => take('p_1'), { code: 'streams_busy' });
});

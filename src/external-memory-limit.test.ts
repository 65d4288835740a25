import assert from 'node:assert/strict';
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { test } from 'node:test';
import { setImmediate as turnOfLoop } from 'node:timers/promises';
import { growExternalMemoryLimit } from './external-memory-limit.ts';

const chunkBytes = 65_536;
const chunksOfText = 88;

/** Collections of the whole heap while 150 texts of 5.7 MB come in, as events do: in chunks, which are joined and decoded. */
async function collectionsForTexts(): Promise<number> {
  let count = 0;
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const { detail } = entry as unknown as { detail: { kind: number } };
      if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) count += 1;
    }
  });
  observer.observe({ entryTypes: ['gc'] });
  const underWay: string[] = [];
  for (let n = 0; n < 150; n += 1) {
    const chunks: Buffer[] = [];
    for (let chunk = 0; chunk < chunksOfText; chunk += 1) {
      chunks.push(Buffer.allocUnsafe(chunkBytes).fill('x'));
      if (chunk % 16 === 0) await turnOfLoop();
    }
    underWay[n % 8] = Buffer.concat(chunks).toString();
  }
  await turnOfLoop();
  observer.disconnect();
  return count;
}

test('large texts that come in cause fewer collections of the whole heap', async () => {
  const kept = Array.from({ length: 300_000 }, (_, n) => ({ n, text: `kept ${n}` }));
  const before = await collectionsForTexts();
  growExternalMemoryLimit();
  const after = await collectionsForTexts();
  assert.ok(after < before * 0.9, `${before} collections before, ${after} after, ${kept.length} objects`);
});

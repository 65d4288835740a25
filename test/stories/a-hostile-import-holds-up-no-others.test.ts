import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { useSharedService } from '../support/millrace.ts';
import { patienceMs } from '../support/wait-for.ts';
import { makeZip } from '../support/zip-archive.ts';

const head = 'schema: workflow/2022.04\nname: One\n';
const times = <T>(count: number, make: (at: number) => T) =>
  Array.from({ length: count }, (_, at) => make(at));
const attacks: Readonly<Record<string, string>> = {
  'keys in one mapping': `${head}x: {${times(20_000, (at) => `k${at}`).join()}}`,
  'brackets that never close': `${head}x: ${'['.repeat(100_000)}`,
  errors: '\t\n@'.repeat(133_000),
  anchors: head + times(3_000, (at) => `k${at}: &a${at} x\n`).join(''),
  steps: `${head}steps:\n${times(10_000, (at) => `- namespace: s${at}\n`).join('')}`,
};

describe('reading an import', () => {
  const fixture = useSharedService();
  for (const [name, text] of Object.entries(attacks))
    test(`other requests are answered while an archive with too many ${name} is read`, async () => {
      // Four workflows of it in one archive.
      const entries = times(4, (at) => ({ path: `one-p_One${at}/workflow.yaml`, content: text }));
      const archive = makeZip(entries).toString('base64');
      const slowest: number[] = [];
      // On a busy machine a request may wait for the processor; for a reader it would wait each time.
      const giveUpMs = performance.now() + patienceMs;
      while (performance.now() < giveUpMs && !slowest.some((milliseconds) => milliseconds < 1_000)) {
        let isRead = false;
        const reading = fixture.service.api('POST', '/v1/imports', { archive, dry_run: true }).finally(() => {
          isRead = true;
        });
        let slowestMs = 0;
        while (!isRead) {
          const startedMs = performance.now();
          await fixture.service.api('GET', '/v1/users/me');
          slowestMs = Math.max(slowestMs, performance.now() - startedMs);
        }
        const { status } = await reading;
        assert.ok([200, 400].includes(status), `status ${status}`);
        slowest.push(slowestMs);
      }
      const waits = slowest.map((milliseconds) => `${Math.round(milliseconds)} ms`).join(', ');
      assert.ok((slowest.at(-1) ?? 0) < 1_000, `each time a request waited: ${waits}`);
    });
});

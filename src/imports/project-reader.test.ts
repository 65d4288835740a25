import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ProjectReader } from './project-reader.ts';

const files = (definition: string) => ({ 'one-p_One111/workflow.yaml': definition });
const sound = { files: files('schema: workflow/2022.04\nname: One\nsteps: []\n') };
const large = {
  files: files(`steps:\n${Array.from({ length: 10_000 }, (_, at) => `- namespace: s${at}`).join('\n')}`),
};

const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    ({ code, message }: { code: string; message: string }) => [code, message],
  );

describe('a reader of projects', () => {
  test('reads what is sound, and says why what is not cannot be read', async () => {
    const reader = new ProjectReader();
    const { workflows } = await reader.project('owner', sound);
    assert.deepEqual(
      workflows.map(({ id, name }) => [id, name]),
      [['p_One111', 'One']],
    );
    assert.deepEqual(Object.keys(await reader.outline('owner', sound)), ['folder/workflow.yaml#1']);
    assert.equal(
      (await codeOf(reader.project('owner', { bytes: Buffer.from('none') })))?.[0],
      'invalid_import',
    );
  });

  test('refuses what takes more time or memory than it may', async () => {
    assert.deepEqual(await codeOf(new ProjectReader({ readMaxMs: 1 }).project('owner', large)), [
      'invalid_import',
      'reading it takes more than 1 ms: import it folder by folder',
    ]);
    assert.deepEqual(
      await codeOf(new ProjectReader({ heapMbMax: 24, readMaxMs: 300_000 }).project('owner', large)),
      ['invalid_import', 'reading it takes more than 24 MB of memory: import it folder by folder'],
    );
  });

  test('lets owners take turns, and refuses what one owner has too much of', async () => {
    const reader = new ProjectReader();
    const done: string[] = [];
    const many = Array.from({ length: 9 }, () =>
      codeOf(reader.project('many', sound).finally(() => done.push('many'))),
    );
    await reader.project('other', sound).finally(() => done.push('other'));
    // The ninth of the first owner is refused at once; at most two others were read before the one of the other owner.
    assert.ok(done.indexOf('other') <= 3, done.join());
    const codes = await Promise.all(many);
    assert.deepEqual(
      codes.map((one) => one?.[0]),
      [...Array.from({ length: 8 }, () => undefined), 'overloaded'],
    );
    await reader.project('many', sound);
  });

  test('gives up what it reads when the service stops', async () => {
    const reader = new ProjectReader();
    const read = ['first', 'first', 'second'].map((owner) => codeOf(reader.project(owner, large)));
    reader.close();
    for (const answer of await Promise.all(read))
      assert.deepEqual(answer, ['overloaded', 'the service stops']);
  });
});

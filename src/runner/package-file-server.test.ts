import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Duplex, duplexPair } from 'node:stream';
import { after, before, test } from 'node:test';
import { componentWith, type RunnerFixture, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { PackageFileLists, PackageFileServer } from './package-file-server.ts';
import { noPackageFile, packageFileBytesMax } from './protocol.ts';

let folder: TempFolder;
let fixture: RunnerFixture;
before(async () => {
  folder = await createTempFolder('package-files');
  await mkdir(join(folder.path, 'one', 'node_modules', 'a'), { recursive: true });
  await writeFile(join(folder.path, 'one', 'node_modules', 'a', 'index.js'), 'text of a');
  await writeFile(join(folder.path, 'one', 'gone'), 'x');
  await writeFile(join(folder.path, 'secret'), 'nobody asks for it');
  fixture = await startRunnerFixture();
});
after(async () => {
  await fixture?.close();
  await folder?.remove();
});

async function serve(): Promise<{
  child: Duplex;
  server: PackageFileServer;
  violations: string[];
  ask: (id: number, n: number) => Buffer;
}> {
  const [service, child] = duplexPair();
  const violations: string[] = [];
  const server = new PackageFileServer(service, (reason) => violations.push(reason));
  const ask = (id: number, n: number): Buffer => {
    const request = Buffer.alloc(8);
    request.writeUInt32BE(id, 0);
    request.writeUInt32BE(n, 4);
    return request;
  };
  return { child, server, violations, ask };
}

test('a process gets the files of a list by their place in it, and the list itself once', async () => {
  const { child, server, violations, ask } = await serve();
  const packages = await new PackageFileLists().of(join(folder.path, 'one'));
  const { id, list } = server.add(packages);
  const files = JSON.parse(list.toString()) as [string, number][];
  assert.deepEqual(files.toSorted(), [
    ['gone', 1],
    ['node_modules/a/index.js', 9],
  ]);
  assert.deepEqual(server.add(packages), { id, list: Buffer.alloc(0) });
  const n = files.findIndex(([path]) => path.endsWith('index.js'));
  // The request arrives in pieces of any size.
  const request = ask(id, n);
  child.write(request.subarray(0, 3));
  child.write(request.subarray(3));
  const [answer] = (await once(child, 'data')) as [Buffer];
  assert.deepEqual([answer.readUInt32BE(0), answer.toString('utf8', 4)], [9, 'text of a']);
  await rm(join(folder.path, 'one', 'gone'));
  child.write(ask(id, 1 - n));
  const [none] = (await once(child, 'data')) as [Buffer];
  assert.deepEqual([none.length, none.readUInt32BE(0)], [4, noPackageFile]);
  assert.deepEqual(violations, []);
});

test('a file beyond the size limit is not read', async () => {
  const { child, server, ask } = await serve();
  const { id } = server.add({ folder: folder.path, files: [['secret', packageFileBytesMax + 1]] });
  child.write(ask(id, 0));
  const [answer] = (await once(child, 'data')) as [Buffer];
  assert.equal(answer.readUInt32BE(0), noPackageFile);
});

test('a file that is in no list cannot be requested, nor two files at a time', async () => {
  for (const write of [
    ({ child, ask }: Awaited<ReturnType<typeof serve>>) => child.write(ask(0, 1)),
    ({ child, ask }: Awaited<ReturnType<typeof serve>>) => child.write(ask(1, 0)),
    ({ child, ask }: Awaited<ReturnType<typeof serve>>) => child.write(Buffer.concat([ask(0, 0), ask(0, 0)])),
  ]) {
    const served = await serve();
    served.server.add({ folder: folder.path, files: [['secret', 18]] });
    write(served);
    await new Promise(setImmediate);
    assert.equal(served.violations.length, 1);
  }
});

test('code that sends its own requests for files ends only its process', async () => {
  const beside = fixture.call(componentWith('return 1;'), { deploymentId: 'dc_beside' });
  for (const bytes of ['Buffer.alloc(8)', 'Buffer.alloc(1_000)', 'Buffer.from("00000001ffffffff", "hex")']) {
    const outcome = await fixture.run(`require('fs').writeSync(5, ${bytes}); await new Promise(() => {});`);
    assert.equal(outcome.status, 'exited', bytes);
  }
  assert.equal((await beside).status, 'finished');
});

import assert from 'node:assert/strict';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import { createTempFolder, type TempFolder } from '../../../test/support/temp-folder.ts';
import { DashboardPages } from './dashboard-pages.ts';

let folder: TempFolder;
beforeEach(async () => {
  folder = await createTempFolder('pages');
  await mkdir(join(folder.path, 'dashboard'));
  await mkdir(join(folder.path, 'sdk', 'src'), { recursive: true });
  await mkdir(join(folder.path, 'examples'));
  await writeFile(join(folder.path, 'package-lock.json'), '{}');
});
afterEach(() => folder.remove());

/** A build that writes the given code, in place of Vite. */
async function buildIs(code: string): Promise<void> {
  const head =
    "import { mkdirSync, writeFileSync } from 'node:fs';\nconst out: string = process.argv[2] ?? '';\nconst write = (name: string, text: string) => writeFileSync(out + '/' + name, text);\n";
  await writeFile(join(folder.path, 'dashboard', 'build.ts'), head + code);
}

function pages(): DashboardPages {
  return new DashboardPages({
    root: folder.path,
    // The first cannot be made: a file is in the way.
    cacheFolders: [join(folder.path, 'package-lock.json', 'cache'), join(folder.path, 'cache')],
    logger: silentLogger,
  });
}

async function readyFiles(from: DashboardPages) {
  assert.equal(from.look().state, 'building');
  await from.settled();
  const look = from.look();
  assert.ok(look.state === 'ready', JSON.stringify(look));
  return look.files;
}

test('pages are built when they are asked for, kept, and built again when their sources change', async () => {
  await buildIs(
    "mkdirSync(out + '/assets'); write('index.html', '<p>one'); write('assets/a-1.js', 'a'); write('assets/a-1.js.br', 'b');",
  );
  const files = await readyFiles(pages());
  assert.deepEqual([...files.keys()].sort(), ['/assets/a-1.js', '/index.html']);
  assert.equal(files.get('/assets/a-1.js')?.encoded.br?.toString(), 'b');
  assert.deepEqual(
    [files.get('/assets/a-1.js')?.immutable, files.get('/index.html')?.immutable],
    [true, false],
  );
  const [built] = await readdir(join(folder.path, 'cache'));
  await writeFile(join(folder.path, 'cache', built ?? '', 'index.html'), '<p>kept');
  assert.equal((await readyFiles(pages())).get('/index.html')?.plain.toString(), '<p>kept');
  await buildIs("write('index.html', '<p>two');");
  assert.equal((await readyFiles(pages())).get('/index.html')?.plain.toString(), '<p>two');
  assert.equal((await readdir(join(folder.path, 'cache'))).length, 1, 'the one before is removed');
  const [before] = await readdir(join(folder.path, 'cache'));
  await writeFile(join(folder.path, 'sdk', 'src', 'millrace.ts'), 'export {};');
  await readyFiles(pages());
  assert.notEqual((await readdir(join(folder.path, 'cache')))[0], before, 'the client is one of the sources');
});

test('a build that fails says why, and is tried again', async () => {
  await buildIs("console.error('no such module: react'); process.exit(3);");
  const failing = pages();
  failing.look();
  await failing.settled();
  const look = failing.look();
  assert.ok(look.state === 'failed');
  assert.match(look.message, /it ended with 3[\s\S]*no such module: react/);
  assert.deepEqual(await readdir(join(folder.path, 'cache')), [], 'nothing is left of it');
  await buildIs("write('index.html', '<p>good');");
  await readyFiles(failing);
});

test('the build sees nothing of the environment of the service, and ends with it', async () => {
  await buildIs("write('index.html', JSON.stringify(Object.keys(process.env)));");
  const files = await readyFiles(pages());
  assert.deepEqual(JSON.parse(files.get('/index.html')?.plain.toString() ?? ''), ['NODE_ENV']);
  await rm(join(folder.path, 'cache'), { recursive: true });
  await buildIs('setInterval(() => {}, 1000);');
  const endless = pages();
  endless.look();
  await endless.stop();
  assert.equal(endless.look().state, 'failed');
});

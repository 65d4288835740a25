import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type RunnerFixture, resultOf, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import { scratchFilesMax } from './runner-limits.ts';

/** `/tmp` of the seat belt is in memory. Without a sandbox it is a folder, which shows the behaviour of Node's own functions. */
let memory: RunnerFixture;
let real: RunnerFixture;
/** A fixture whose limit for files is larger than half of the memory of a process. */
let wide: RunnerFixture;

const scratchBytesMax = 1024 * 1024;

before(async () => {
  memory = await startRunnerFixture({ limits: { scratchBytesMax } });
  real = await startRunnerFixture({ level: 'off' });
  wide = await startRunnerFixture({ limits: { memoryMb: 64 } });
});
after(async () => {
  await memory?.close();
  await real?.close();
  await wide?.close();
});

const prelude = `const fs = require('fs'); const fsp = require('fs/promises'); const path = require('path');
  const { pipeline } = require('stream/promises'); const { promisify } = require('util'); const { once } = require('events');
  const code = async (work) => { try { return await work(); } catch (error) { return [error.code, error.syscall, error.path, error.message]; } };
  const shape = (s) => [s.isFile(), s.isDirectory(), s.isSymbolicLink(), s.mode.toString(8), s.isFile() ? s.size : 0, s.mtime instanceof Date, typeof s.mtimeMs];
  const dir = fs.mkdtempSync('/tmp/test-'); const at = (name) => path.join(dir, name);
  const norm = (value) => JSON.parse(JSON.stringify(value ?? null).replaceAll(dir, 'DIR'));`;

/** Code that works with files, by what it shows. Each runs in its own folder below /tmp. */
const cases: Record<string, string> = {
  'write, append, read':
    "fs.writeFileSync(at('a'), 'one'); fs.appendFileSync(at('a'), Buffer.from(' two')); await fsp.appendFile(at('a'), ' three'); return [fs.readFileSync(at('a'), 'utf8'), (await fsp.readFile(at('a'))).length, await promisify(fs.readFile)(at('a'), { encoding: 'latin1' })];",
  'write of views, iterables and streams':
    "fs.writeFileSync(at('a'), new Uint16Array([0x4141])); await fsp.writeFile(at('b'), ['x', 'y']); await fsp.writeFile(at('c'), require('stream').Readable.from(['1', '2'])); return ['a', 'b', 'c'].map((n) => fs.readFileSync(at(n), 'utf8'));",
  'open flags':
    "const said = []; for (const flag of ['r', 'r+', 'wx', 'w', 'w+', 'a', 'a+', 'ax', 'rs+']) for (const name of ['there', 'new-' + flag]) { fs.writeFileSync(at('there'), 'abc'); said.push([flag, name, await code(async () => { const fd = fs.openSync(at(name), flag); let got; try { fs.writeSync(fd, 'Z'); } catch (error) { got = error.code; } fs.closeSync(fd); return [got, fs.readFileSync(at(name), 'utf8')]; })]); } return said;",
  'descriptors: positions, holes and truncation':
    "const fd = fs.openSync(at('a'), 'w+'); fs.writeSync(fd, 'hello'); fs.writeSync(fd, 'W', 10); const b = Buffer.alloc(20); const n = fs.readSync(fd, b, 0, 20, 0); fs.ftruncateSync(fd, 3); fs.ftruncateSync(fd, 5); const text = fs.readFileSync(at('a')).toString('hex'); fs.writeSync(fd, '!'); fs.fsyncSync(fd); fs.fdatasyncSync(fd); const st = shape(fs.fstatSync(fd)); fs.closeSync(fd); return [n, b.toString('hex'), text, st, await code(() => fs.writeSync(fd, 'x'))];",
  vectors:
    "const fd = fs.openSync(at('a'), 'w+'); const w = fs.writevSync(fd, [Buffer.from('ab'), Buffer.from('cd')]); const b = [Buffer.alloc(3), Buffer.alloc(3)]; const r = fs.readvSync(fd, b, 0); fs.closeSync(fd); return [w, r, b.map(String)];",
  'two descriptors see each other':
    "const w = fs.openSync(at('a'), 'w'); const r = fs.openSync(at('a'), 'r'); const b = Buffer.alloc(5); const before = fs.readSync(r, b, 0, 5, 0); fs.writeSync(w, 'hello'); const later = fs.readSync(r, b, 0, 5, 0); fs.closeSync(w); fs.closeSync(r); return [before, later, String(b)];",
  'a file that is removed while it is open':
    "const fd = fs.openSync(at('a'), 'w+'); fs.writeSync(fd, 'kept'); fs.unlinkSync(at('a')); const b = Buffer.alloc(4); fs.readSync(fd, b, 0, 4, 0); const { nlink } = fs.fstatSync(fd); fs.closeSync(fd); return [String(b), nlink, fs.existsSync(at('a'))];",
  FileHandle:
    "const h = await fsp.open(at('a'), 'w+'); await h.writeFile('line one\\nline two\\n'); await h.appendFile('three'); const { bytesRead, buffer } = await h.read({ position: 5, length: 3, buffer: Buffer.alloc(3) }); const w = await h.write('X', 0); await h.write(Buffer.from('__Y'), 2, 1, 1); const st = shape(await h.stat()); await h.chmod(0o600); await h.truncate(12); await h.utimes(1, 2); await h.sync(); await h.datasync(); await h.close(); const all = fs.readFileSync(at('a'), 'utf8'); return [bytesRead, String(buffer), w.bytesWritten, st, all, fs.statSync(at('a')).mode.toString(8), fs.statSync(at('a')).mtimeMs];",
  'FileHandle: lines and streams':
    "fs.writeFileSync(at('a'), 'one\\ntwo'); const h = await fsp.open(at('a')); const lines = []; for await (const line of h.readLines()) lines.push(line); const h2 = await fsp.open(at('a')); let text = ''; for await (const c of h2.createReadStream({ encoding: 'utf8' })) text += c; const h3 = await fsp.open(at('b'), 'w'); await pipeline(['x', 'y'], h3.createWriteStream()); return [lines, text, fs.readFileSync(at('b'), 'utf8')];",
  'read streams':
    "fs.writeFileSync(at('a'), 'x'.repeat(200000) + 'end'); let size = 0; let n = 0; for await (const c of fs.createReadStream(at('a'))) { size += c.length; n += 1; } let part = ''; for await (const c of fs.createReadStream(at('a'), { start: 199998, end: 200001, encoding: 'utf8' })) part += c; const s = fs.createReadStream(at('a')); await once(s, 'open'); const own = [s instanceof fs.ReadStream, Object.hasOwn(s, 'fd'), typeof s.fd, s.path === at('a')]; s.destroy(); return [size, n, part, own];",
  'a read stream of nothing':
    "const s = fs.createReadStream(at('none')); const [error] = await once(s, 'error'); return [error.code, error.syscall, error.path];",
  'write streams':
    "const s = fs.createWriteStream(at('a')); s.write('one'); s.end('two'); await once(s, 'finish'); await pipeline(['three'], fs.createWriteStream(at('a'), { flags: 'a' })); await pipeline(['X'], fs.createWriteStream(at('a'), { flags: 'r+', start: 1 })); return [fs.readFileSync(at('a'), 'utf8'), s.bytesWritten, s.path === at('a')];",
  'zip and unzip through streams':
    "const zlib = require('zlib'); fs.writeFileSync(at('a'), 'text '.repeat(50000)); await pipeline(fs.createReadStream(at('a')), zlib.createGzip(), fs.createWriteStream(at('a.gz'))); await pipeline(fs.createReadStream(at('a.gz')), zlib.createGunzip(), fs.createWriteStream(at('b'))); return [fs.readFileSync(at('a')).equals(fs.readFileSync(at('b'))), fs.statSync(at('a.gz')).size < 5000];",
  folders:
    "fs.mkdirSync(at('a/b/c'), { recursive: true }); const first = fs.mkdirSync(at('d/e'), { recursive: true }); fs.writeFileSync(at('a/b/f'), ''); await fsp.mkdir(at('g')); const st = shape(fs.statSync(at('a'))); return [first, fs.readdirSync(dir).sort(), fs.readdirSync(at('a'), { recursive: true }).sort(), st, await code(() => fs.mkdirSync(at('a'))), await code(() => fs.mkdirSync(at('x/y'))), await code(() => fs.rmdirSync(at('a'))), fs.rmdirSync(at('g')), await code(() => fs.readdirSync(at('a/b/f')))];",
  'entries of folders':
    "fs.mkdirSync(at('a/b'), { recursive: true }); fs.writeFileSync(at('a/f'), ''); fs.symlinkSync('f', at('a/l')); const show = (e) => [e.name, e.parentPath, e.isFile(), e.isDirectory(), e.isSymbolicLink()]; const sync = fs.readdirSync(at('a'), { withFileTypes: true }).map(show).sort(); const deep = (await fsp.readdir(dir, { withFileTypes: true, recursive: true })).map(show).sort(); const open = []; for await (const e of await fsp.opendir(at('a'))) open.push(e.name); return [sync, deep, open.sort()];",
  removing:
    "fs.mkdirSync(at('a/b'), { recursive: true }); fs.writeFileSync(at('a/b/f'), ''); const refused = [await code(() => fs.rmSync(at('a')).x), await code(() => fs.unlinkSync(at('none')))].map((e) => e[0].replace('ERR_FS_', '')); await fsp.rm(at('a'), { recursive: true }); fs.rmSync(at('none'), { force: true }); return [refused, fs.readdirSync(dir)];",
  renaming:
    "fs.mkdirSync(at('a')); fs.writeFileSync(at('a/f'), 'f'); fs.writeFileSync(at('g'), 'g'); fs.renameSync(at('a'), at('b')); await fsp.rename(at('g'), at('b/f')); return [fs.readFileSync(at('b/f'), 'utf8'), fs.readdirSync(dir), (await code(() => fs.renameSync(at('none'), at('x')))).slice(0, 3), (await code(() => fs.renameSync(at('b'), at('b/in')))).slice(0, 2), fs.mkdirSync(at('e')), (await code(() => fs.renameSync(at('b/f'), at('e')))).slice(0, 2), (await code(() => fs.renameSync(at('e'), at('b/f')))).slice(0, 2), (await code(() => fs.renameSync(at('e'), at('b')))).slice(0, 2)];",
  copying:
    "fs.writeFileSync(at('a'), 'a'); fs.chmodSync(at('a'), 0o640); fs.copyFileSync(at('a'), at('b')); await fsp.copyFile(at('a'), at('c')); return [fs.readFileSync(at('b'), 'utf8'), fs.statSync(at('b')).mode.toString(8), (await code(() => fs.copyFileSync(at('a'), at('c'), fs.constants.COPYFILE_EXCL))).slice(0, 2)];",
  'copying trees':
    "fs.mkdirSync(at('a/b'), { recursive: true }); fs.writeFileSync(at('a/b/f'), 'f'); fs.writeFileSync(at('a/g'), 'g'); fs.cpSync(at('a'), at('c'), { recursive: true }); await fsp.cp(at('a'), at('d'), { recursive: true, filter: (from) => !from.endsWith('g') }); await promisify(fs.cp)(at('a/g'), at('h')); fs.writeFileSync(at('c/g'), 'old'); fs.cpSync(at('a'), at('c'), { recursive: true, force: false }); const kept = fs.readFileSync(at('c/g'), 'utf8'); fs.cpSync(at('a'), at('c'), { recursive: true }); return [fs.readdirSync(at('c'), { recursive: true }).sort(), fs.readdirSync(at('d'), { recursive: true }).sort(), fs.readFileSync(at('h'), 'utf8'), kept, fs.readFileSync(at('c/g'), 'utf8'), (await code(() => fs.cpSync(at('a'), at('e'))))[0], (await code(() => fs.cpSync(at('a'), at('a/in'), { recursive: true })))[0], (await code(() => fs.cpSync(at('a/g'), at('h'), { errorOnExist: true, force: false })))[0]];",
  'hard links':
    "fs.writeFileSync(at('a'), 'a'); fs.linkSync(at('a'), at('b')); fs.writeFileSync(at('b'), 'bb'); const { nlink } = fs.statSync(at('a')); fs.unlinkSync(at('a')); return [nlink, fs.readFileSync(at('b'), 'utf8'), fs.statSync(at('b')).nlink];",
  'symbolic links':
    "fs.mkdirSync(at('d')); fs.writeFileSync(at('d/f'), 'f'); fs.symlinkSync('d', at('rel')); fs.symlinkSync(at('d/f'), at('abs')); fs.symlinkSync('loop', at('loop')); fs.symlinkSync('none', at('dangling')); return [fs.readFileSync(at('rel/f'), 'utf8'), fs.readFileSync(at('abs'), 'utf8'), fs.readlinkSync(at('rel')), fs.realpathSync(at('rel/f')), fs.realpathSync.native(at('abs')), await fsp.realpath(at('rel')), shape(fs.lstatSync(at('rel'))).slice(0, 3), shape(fs.statSync(at('rel'))).slice(0, 3), fs.existsSync(at('dangling')), fs.lstatSync(at('dangling')).isSymbolicLink(), (fs.writeFileSync(at('dangling'), 'made'), fs.readFileSync(at('none'), 'utf8'))];",
  'times and modes':
    "fs.writeFileSync(at('a'), ''); fs.utimesSync(at('a'), 10, new Date(20000)); fs.chmodSync(at('a'), '600'); await fsp.lutimes(at('a'), 11, 22); const s = fs.statSync(at('a')); const b = fs.statSync(at('a'), { bigint: true }); return [s.atimeMs, s.mtimeMs, s.mtime.toISOString(), s.mode.toString(8), String(b.mtimeNs), b.isFile(), typeof b.size];",
  'access and existence':
    "fs.writeFileSync(at('a'), ''); fs.accessSync(at('a'), fs.constants.R_OK | fs.constants.W_OK); return [fs.existsSync(at('a')), fs.existsSync(at('b')), await promisify(fs.exists)(at('a')), await code(() => fs.accessSync(at('b'))), fs.statSync(at('b'), { throwIfNoEntry: false }) ?? 'none'];",
  errors:
    "fs.writeFileSync(at('f'), ''); return [await code(() => fs.readFileSync(at('none'))), await code(() => fsp.readFile(at('none'))), await code(() => promisify(fs.stat)(at('none'))), (await code(() => fs.writeFileSync(at('f/x'), '')))[0], (await code(() => fs.readFileSync(dir)))[0], (await code(() => fs.writeFileSync(dir, '')))[0], (await code(() => fs.writeFileSync(at('x'.repeat(300)), '')))[0], await code(() => fs.unlinkSync(at('none')))];",
  'truncate by path':
    "fs.writeFileSync(at('a'), 'abcdef'); fs.truncateSync(at('a'), 3); await fsp.truncate(at('a'), 2); return fs.readFileSync(at('a'), 'utf8');",
  blobs:
    "fs.writeFileSync(at('a'), 'blob'); const blob = await fs.openAsBlob(at('a'), { type: 'text/plain' }); return [await blob.text(), blob.size, blob.type];",
  globs:
    "fs.mkdirSync(at('a')); fs.writeFileSync(at('a/x.txt'), ''); fs.writeFileSync(at('y.txt'), ''); return [fs.globSync('**/*.txt', { cwd: dir }).sort(), (await Array.fromAsync(fsp.glob('*/*.txt', { cwd: dir })))];",
  'URLs and buffers as paths':
    "fs.writeFileSync(new URL('file://' + at('a')), 'a'); return [fs.readFileSync(Buffer.from(at('a')), 'utf8'), (await fsp.readFile(new URL('file://' + at('a')), 'utf8'))];",
  modules:
    "fs.writeFileSync(at('m.cjs'), 'exports.n = 1; exports.place = __filename'); fs.writeFileSync(at('m.mjs'), 'export const n = 2;'); fs.mkdirSync(at('node_modules/p'), { recursive: true }); fs.writeFileSync(at('node_modules/p/package.json'), '{\"main\":\"x.js\"}'); fs.writeFileSync(at('node_modules/p/x.js'), 'module.exports = 3'); const here = fs.realpathSync.native ? require('module').createRequire(at('x.js')) : 0; return [await code(() => here('./m.cjs').n), await code(async () => (await import(at('m.mjs'))).n), await code(() => here('p'))];",
  watching:
    "fs.writeFileSync(at('a'), '1'); const { promise, resolve } = Promise.withResolvers(); const watcher = fs.watch(at('a'), () => resolve()); const timer = setInterval(() => fs.appendFileSync(at('a'), '2'), 20); await promise; watcher.close(); clearInterval(timer); const seen = Promise.withResolvers(); fs.watchFile(at('a'), { interval: 10 }, (now, then) => seen.resolve(now.size > then.size)); const more = setInterval(() => fs.appendFileSync(at('a'), '3'), 20); const grew = await seen.promise; clearInterval(more); fs.unwatchFile(at('a')); return grew;",
  'temporary folders':
    "const made = [fs.mkdtempSync(at('x-')), await fsp.mkdtemp(at('y-')), await promisify(fs.mkdtemp)(at('z-'))]; const d = fs.mkdtempDisposableSync(at('d-')); const there = fs.existsSync(d.path); d.remove(); return [made.map((m) => m.slice(0, -6)), there, fs.existsSync(d.path)];",
  'large files':
    "const b = Buffer.alloc(300000, 'abc'); fs.writeFileSync(at('a'), b); const fd = fs.openSync(at('a'), 'r+'); fs.writeSync(fd, Buffer.from('XYZ'), 0, 3, 65535); fs.closeSync(fd); b.write('XYZ', 65535); return [fs.readFileSync(at('a')).equals(b), fs.statSync(at('a')).blocks > 500];",
};

for (const [name, body] of Object.entries(cases)) {
  test(`code finds in memory what it finds in a folder: ${name}`, async () => {
    const source = `${prelude} try { return norm(await (async () => { ${body} })()); } finally { fs.rmSync(dir, { recursive: true, force: true }); }`;
    const [inMemory, inFolder] = await Promise.all([memory.evaluate(source), real.evaluate(source)]);
    assert.equal(memory.runner.stats().level, 'seat-belt');
    assert.deepEqual(resultOf(inMemory), resultOf(inFolder));
  });
}

test('files beyond the limit get a full disk, to the last block, and free the room when they are removed', async () => {
  const outcome = await memory.evaluate(`const fs = require('fs'); const max = ${scratchBytesMax};
    const code = (work) => { try { work(); return 'done'; } catch (error) { return error.code; } };
    const said = [];
    fs.writeFileSync('/tmp/full', Buffer.alloc(max, 1));
    said.push(code(() => fs.writeFileSync('/tmp/more', 'x')), fs.readdirSync('/tmp').sort(), fs.statSync('/tmp/more').size);
    said.push(code(() => fs.appendFileSync('/tmp/full', 'x')), fs.statSync('/tmp/full').size);
    const fd = fs.openSync('/tmp/full', 'r+'); fs.unlinkSync('/tmp/full');
    said.push(code(() => fs.writeFileSync('/tmp/more', 'x')));
    fs.closeSync(fd);
    said.push(code(() => fs.writeFileSync('/tmp/more', Buffer.alloc(max))), code(() => fs.truncateSync('/tmp/more', 0)));
    said.push(code(() => fs.writeFileSync('/tmp/other', Buffer.alloc(max))));
    fs.rmSync('/tmp/other');
    const holes = fs.openSync('/tmp/holes', 'w'); fs.ftruncateSync(holes, max); said.push(fs.fstatSync(holes).blocks, code(() => fs.ftruncateSync(holes, max + 1)), code(() => fs.writeSync(holes, 'x', max)));
    fs.closeSync(holes); fs.rmSync('/tmp/holes'); fs.rmSync('/tmp/more');
    const stream = fs.createWriteStream('/tmp/stream'); for (let n = 0; n < 40; n += 1) stream.write(Buffer.alloc(50_000));
    said.push(await new Promise((resolve) => stream.on('error', (error) => resolve(error.code))));
    fs.rmSync('/tmp/stream');
    return said;`);
  assert.deepEqual(resultOf(outcome), [
    ...['ENOSPC', ['full', 'more'], 0],
    ...['ENOSPC', scratchBytesMax],
    'ENOSPC',
    ...['done', 'done'],
    'done',
    ...[0, 'EFBIG', 'ENOSPC'],
    'ENOSPC',
  ]);
});

test('files, folders and links are counted once each, and their bytes are at most half of the memory', async () => {
  const outcome = await memory.run(`const fs = require('fs'); let made = 0;
    const code = (work) => { try { work(); return 'done'; } catch (error) { return error.code; } };
    const fill = () => { try { for (;;) { const n = made % 3; if (n === 0) fs.writeFileSync('/tmp/' + made, ''); else if (n === 1) fs.mkdirSync('/tmp/' + made); else fs.symlinkSync('x', '/tmp/' + made); made += 1; } } catch (error) { return error.code; } };
    const first = [fill(), made, code(() => fs.linkSync('/tmp/0', '/tmp/link'))];
    fs.rmSync('/tmp/1', { recursive: true }); fs.rmSync('/tmp/link');
    return [...first, code(() => fs.mkdirSync('/tmp/again')), code(() => fs.mkdirSync('/tmp/once-more'))];`);
  // The folder that is /tmp of the deployment counts as one of them.
  assert.deepEqual(resultOf(outcome), ['ENOSPC', scratchFilesMax - 1, 'done', 'done', 'ENOSPC']);
  const wider = await wide.run(
    "const fs = require('fs'); const mb = Buffer.alloc(1024 * 1024); let n = 0; try { for (;;) { fs.appendFileSync('/tmp/a', mb); n += 1; } } catch (error) { return [error.code, n]; }",
  );
  assert.deepEqual(resultOf(wider), ['ENOSPC', 32]);
});

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { rootCertificates } from 'node:tls';
import { type RunnerFixture, resultOf, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import { findExecutable } from './sandbox-folders.ts';

/**
 * Ways out of the seat belt, each with the control that it works in bare Node: it returns the text of a file that the code has no
 * business with, or `done` for what leaves a trace outside. `C` is the path of that file, `D` its folder, and `T` a folder of one's own.
 */
const attacks: Record<string, string> = {
  // Paths
  'a path': 'return fs.readFileSync(C, "utf8");',
  'a stream': "let text = ''; for await (const c of fs.createReadStream(C)) text += c; return text;",
  'a stream of its own class':
    "let text = ''; for await (const c of new fs.ReadStream(C)) text += c; return text;",
  'a handle':
    "const h = await fsp.open(C); try { return await h.readFile('utf8'); } finally { await h.close(); }",
  'a blob': 'return await (await fs.openAsBlob(C)).text();',
  'a path up from /tmp': "return fs.readFileSync(T + '/../..' + '/..'.repeat(20) + C, 'utf8');",
  'a working directory':
    "const was = process.cwd(); process.chdir(D); try { return fs.readFileSync('canary.txt', 'utf8'); } finally { process.chdir(was); }",
  'a working directory that changes between check and use':
    "const was = process.cwd(); const reading = [1, 2, 3, 4, 5].map(() => fsp.readFile('canary.txt', 'utf8').catch((e) => e.code)); process.chdir(D); try { return [(await Promise.all(reading)).join(), fs.readFileSync('./canary.txt', 'utf8')].join(); } finally { process.chdir(was); }",
  'a link to a folder': "fs.symlinkSync(D, T + '/l1'); return fs.readFileSync(T + '/l1/canary.txt', 'utf8');",
  'a link to a file': "fs.symlinkSync(C, T + '/l2'); return fs.readFileSync(T + '/l2', 'utf8');",
  'a relative link':
    "fs.symlinkSync('../'.repeat(30) + C.slice(1), T + '/l3'); return fs.readFileSync(T + '/l3', 'utf8');",
  'a link in the place of a folder':
    "fs.mkdirSync(T + '/d'); fs.writeFileSync(T + '/d/canary.txt', 'mine'); const reading = []; for (let n = 0; n < 50; n += 1) { reading.push(fsp.readFile(T + '/d/canary.txt', 'utf8').catch(() => '')); fs.renameSync(T + '/d', T + '/e'); fs.symlinkSync(D, T + '/d'); reading.push(fsp.readFile(T + '/d/canary.txt', 'utf8').catch(() => '')); await reading.at(-1); fs.unlinkSync(T + '/d'); fs.renameSync(T + '/e', T + '/d'); } return (await Promise.all(reading)).join();",
  'a folder that is renamed while a path goes through it':
    "fs.mkdirSync(T + '/p/q/r', { recursive: true }); const up = '/.'.repeat(500) + '/..'.repeat(3); const depth = T.split('/').length + 1; const reading = []; for (let n = 0; n < 300; n += 1) { for (let i = 0; i < 4; i += 1) reading.push(fsp.readFile(T + '/p/q/r' + up + '/..'.repeat(i % 2 ? depth : 0) + C, 'utf8').catch(() => '')); fs.renameSync(T + '/p/q/r', T + '/r'); fs.renameSync(T + '/r', T + '/p/q/r'); } return (await Promise.all(reading)).join('');",
  'a hard link': "fs.linkSync(C, T + '/h'); return fs.readFileSync(T + '/h', 'utf8');",
  'renaming it here':
    "fs.writeFileSync(D + '/moved.txt', 'CANARY'); fs.renameSync(D + '/moved.txt', T + '/moved'); return fs.readFileSync(T + '/moved', 'utf8');",
  copying: "fs.copyFileSync(C, T + '/c1'); return fs.readFileSync(T + '/c1', 'utf8');",
  'copying a tree':
    "fs.cpSync(D, T + '/c2', { recursive: true }); return fs.readFileSync(T + '/c2/canary.txt', 'utf8');",
  'copying a tree in time':
    "await fsp.cp(D, T + '/c3', { recursive: true }); return fs.readFileSync(T + '/c3/canary.txt', 'utf8');",
  'copying out': "fs.writeFileSync(T + '/o', 'x'); fs.copyFileSync(T + '/o', D + '/out'); return 'done';",
  writing: "fs.writeFileSync(D + '/written', ''); return 'done';",
  'the file systems of Node':
    "const vfs = require('node:vfs'); const at = vfs.create(new vfs.RealFSProvider(D)).mount(); return fs.readFileSync(at + '/canary.txt', 'utf8');",
  'the file systems of Node, imported':
    "const vfs = await import('node:vfs'); return vfs.create(new vfs.RealFSProvider(D)).readFileSync('/canary.txt', 'utf8');",
  'the file systems of Node, got':
    "const vfs = process.getBuiltinModule('node:vfs'); return new vfs.VirtualFileSystem(new vfs.RealFSProvider(D)).readFileSync('/canary.txt', 'utf8');",
  'a path through the mount point':
    "return fs.readFileSync((T === '/tmp' ? '/dev/null/vfs/0/../../../..' : '') + C, 'utf8');",
  'a listing': "return fs.readdirSync(D).includes('canary.txt') && 'done';",
  'a glob': "return fs.globSync(D + '/*.txt').length === 1 && 'done';",
  'an open folder': "const dir = fs.opendirSync(D); return dir.readSync() !== null && 'done';",
  'a size': "return fs.statSync(C).size > 0 && 'done';",
  'a size that is watched':
    "const { promise, resolve } = Promise.withResolvers(); fs.watchFile(C, { interval: 5 }, (now) => resolve(now.size)); const writing = setInterval(() => { try { fs.appendFileSync(C, ' '); } catch (error) { resolve(error.code); } }, 30); const size = await promise; clearInterval(writing); fs.unwatchFile(C); return size > 0 && 'done';",
  'a watch': "fs.watch(D, () => {}).close(); return 'done';",
  'a real path': "return fs.realpathSync.native(C) === C && 'done';",
  'what a link says': "return fs.readlinkSync('/proc/self/exe').length > 0 && 'done';",
  'the room on a disk': "return fs.statfsSync('/').blocks > 0 && 'done';",
  // Memory
  'the memory of the process': "fs.closeSync(fs.openSync('/proc/self/mem', 'r+')); return 'done';",
  'the map of the memory': "return fs.readFileSync('/proc/self/maps', 'utf8').includes('stack') && 'done';",
  'the environment of the service':
    "return fs.readFileSync('/proc/' + process.ppid + '/environ').length > 0 && 'done';",
  'a device':
    "const fd = fs.openSync('/dev/zero'); const n = fs.readSync(fd, Buffer.alloc(1)); fs.closeSync(fd); return n === 1 && 'done';",
  // Modules
  'an import': "return JSON.stringify(await import('file://' + D + '/canary.mjs'));",
  'a require': "return require('module').createRequire('/x.js')(D + '/canary.json').text;",
  'a require by the loader': "return require('module')._load(D + '/canary.json').text;",
  'a package':
    "return require('module').findPackageJSON('.', 'file://' + D + '/x.js') === D + '/package.json' && 'done';",
  'hooks in a thread': "require('module').register('data:text/javascript,'); return 'done';",
  'an addon':
    "try { process.dlopen({ exports: {} }, C); } catch (error) { return /invalid ELF|file too short|dlopen/.test(error.message) && 'done'; }",
  'an addon in memory':
    "fs.writeFileSync(T + '/a.node', 'no addon'); try { process.dlopen({ exports: {} }, fs.realpathSync(T + '/a.node')); } catch (error) { return /invalid ELF|file too short|dlopen/.test(error.message) && 'done'; }",
  'an addon that is required':
    "fs.writeFileSync(T + '/b.node', 'no addon'); try { require('module').createRequire(T + '/x.js')('./b.node'); } catch (error) { return /invalid ELF|file too short|dlopen/.test(error.message) && 'done'; }",
  'a binding': "process.binding('fs'); return 'done';",
  'a thread':
    "const { Worker } = require('worker_threads'); const w = new Worker('require(\"worker_threads\").parentPort.postMessage(1)', { eval: true }); await new Promise((r) => w.once('message', r)); return 'done';",
  // Programs
  'a program': "return require('child_process').execFileSync('/bin/cat', [C], { encoding: 'utf8' });",
  'a program in place of this one':
    "if (process.execve === undefined || T === '/tmp') process.execve('/bin/true'); return 'done';",
  'options of Node for a child':
    "process.env.NODE_OPTIONS = '--require ' + D + '/canary.cjs'; try { return require('child_process').execFileSync(process.execPath, ['-p', '1'], { encoding: 'utf8' }); } finally { delete process.env.NODE_OPTIONS; }",
  'a WASI program':
    "new (require('wasi').WASI)({ version: 'preview1', preopens: { '/': '/' } }); return 'done';",
  // Modules of Node that read and write
  'a database':
    "const { DatabaseSync } = require('node:sqlite'); new DatabaseSync(D + '/made.db').close(); return 'done';",
  'an environment file': "process.loadEnvFile(D + '/canary.env'); return process.env.CANARY_VALUE;",
  'a file as a reply of HTTP/2':
    "const http2 = require('http2'); const { duplexPair } = require('stream'); const [near, far] = duplexPair(); const server = http2.createServer(); server.on('session', (s) => s.on('error', () => {})); server.on('stream', (s) => { s.on('error', () => {}); s.respondWithFile(C, {}, { onError: (error) => s.respond({ ':status': 500 }, { endStream: true }) }); }); server.emit('connection', far); const client = http2.connect('http://x', { createConnection: () => near }); const request = client.request({ ':path': '/' }); let text = ''; for await (const c of request) text += c; client.destroy(); return text;",
  'an engine of OpenSSL':
    "const { setEngine } = require('crypto'); try { setEngine(C); } catch (error) { return error.code === 'ERR_CRYPTO_ENGINE_UNKNOWN' && 'done'; }",
  'the certificates that a machine trusts, from where one says':
    "process.env.SSL_CERT_FILE = D + '/cert.pem'; process.env.SSL_CERT_DIR = D + '/none'; try { return require('tls').getCACertificates('system').length === 1 && 'done'; } finally { delete process.env.SSL_CERT_FILE; }",
  'a unix socket':
    "const server = require('net').createServer(); await new Promise((resolve, reject) => server.on('error', reject).listen(D + '/s', resolve)); server.close(); return 'done';",
  // What writes as it goes
  'a snapshot of the heap': "require('v8').writeHeapSnapshot(D + '/snapshot'); return 'done';",
  'a snapshot at the limit': "require('v8').setHeapSnapshotNearHeapLimit(1); return 'done';",
  'flags of V8': "require('v8').setFlagsFromString('--logfile=' + D + '/v8.log'); return 'done';",
  'a report': "process.report.writeReport(D + '/report.json'); return 'done';",
  'a report at a crash':
    "process.report.directory = D; process.report.reportOnFatalError = true; const was = process.report.reportOnFatalError === true; process.report.reportOnFatalError = false; return was && 'done';",
  tracing: "require('trace_events').createTracing({ categories: ['node'] }).enable(); return 'done';",
  'a cache of compiled code':
    "return require('module').enableCompileCache(D + '/cache').status !== 3 && 'done';",
  'the inspector':
    "const s = new (require('inspector').Session)(); s.connect(); s.disconnect(); return 'done';",
  // Other processes
  'a signal to the service': "process.kill(process.ppid, 0); return 'done';",
  'the priority of the service':
    "const os = require('os'); os.setPriority(process.ppid, os.getPriority(process.ppid)); return 'done';",
};

/** A race, which nobody can be sure to win. */
const withoutControl = new Set(['a folder that is renamed while a path goes through it']);

const evaluator =
  "const fs = require('fs'); const fsp = require('fs/promises'); const AsyncFunction = (async () => {}).constructor;";
const names = ['fs', 'fsp', 'require', 'C', 'D', 'T'];

let folder: string;
let fixture: RunnerFixture;
let controls: Record<string, string>;

before(async () => {
  // Not below /tmp, which is in memory where code runs.
  folder = await mkdtemp('/var/tmp/millrace-canary-');
  await chmod(folder, 0o777);
  for (const [name, text] of [
    ['canary.txt', 'CANARY'],
    ['canary.mjs', 'export const text = "CANARY";'],
    ['canary.cjs', 'console.log("CANARY")'],
    ['canary.json', '{"text":"CANARY"}'],
    ['canary.env', 'CANARY_VALUE=CANARY'],
    ['package.json', '{}'],
    ['cert.pem', rootCertificates[0] ?? ''],
  ] as const) {
    await writeFile(join(folder, name), text);
    // Nothing but the wall keeps the code from it.
    await chmod(join(folder, name), 0o666);
  }
  fixture = await startRunnerFixture();
  // On the file system of what it attacks, as hard links need it.
  const own = await mkdtemp('/var/tmp/millrace-own-');
  const script = `${evaluator} const said = {}; (async () => {
    for (const [name, body] of ${JSON.stringify(Object.entries(attacks))}) {
      try { said[name] = String(await new AsyncFunction(${JSON.stringify(names)}, body)(fs, fsp, require, ${JSON.stringify(join(folder, 'canary.txt'))}, ${JSON.stringify(folder)}, ${JSON.stringify(own)})); }
      catch (error) { said[name] = 'failed: ' + (error.code ?? error.message); }
    }
    fs.writeFileSync(${JSON.stringify(join(own, 'said.json'))}, JSON.stringify(said));
    process.exit(0);
  })();`;
  await writeFile(join(own, 'controls.cjs'), script);
  execFileSync(process.execPath, ['--no-warnings', '--experimental-vfs', join(own, 'controls.cjs')], {
    env: { TZ: 'UTC' },
    timeout: 60_000,
    stdio: 'pipe',
  });
  controls = JSON.parse(execFileSync('cat', [join(own, 'said.json')], { encoding: 'utf8' }));
  await rm(own, { recursive: true });
  await writeFile(join(folder, 'canary.txt'), 'CANARY');
});
after(async () => {
  await fixture?.close();
  await rm(folder, { recursive: true, force: true });
});

/** The attack worked. */
const worked = /CANARY|^done$/;

for (const [name, body] of Object.entries(attacks)) {
  test(`the seat belt holds against ${name}, which works without it`, async () => {
    if (!withoutControl.has(name)) assert.match(controls[name] ?? '', worked, 'the control');
    const outcome = await fixture.run(
      `${evaluator} try { return String(await new AsyncFunction(${JSON.stringify(names)}, ${JSON.stringify(body)})(fs, fsp, require, ${JSON.stringify(join(folder, 'canary.txt'))}, ${JSON.stringify(folder)}, '/tmp')); }
       catch (error) { return 'failed: ' + (error.code ?? error.message); }`,
    );
    assert.equal(fixture.runner.stats().level, 'seat-belt');
    assert.doesNotMatch(outcome.status === 'finished' ? String(resultOf(outcome)) : '', worked);
  });
}

test('the process has limits of the system, which are there before Node is', {
  skip: findExecutable('prlimit') === undefined && 'prlimit is not installed',
}, async () => {
  const pid = resultOf(await fixture.run('return process.pid;'));
  const limits = await readFile(`/proc/${pid}/limits`, 'utf8');
  const hard = (name: string) => new RegExp(`^${name} +\\S+ +(\\S+)`, 'm').exec(limits)?.[1];
  assert.deepEqual(['Max core file size', 'Max file size', 'Max msgqueue size'].map(hard), ['0', '0', '0']);
  assert.equal(hard('Max open files'), '1024');
  assert.match(hard('Max data size') ?? '', /^\d+$/);
  assert.equal(hard('Max processes') === '128', fixture.runner.stats().ownUsers);
});

test('the process has no right to any file, not even to its own program', async () => {
  const rights = resultOf(
    await fixture.run(
      `const fs = require('fs'); const has = (right, path) => process.permission.has(right, path);
       const paths = ['/', '/tmp', '/etc/passwd', '/proc/self/mem', process.argv[1], process.execPath, '/dev/null'];
       return [has('fs'), has('fs.read'), has('fs.write'), has('child'), has('worker'), has('addon'), has('net'), ...paths.map((path) => has('fs.read', path) || has('fs.write', path)),
         (() => { try { return fs.readFileSync('/etc/passwd').length; } catch (error) { return error.code; } })()];`,
    ),
  );
  assert.deepEqual(rights, [...Array(14).fill(false), 'ERR_ACCESS_DENIED']);
});

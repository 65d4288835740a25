import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { cpus, release, type as systemName, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';

/** `npm run bench -- <name> [options]` runs bench/<name>.bench.ts; without a name it lists them. */
const folder = fileURLToPath(new URL('.', import.meta.url));
const names = readdirSync(folder)
  .filter((file) => file.endsWith('.bench.ts'))
  .map((file) => file.slice(0, -'.bench.ts'.length));

const [name, ...options] = process.argv.slice(2);
if (name === undefined || !names.includes(name)) {
  console.log(`usage: npm run bench -- <name> [options]\nnames: ${names.join(', ')}`);
  process.exitCode = name === undefined ? 0 : 1;
} else {
  const model = cpus()[0]?.model ?? 'unknown processor';
  console.log(`$ npm run bench -- ${[name, ...options].join(' ')}`);
  console.log(
    `node ${process.versions.node}, ${systemName()} ${release()}, ${cpus().length} × ${model}, ${Math.round(totalmem() / 2 ** 30)} GB`,
  );
  const bench = spawn(process.execPath, [`${folder}${name}.bench.ts`, ...options], { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => bench.kill(signal));
  const [code] = await once(bench, 'exit');
  process.exitCode = code ?? 1;
}

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { build } from 'esbuild';
import { createTempFolder, type TempFolder } from './temp-folder.ts';

/** The child of a sandbox without its runner: no network but descriptor 4, and a script that reports on standard output. */
export interface EgressChild {
  /** The parent's end of descriptor 4. */
  egress: Socket;
  process: ChildProcess;
  /** What the script returned, when the child has ended. Rejects with what it wrote to standard error. */
  result(): Promise<unknown>;
}

const flags = [
  '--permission',
  '--no-experimental-sqlite',
  '--no-experimental-ffi',
  '--no-addons',
  '--disable-sigusr1',
  '--no-global-search-paths',
  '--no-warnings',
  '--use-bundled-ca',
];

/** Makes children that run scripts behind the shim (`shim: true`) or with nothing but the bare descriptor. */
export class EgressChildren {
  #folder: TempFolder;
  #shim: string;
  #children: ChildProcess[] = [];
  #count = 0;

  private constructor(folder: TempFolder, shim: string) {
    this.#folder = folder;
    this.#shim = shim;
  }

  static async prepare(): Promise<EgressChildren> {
    const folder = await createTempFolder('egress');
    const built = await build({
      entryPoints: [join(import.meta.dirname, '../../src/runner/sandbox/egress-shim.ts')],
      bundle: true,
      format: 'cjs',
      platform: 'node',
      write: false,
    });
    return new EgressChildren(folder, built.outputFiles[0]?.text ?? '');
  }

  /** `script` is the body of an async function; what it returns comes back as JSON. */
  async start(
    script: string,
    options: { shim?: boolean; extraCa?: string; beforeShim?: string } = {},
  ): Promise<EgressChild> {
    this.#count += 1;
    const file = join(this.#folder.path, `child-${this.#count}.cjs`);
    const install =
      options.shim === false
        ? ''
        : `const shim = { exports: {} };
          (function (module, exports) { ${this.#shim}\n})(shim, shim.exports);
          shim.exports.installEgressShim(4, () => undefined);
          ${options.extraCa === undefined ? '' : `shim.exports.trustExtraCa(${JSON.stringify(options.extraCa)});`}`;
    await writeFile(
      file,
      `(async () => { ${options.beforeShim ?? ''}
${install}
${script} })().then(
        (value) => process.stdout.write(JSON.stringify(value ?? null)),
        (error) => { process.stderr.write(String(error?.stack ?? error) + ' ' + (error?.cause?.stack ?? '')); process.exitCode = 1; },
      );`,
    );
    const child = spawn(process.execPath, [...flags, file], {
      env: {},
      cwd: '/',
      stdio: ['ignore', 'pipe', 'pipe', 'ignore', 'pipe'],
    });
    this.#children.push(child);
    const result = collect(child);
    result.catch(() => {});
    return { egress: child.stdio[4] as Socket, process: child, result: () => result };
  }

  async close(): Promise<void> {
    for (const child of this.#children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    await this.#folder.remove();
  }
}

async function collect(child: ChildProcess): Promise<unknown> {
  let out = '';
  let err = '';
  child.stdout?.on('data', (chunk) => {
    out += chunk;
  });
  child.stderr?.on('data', (chunk) => {
    err += chunk;
  });
  const [code, signal] = await once(child, 'close');
  if (code !== 0 || out === '') throw new Error(`child ended with ${code ?? signal}: ${err}`);
  return JSON.parse(out);
}

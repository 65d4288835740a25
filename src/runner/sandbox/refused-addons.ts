import Module from 'node:module';

type LoadExtension = (module: { exports: unknown }, filename: string) => void;

const extensions = (Module as unknown as { _extensions: Record<string, LoadExtension> })._extensions;

/** Refusals for one folder of packages: packages whose addon is replaced by a stand-in, and the package refused last. */
interface Refusals {
  standIns: ReadonlySet<string>;
  last?: string | undefined;
}

const refusalsOf = new Map<string, Refusals>();
let isServing = false;

/** If the process was started without native addons, refuses those below `folder` with a clear error, or replaces them by stand-ins. */
export function refuseAddons(folder: string, standIns: readonly string[]): Refusals {
  const refusals: Refusals = { standIns: new Set(standIns) };
  if (!process.execArgv.includes('--no-addons')) return refusals;
  refusalsOf.set(folder, refusals);
  if (isServing) return refusals;
  isServing = true;
  const load = extensions['.node'];
  extensions['.node'] = (module, filename) => {
    const [, own] = [...refusalsOf].find(([place]) => filename.startsWith(`${place}/`)) ?? [];
    if (own === undefined) return load?.(module, filename);
    const name = packageOf(filename);
    if (own.standIns.has(name)) {
      module.exports = standInFor(name);
      return;
    }
    own.last = name;
    throw refusalOf(name);
  };
  return refusals;
}

const noteOfText = Symbol.for('millrace.refused-addon');

/** The same for a bundle that contains its packages: the text in place of an addon leaves a note. */
export function refusalsInText(): Refusals {
  const notes = globalThis as { [noteOfText]?: unknown };
  delete notes[noteOfText];
  return {
    standIns: new Set(),
    get last() {
      const name = notes[noteOfText];
      return typeof name === 'string' ? name : undefined;
    },
  };
}

/**
 * Returns the error of an evaluation. Where an addon was refused last, that is most likely the cause, whatever error the package made of it, so
 * the refusal is added with its code.
 */
export function failureOf(thrown: unknown, { last }: Refusals): unknown {
  if (last === undefined || !(thrown instanceof Error)) return thrown;
  if ((thrown as NodeJS.ErrnoException).code === refusedCode && thrown.message === refusalOf(last).message)
    return thrown;
  const { message, code } = refusalOf(last);
  const told = new Error(`${thrown.message} (${message})`);
  return Object.assign(told, { name: thrown.name, code, stack: thrown.stack });
}

const refusedCode = 'ERR_DLOPEN_DISABLED';

/** The same message as in one text (`package-files.ts`). The service finds the package in it. */
function refusalOf(name: string): NodeJS.ErrnoException {
  const message = `the package ${JSON.stringify(name)} needs a native addon, which components may not load here`;
  return Object.assign(new Error(message), { code: refusedCode });
}

function packageOf(filename: string): string {
  const parts = filename.split('/');
  const at = parts.lastIndexOf('node_modules');
  const first = parts[at + 1] ?? '';
  return first.startsWith('@') ? `${first}/${parts[at + 2] ?? ''}` : first;
}

/**
 * Replaces the exports of an addon. Every property exists, can be extended and passed on, and fails when it is called. Packages need it that load
 * their addon immediately and mostly work without it.
 */
function standInFor(name: string): unknown {
  const known = new Map<string, unknown>();
  const fail = (): never => {
    throw Object.assign(
      new Error(
        `${refusalOf(name).message}: the service would have to run with the kernel level of the sandbox, or MILLRACE_NATIVE_ADDONS=allow`,
      ),
      { code: refusedCode },
    );
  };
  return new Proxy(function standIn() {}, {
    get: (target, key, receiver) => {
      if (typeof key === 'symbol' || key === 'prototype') return Reflect.get(target, key, receiver);
      // It must not look like a promise or like a compiled ES module.
      if (key === 'then' || key === '__esModule') return undefined;
      if (Object.hasOwn(target, key) && key !== 'name' && key !== 'length') return Reflect.get(target, key);
      const found = known.get(key) ?? standInFor(name);
      known.set(key, found);
      return found;
    },
    apply: fail,
    construct: fail,
  });
}

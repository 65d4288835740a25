import { syncBuiltinESMExports } from 'node:module';

type Functions = Record<string, unknown>;

/**
 * Removes functions that Node's permissions do not cover, before user code exists: after a change of the working directory, checked paths lead
 * elsewhere; V8's flags and reports write files without a check; signals reach other processes of the same user. The CommonJS and the ES view
 * of a module have the replacement, and the original cannot be restored.
 *
 * This is no wall. It closes the known gaps (docs/security.md).
 */
export function refuseFunctions(): void {
  const self = process as unknown as Functions;
  refuse(self, 'process', ['chdir', '_debugProcess', '_debugEnd'], {
    chdir: 'give whole paths, such as /tmp/name',
  });
  replace(self, '_kill', onlyOwnProcess(self._kill as SendSignal));
  replace(self, 'report', reportWithoutFiles());
  refuse(process.getBuiltinModule('node:os') as unknown as Functions, 'os', ['setPriority']);
  refuse(process.getBuiltinModule('node:v8') as unknown as Functions, 'v8', [
    ...['setFlagsFromString', 'setHeapSnapshotNearHeapLimit', 'writeHeapSnapshot'],
    ...['takeCoverage', 'stopCoverage', 'queryObjects'],
  ]);
  const tls = process.getBuiltinModule('node:tls') as unknown as Functions;
  replace(tls, 'getCACertificates', withoutMachine(tls.getCACertificates as GetCertificates));
  const modules = process.getBuiltinModule('node:module') as unknown as Functions;
  // Compilers enable the cache while they load, and read the result.
  replace(modules, 'enableCompileCache', () => ({ status: compileCacheDisabled }));
  replace(modules, 'flushCompileCache', () => undefined);
  syncBuiltinESMExports();
}

/** Refuses every function that a module exports, for code that is loaded later. */
export function refuseModule(name: string): void {
  const exported = process.getBuiltinModule(name) as unknown as Functions;
  refuse(exported, name, Object.keys(exported));
  syncBuiltinESMExports();
}

/** `module.constants.compileCacheStatus.DISABLED`. */
const compileCacheDisabled = 3;

type SendSignal = (pid: number, signal: number) => number;

/** `process.kill` calls this. Code may not even ask whether another process exists. */
function onlyOwnProcess(send: SendSignal): SendSignal {
  const own = process.pid;
  return (pid, signal) => {
    if (pid !== own && pid !== 0) throw refusal('process.kill', 'a signal goes to the process itself only');
    return send.call(process, pid, signal);
  };
}

type GetCertificates = (type?: string) => string[];

/** OpenSSL reads the certificates of the machine from a file that an environment variable names. */
function withoutMachine(getCertificates: GetCertificates): GetCertificates {
  return (type) => {
    if (type === 'system') throw refusal('tls.getCACertificates of the system');
    return getCertificates(type);
  };
}

/** Code may read a report, but not write one when the process ends. It has nothing of the machine's network in it. */
function reportWithoutFiles(): unknown {
  const report = process.report as NodeJS.ProcessReport & { excludeNetwork: boolean };
  report.excludeNetwork = true;
  return Object.seal({
    // Packages set it before they read a report, which stays without effect. Nothing else can be set.
    get excludeNetwork() {
      return true;
    },
    set excludeNetwork(_value) {},
    getReport: report.getReport.bind(report),
    writeReport: () => {
      throw refusal('process.report.writeReport');
    },
  });
}

function refuse(
  target: Functions,
  owner: string,
  names: readonly string[],
  advice: Record<string, string> = {},
): void {
  for (const name of names) {
    if (typeof target[name] !== 'function') continue;
    // For a class, the same error is thrown when an instance is created.
    function refused(): never {
      throw refusal(`${owner}.${name}`, advice[name]);
    }
    replace(target, name, refused);
  }
}

/** Replaces a property permanently. An assignment (by Node itself, when it loads some modules) causes no error and has no effect. */
function replace(target: Functions, name: string, value: unknown): void {
  Object.defineProperty(target, name, {
    get: () => value,
    set: () => undefined,
    configurable: false,
    enumerable: true,
  });
}

/** The error that Node throws for calls that its permissions cover. */
function refusal(name: string, advice?: string): Error {
  const message = `${name} is not available here${advice === undefined ? '' : `: ${advice}`}`;
  return Object.assign(new Error(message), { code: 'ERR_ACCESS_DENIED' });
}

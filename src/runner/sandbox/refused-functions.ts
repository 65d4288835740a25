import { syncBuiltinESMExports } from 'node:module';

type Functions = Record<string, unknown>;

/**
 * Takes away what Node's permissions do not cover, before user code exists: a working directory that changes makes checked paths lead
 * elsewhere, V8's flags and reports write files as nobody checks, and signals reach other processes of the same user. Both views of a
 * module, CommonJS and ES, have the replacement, and the original cannot be had again.
 *
 * This is no wall. It closes the doors that we know (docs/security.md).
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
  // Compilers switch the cache on as they load, and look at the answer.
  replace(modules, 'enableCompileCache', () => ({ status: compileCacheDisabled }));
  replace(modules, 'flushCompileCache', () => undefined);
  syncBuiltinESMExports();
}

/** Takes away every function that a module exports, for code that comes later. */
export function refuseModule(name: string): void {
  const exported = process.getBuiltinModule(name) as unknown as Functions;
  refuse(exported, name, Object.keys(exported));
  syncBuiltinESMExports();
}

/** `module.constants.compileCacheStatus.DISABLED`. */
const compileCacheDisabled = 3;

type SendSignal = (pid: number, signal: number) => number;

/** `process.kill` calls it: of other processes code here may not even ask whether they are there. */
function onlyOwnProcess(send: SendSignal): SendSignal {
  const own = process.pid;
  return (pid, signal) => {
    if (pid !== own && pid !== 0) throw refusal('process.kill', 'a signal goes to the process itself only');
    return send.call(process, pid, signal);
  };
}

type GetCertificates = (type?: string) => string[];

/** OpenSSL reads those that the machine trusts from the file that a variable of the environment names. */
function withoutMachine(getCertificates: GetCertificates): GetCertificates {
  return (type) => {
    if (type === 'system') throw refusal('tls.getCACertificates of the system');
    return getCertificates(type);
  };
}

/** What a report says stays available; writing one when the process ends does not. */
function reportWithoutFiles(): unknown {
  const report = process.report as NodeJS.ProcessReport & { excludeNetwork: boolean };
  // Packages set `excludeNetwork` before they look at a report. Nothing else can be set.
  return Object.seal({
    get excludeNetwork() {
      return report.excludeNetwork;
    },
    set excludeNetwork(value) {
      report.excludeNetwork = value;
    },
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
    // A class says the same when an instance is made.
    function refused(): never {
      throw refusal(`${owner}.${name}`, advice[name]);
    }
    replace(target, name, refused);
  }
}

/** For good. Whoever assigns to it (Node itself does, when it loads some modules) meets no error, and changes nothing. */
function replace(target: Functions, name: string, value: unknown): void {
  Object.defineProperty(target, name, {
    get: () => value,
    set: () => undefined,
    configurable: false,
    enumerable: true,
  });
}

/** As Node refuses what its permissions cover. */
function refusal(name: string, advice?: string): Error {
  const message = `${name} is not available here${advice === undefined ? '' : `: ${advice}`}`;
  return Object.assign(new Error(message), { code: 'ERR_ACCESS_DENIED' });
}

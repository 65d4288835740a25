import { execFileSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { arch } from 'node:process';
import type { KernelTools, SandboxGrant } from './confinement.ts';
import { nodeFlags } from './node-command.ts';
import { resourceLimits } from './resource-limits.ts';
import { findExecutable } from './sandbox-folders.ts';
import { type FilterArchitecture, filterArchitectures, seccompFilter } from './seccomp-filter.ts';

/** Paths inside. Nothing else of the machine's files is there but shared libraries. */
export const insidePaths = {
  node: '/bin/node',
  prlimit: '/bin/prlimit',
  program: '/program.cjs',
  tmp: '/tmp',
};

/** The descriptor that bubblewrap reads the filter from, and closes: the first one after those of the program. */
export const filterDescriptor = 6;

/** Where a folder of packages, which the service names by its own path, is inside. */
export function packagesInside(folder: string): string {
  return join('/packages', basename(dirname(folder)), basename(folder));
}

/** A text instead of the tools says what is missing. */
export function findKernelTools(folder: string): KernelTools | string {
  if (process.platform !== 'linux') return `bubblewrap needs Linux, and this is ${process.platform}`;
  if (!isFilterArchitecture(arch)) return `there is no filter of system calls for ${arch}`;
  const bwrap = findExecutable('bwrap');
  if (bwrap === undefined) return 'bubblewrap is not installed';
  const prlimit = findExecutable('prlimit');
  try {
    const filter = join(folder, 'seccomp.bpf');
    writeFileSync(filter, seccompFilter(arch));
    return {
      bwrap,
      bwrapVersion: execFileSync(bwrap, ['--version'], { encoding: 'utf8', env: {}, timeout: 5000 }).trim(),
      libraries: [...new Set([...librariesOfNode(), ...(prlimit === undefined ? [] : librariesOf(prlimit))])],
      prlimit,
      filter,
    };
  } catch (error) {
    return `bubblewrap could not be used: ${(error as Error).message}`;
  }
}

function isFilterArchitecture(name: string): name is FilterArchitecture {
  return (filterArchitectures as readonly string[]).includes(name);
}

let ofNode: readonly string[] | undefined;

/** The same for the life of the service: read once. */
function librariesOfNode(): readonly string[] {
  if (ofNode !== undefined) return ofNode;
  const report = process.report as NodeJS.ProcessReport & { excludeNetwork: boolean };
  const { excludeNetwork } = report;
  // Names of network peers would be looked up.
  report.excludeNetwork = true;
  const { sharedObjects } = report.getReport() as unknown as { sharedObjects?: string[] };
  report.excludeNetwork = excludeNetwork;
  const own = (sharedObjects ?? []).filter((path) => isLibrary(path));
  const libc = own.find((path) => /^libc\.so\./.test(basename(path)));
  const rest = libc === undefined ? [] : restOfLibc.map((name) => join(dirname(libc), name));
  ofNode = [...own, ...rest.filter((path) => existsSync(path))];
  return ofNode;
}

/** Parts of the GNU C library that Node does without and native addons may not. */
const restOfLibc = ['librt.so.1', 'libutil.so.1', 'libresolv.so.2', 'libmvec.so.1', 'libanl.so.1'];

/** Libraries of another program, which the loader lists with this variable instead of starting it. */
function librariesOf(program: string): string[] {
  const text = execFileSync(program, [], {
    encoding: 'utf8',
    env: { LD_TRACE_LOADED_OBJECTS: '1' },
    timeout: 5000,
  });
  return [...text.matchAll(/(\/\S+) \(0x/g)].map(([, path = '']) => path).filter((path) => isLibrary(path));
}

/** Addons that the service itself has loaded are no libraries of Node. */
function isLibrary(path: string): boolean {
  return path.startsWith('/') && /\.so(?:\.|$)/.test(basename(path)) && existsSync(path);
}

/** Program and arguments that start the sandboxed process in namespaces of its own. */
export function kernelCommand(grant: SandboxGrant, tools: KernelTools): [string, string[]] {
  const { prlimit } = tools;
  const { memoryMb } = grant;
  const files = [
    [process.execPath, insidePaths.node],
    ...(prlimit === undefined ? [] : [[prlimit, insidePaths.prlimit]]),
    ...tools.libraries.map((library) => [library, library]),
    [grant.program, insidePaths.program],
  ];
  const packages = grant.packages ?? [];
  const devices = ['null', 'zero', 'random', 'urandom'].map((name) => `/dev/${name}`);
  return [
    tools.bwrap,
    [
      ...['--unshare-all', '--die-with-parent', '--new-session', '--cap-drop', 'ALL'],
      ...['--hostname', 'millrace', '--clearenv', '--setenv', 'TZ', 'UTC'],
      ...files.flatMap(([from = '', to = '']) => ['--ro-bind', from, to]),
      // One that is not there cannot be read; the runner has those installed that it needs.
      ...packages.flatMap((folder) => ['--ro-bind-try', folder, packagesInside(folder)]),
      ...['--proc', '/proc'],
      ...devices.flatMap((device) => ['--dev-bind', device, device]),
      ...['--size', String(grant.scratchBytesMax), '--tmpfs', insidePaths.tmp],
      // The root is in memory as well, and its size has no limit.
      ...['--remount-ro', '/', '--chdir', '/', '--seccomp', String(filterDescriptor), '--'],
      ...(prlimit === undefined
        ? []
        : [
            insidePaths.prlimit,
            // Above what `/tmp` has room for, which is said in the usual words.
            ...resourceLimits({ memoryMb, fileBytesMax: 2 * grant.scratchBytesMax, ownUser: true }),
          ]),
      insidePaths.node,
      ...nodeFlags({
        ...grant,
        scratch: insidePaths.tmp,
        program: insidePaths.program,
        packages: grant.packages?.map(packagesInside),
      }),
    ],
  ];
}

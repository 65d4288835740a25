import { execFileSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { arch } from 'node:process';
import { nodeFlags } from './node-command.ts';
import { resourceLimits } from './resource-limits.ts';
import { findExecutable } from './runner-folders.ts';
import type { KernelPrograms, SandboxGrant } from './sandbox-grant.ts';
import { type FilterArchitecture, filterArchitectures, seccompFilter } from './seccomp-filter.ts';

/** Paths inside the sandbox. Of the machine's files, only shared libraries are there. */
export const insidePaths = {
  node: '/bin/node',
  prlimit: '/bin/prlimit',
  program: '/program.cjs',
  tmp: '/tmp',
};

/** The descriptor from which bubblewrap reads the filter, and which it closes: the first one after those of the program. */
export const filterDescriptor = 6;

/** Returns the path inside the sandbox of a folder of packages, which the service names by its own path. */
export function packagesInside(folder: string): string {
  return join('/packages', basename(dirname(folder)), basename(folder));
}

/** Finds the programs that the kernel level needs. A text instead says what is missing. */
export function findKernelPrograms(folder: string): KernelPrograms | string {
  if (process.platform !== 'linux') return `bubblewrap needs Linux, and this is ${process.platform}`;
  if (!isFilterArchitecture(arch)) return `there is no filter of system calls for ${arch}`;
  const bwrap = findExecutable('bwrap');
  if (bwrap === undefined) return 'bubblewrap is not installed';
  const prlimit = findExecutable('prlimit');
  try {
    const filter = join(folder, 'seccomp.bpf');
    writeFileSync(filter, seccompFilter(arch));
    const filterWithPrograms = join(folder, 'seccomp-with-programs.bpf');
    writeFileSync(filterWithPrograms, seccompFilter(arch, { startsPrograms: true }));
    return {
      bwrap,
      bwrapVersion: execFileSync(bwrap, ['--version'], { encoding: 'utf8', env: {}, timeout: 5000 }).trim(),
      libraries: [...new Set([...librariesOfNode(), ...(prlimit === undefined ? [] : librariesOf(prlimit))])],
      prlimit,
      filter,
      filterWithPrograms,
    };
  } catch (error) {
    return `bubblewrap could not be used: ${(error as Error).message}`;
  }
}

function isFilterArchitecture(name: string): name is FilterArchitecture {
  return (filterArchitectures as readonly string[]).includes(name);
}

let ofNode: readonly string[] | undefined;

/** Libraries of Node. They stay the same for the life of the service, so they are found once. */
function librariesOfNode(): readonly string[] {
  if (ofNode !== undefined) return ofNode;
  const report = process.report as NodeJS.ProcessReport & { excludeNetwork: boolean };
  const { excludeNetwork } = report;
  // Otherwise the report looks up the names of network peers.
  report.excludeNetwork = true;
  const { sharedObjects } = report.getReport() as unknown as { sharedObjects?: string[] };
  report.excludeNetwork = excludeNetwork;
  const own = (sharedObjects ?? []).filter((path) => isLibrary(path));
  const libc = own.find((path) => /^libc\.so\./.test(basename(path)));
  const rest = libc === undefined ? [] : restOfLibc.map((name) => join(dirname(libc), name));
  ofNode = [...own, ...rest.filter((path) => existsSync(path))];
  return ofNode;
}

/** Parts of the GNU C library that Node does not use but native addons may. */
const restOfLibc = ['librt.so.1', 'libutil.so.1', 'libresolv.so.2', 'libmvec.so.1', 'libanl.so.1'];

/** Lists the libraries of a program. With this variable set, the loader lists them instead of starting the program. */
function librariesOf(program: string): string[] {
  const text = execFileSync(program, [], {
    encoding: 'utf8',
    env: { LD_TRACE_LOADED_OBJECTS: '1' },
    timeout: 5000,
  });
  return [...text.matchAll(/(\/\S+) \(0x/g)].map(([, path = '']) => path).filter((path) => isLibrary(path));
}

/** True for a shared library. Native addons that the service itself has loaded are none. */
function isLibrary(path: string): boolean {
  return path.startsWith('/') && /\.so(?:\.|$)/.test(basename(path)) && existsSync(path);
}

/** Program and arguments that start the sandboxed process in its own namespaces. */
export function kernelCommand(grant: SandboxGrant, tools: KernelPrograms): [string, string[]] {
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
      ...['--unshare-all', '--die-with-parent', '--cap-drop', 'ALL'],
      ...['--hostname', 'millrace', '--clearenv', '--setenv', 'TZ', 'UTC'],
      ...files.flatMap(([from = '', to = '']) => ['--ro-bind', from, to]),
      // A folder that does not exist yet cannot be read. The runner installs the packages that it needs first.
      ...packages.flatMap((folder) => ['--ro-bind-try', folder, packagesInside(folder)]),
      // The command line of the kernel holds secrets on some machines. Read-only, because a process may write its own priority there.
      ...['--proc', '/proc', '--ro-bind', '/dev/null', '/proc/cmdline', '--remount-ro', '/proc'],
      ...devices.flatMap((device) => ['--dev-bind', device, device]),
      ...['--size', String(grant.scratchBytesMax), '--tmpfs', insidePaths.tmp],
      // The root is in memory as well, and its size has no limit.
      ...['--remount-ro', '/', '--chdir', '/', '--seccomp', String(filterDescriptor), '--'],
      ...(prlimit === undefined
        ? []
        : [
            insidePaths.prlimit,
            // More than `/tmp` has room for, so that code meets the usual error of a full disk first.
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

import type { SandboxGrant } from './confinement.ts';

/** Program and arguments that start the sandboxed process as Node confines it. */
export function nodeCommand(grant: SandboxGrant): [string, string[]] {
  const mayLoadAddons = grant.packages !== undefined && grant.addons === true;
  const flags = [
    ...(grant.level === 'off'
      ? []
      : [
          '--permission',
          `--allow-fs-read=${grant.scratch}`,
          `--allow-fs-write=${grant.scratch}`,
          // The last for what is below one that is not there yet: Node looks at the start only whether it is a folder.
          ...(grant.packages ?? []).flatMap((folder) => [
            `--allow-fs-read=${folder}`,
            `--allow-fs-read=${folder}/*`,
          ]),
          ...(mayLoadAddons ? ['--allow-addons'] : []),
        ]),
    // node:sqlite and node:ffi open files past the permission model.
    '--no-experimental-sqlite',
    '--no-experimental-ffi',
    ...(mayLoadAddons ? [] : ['--no-addons']),
    '--disable-sigusr1',
    '--no-global-search-paths',
    '--no-warnings',
    '--use-bundled-ca',
    `--max-old-space-size=${grant.memoryMb}`,
    '--max-semi-space-size=8',
    grant.program,
  ];
  if (grant.setpriv === undefined) return [process.execPath, flags];
  return [grant.setpriv, ['--pdeathsig', 'KILL', '--no-new-privs', '--', process.execPath, ...flags]];
}

import type { FirstStart } from '#identity/first-start.ts';
import type { SandboxLevel } from '#runner/sandbox-grant.ts';

/** What the operator learns of a service that has started. */
export interface StartedService {
  /** Where it listens, such as http://127.0.0.1:8080. */
  address: string;
  /** Set when this start created the first user. */
  firstStart: FirstStart | undefined;
  version: string;
  node: string;
  store: 'sqlite' | 'postgres';
  sandbox: { level: SandboxLevel; ownUsers: boolean; notKernel?: string; notDelegated?: string };
}

/** Printed on a terminal in place of the line `service.started`. */
export function startSummary(
  { version, store, sandbox }: Pick<StartedService, 'version' | 'store' | 'sandbox'>,
  { data }: { data: string },
): string {
  return [
    '',
    `  Millrace ${version}`,
    '',
    `  Data     ${data}`,
    `  Store    ${store === 'sqlite' ? 'SQLite, in the data folder' : 'PostgreSQL'}`,
    `  Sandbox  ${sandboxWords(sandbox)}`,
    ...(sandbox.notKernel === undefined
      ? []
      : [`           no kernel level: ${sandbox.notKernel}`, '           (docs/guides/secure.md)']),
    `           cgroups: ${sandbox.notDelegated === undefined ? 'one for each process' : `not delegated (${sandbox.notDelegated})`}`,
    '',
  ].join('\n');
}

function sandboxWords({ level, ownUsers }: StartedService['sandbox']): string {
  if (level === 'off') return 'off: user code can do whatever the service can';
  const users = ownUsers ? ', each as a user of its own' : '';
  const walls =
    level === 'kernel' ? 'kernel: processes behind walls' : 'seat belt: processes confined by Node alone';
  return `${walls}${users}; network as MILLRACE_EGRESS allows`;
}

/** The address and the key come last, where they are looked for. */
export function welcome(
  { address, firstStart }: Pick<StartedService, 'address' | 'firstStart'>,
  { hasApi }: { hasApi: boolean },
): string {
  const lines = ['', `  Millrace is running at ${address}`];
  if (hasApi) lines.push('  Open this address in a browser. The manual is at /docs there.');
  if (firstStart?.isKeyMade === true) {
    lines.push('', `  Your API key (shown once, also in ${firstStart.keyFile}):`, `  ${firstStart.apiKey}`);
  } else if (firstStart !== undefined) {
    lines.push('', `  Your API key is that of MILLRACE_API_KEY (also in ${firstStart.keyFile}).`);
  }
  return `${lines.join('\n')}\n\n`;
}

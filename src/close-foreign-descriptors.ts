import { closeSync, readdirSync, readFileSync } from 'node:fs';

/** `flags` in /proc/PID/fdinfo: the descriptor is closed when another program is started. */
const closeOnExec = 0o2000000;

/**
 * Closes descriptors that the launcher of the service left open. Every process that the service starts would inherit them:
 * with a folder among them code in a sandbox would have a way out. Runs before anything else is opened, and spares the standard
 * streams and the channel to a parent that is a Node. What Node opens itself is closed on exec. Returns the closed ones; none
 * where there is no /proc.
 */
export function closeForeignDescriptors(environment: Readonly<Record<string, string | undefined>>): number[] {
  const kept = new Set([0, 1, 2, Number(environment.NODE_CHANNEL_FD ?? 0)]);
  const closed: number[] = [];
  for (const name of listOpen()) {
    const descriptor = Number(name);
    if (kept.has(descriptor) || !isInherited(descriptor)) continue;
    try {
      closeSync(descriptor);
      closed.push(descriptor);
    } catch {
      // The one by which the list was read is gone already.
    }
  }
  return closed;
}

function listOpen(): string[] {
  try {
    return readdirSync('/proc/self/fdinfo');
  } catch {
    return [];
  }
}

function isInherited(descriptor: number): boolean {
  try {
    const text = readFileSync(`/proc/self/fdinfo/${descriptor}`, 'utf8');
    const [, flags] = /^flags:\s+(\d+)/m.exec(text) ?? [];
    return flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0;
  } catch {
    return false;
  }
}

/**
 * Signals between a test and code in a sandbox, whose files no other process sees: code writes a line to its standard output, which the service
 * only watches for floods; a test writes to descriptor 5 of the process, where the service answers what the process waits for.
 */
import type { ChildProcess } from 'node:child_process';
import { subscribe } from 'node:diagnostics_channel';
import type { Writable } from 'node:stream';

/** Children that gave a signal which no test has waited for yet, by its name. */
const given = new Map<string, ChildProcess[]>();
const waiting = new Map<string, ((child: ChildProcess) => void)[]>();

subscribe('child_process', (message) => {
  const { process: child } = message as { process: ChildProcess };
  // It has no streams before it is started.
  setImmediate(() => {
    let text = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      const lines = text.split('\n');
      text = (lines.pop() ?? '').slice(-200);
      for (const line of lines) {
        const [, name] = /^signal (\S+)$/.exec(line) ?? [];
        if (name !== undefined) give(name, child);
      }
    });
  });
});

function give(name: string, child: ChildProcess): void {
  const waiter = waiting.get(name)?.shift();
  if (waiter !== undefined) waiter(child);
  else given.set(name, [...(given.get(name) ?? []), child]);
}

/** A statement of user code that gives a signal at once, whatever the code does next. */
export function signal(name: string): string {
  return `process.getBuiltinModule('fs').writeSync(1, 'signal ${name}\\n');`;
}

/** Resolves to the process whose code gives this signal, or gave it and was not waited for. Each signal is one wait's. */
export function signalled(name: string): Promise<ChildProcess> {
  // Code in processes that have ended no longer waits for a signal.
  const living = (given.get(name) ?? []).filter(
    (child) => child.exitCode === null && child.signalCode === null,
  );
  const child = living.shift();
  given.set(name, living);
  if (child !== undefined) return Promise.resolve(child);
  return new Promise((resolve) => {
    waiting.set(name, [...(waiting.get(name) ?? []), resolve]);
  });
}

/** Statements of user code that wait until `letGo` of the waiting process is called. */
export const untilLetGo = `${signal('waits')} await new Promise((resolve) => process.getBuiltinModule('fs').read(5, Buffer.alloc(1), 0, 1, null, resolve));`;

/** Resolves when code waits, to a function that lets it continue; one call at a time. */
export async function waitingCode(): Promise<() => void> {
  const child = await signalled('waits');
  return () => {
    (child.stdio as readonly unknown[] as readonly Writable[])[5]?.write('g');
  };
}

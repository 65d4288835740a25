/**
 * Signals between a test and code in a sandbox, whose files no other process sees: code writes a line to its standard output, which the service
 * only watches for floods; a test writes to descriptor 5 of the process, where the service answers what the process waits for.
 */
import { type Launched, Launcher } from '#runner/launcher.ts';

/** Processes that gave a signal which no test has waited for yet, by its name. */
const given = new Map<string, Launched[]>();
const waiting = new Map<string, ((launched: Launched) => void)[]>();
const over = new WeakSet<Launched>();

const { launch } = Launcher.prototype;
Launcher.prototype.launch = async function (request) {
  const launched = await launch.call(this, request);
  void launched.ended.then(() => over.add(launched));
  let text = '';
  launched.streams.stdout.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
    const lines = text.split('\n');
    text = (lines.pop() ?? '').slice(-200);
    for (const line of lines) {
      const [, name] = /^signal (\S+)$/.exec(line) ?? [];
      if (name !== undefined) give(name, launched);
    }
  });
  return launched;
};

function give(name: string, launched: Launched): void {
  const waiter = waiting.get(name)?.shift();
  if (waiter !== undefined) waiter(launched);
  else given.set(name, [...(given.get(name) ?? []), launched]);
}

/** A statement of user code that gives a signal at once, whatever the code does next. */
export function signal(name: string): string {
  return `process.getBuiltinModule('fs').writeSync(1, 'signal ${name}\\n');`;
}

/** Resolves to the process whose code gives this signal, or gave it and was not waited for. Each signal is one wait's. */
export function signalled(name: string): Promise<Launched> {
  // No test waits for a signal of those that are gone.
  const living = (given.get(name) ?? []).filter((launched) => !over.has(launched));
  const launched = living.shift();
  given.set(name, living);
  if (launched !== undefined) return Promise.resolve(launched);
  return new Promise((resolve) => {
    waiting.set(name, [...(waiting.get(name) ?? []), resolve]);
  });
}

/** Statements of user code that wait until `letGo` of the waiting process is called. */
export const untilLetGo = `${signal('waits')} await new Promise((resolve) => process.getBuiltinModule('fs').read(5, Buffer.alloc(1), 0, 1, null, resolve));`;

/** Resolves when code waits, to a function that lets it continue; one call at a time. */
export async function waitingCode(): Promise<() => void> {
  const { streams } = await signalled('waits');
  return () => {
    streams.files.write('g');
  };
}

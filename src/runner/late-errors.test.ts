import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:net';
import { after, before, test } from 'node:test';
import { AddressPolicy } from '#egress/address-policy.ts';
import { type Logger, silentLogger } from '#lib/logger.ts';
import { untilLetGo, waitingCode } from '../../test/support/code-signals.ts';
import {
  componentWith,
  type RunnerFixture,
  resultOf,
  startRunnerFixture,
} from '../../test/support/runner-fixture.ts';
import type { UserCodeError } from './call-outcome.ts';

interface Stray {
  deploymentId: string;
  error: UserCodeError;
}

let fixture: RunnerFixture;
const unattributedErrors: Stray[] = [];
const logged: unknown[] = [];
let onUnattributedError: (() => void) | undefined;
/** A server that accepts connections and closes each without a response. */
let rude: Server;
let rudePort: number;

before(async () => {
  rude = createServer((socket) => socket.once('data', () => socket.resetAndDestroy()));
  await new Promise<void>((resolve) => rude.listen(0, '127.0.0.1', resolve));
  const address = rude.address();
  rudePort = typeof address === 'object' && address !== null ? address.port : 0;
  const logger: Logger = {
    ...silentLogger,
    info: (line: unknown, message?: string) => {
      if (message === 'runner.uncaught-reported') logged.push(line);
    },
  };
  fixture = await startRunnerFixture({
    logger,
    policy: new AddressPolicy({ allow: ['local'], deny: () => [] }),
    onUnattributedError: (deploymentId, error) => {
      unattributedErrors.push({ deploymentId, error });
      onUnattributedError?.();
    },
  });
});
after(async () => {
  await fixture.close();
  rude.close();
});

/** Resolves at the next error that belongs to no call. */
function nextUnattributed(): Promise<void> {
  unattributedErrors.length = 0;
  return new Promise((resolve) => {
    onUnattributedError = resolve;
  });
}

const event = (value: object) => ({ kind: 'run', event: JSON.stringify(value) }) as const;

test('an error that an earlier call left behind fails no later call, and is reported as one of the source', async () => {
  for (const late of [
    "throw new RangeError('late');",
    "Promise.reject(new RangeError('late'));",
    `require('net').connect(${rudePort}, '127.0.0.1').once('error', () => { throw new RangeError('late'); }).write('x');`,
  ]) {
    const deploymentId = `dc_${late.length}`;
    // The code that the first call leaves behind runs when the second call has begun.
    const source = componentWith(
      `if (event.first) { const timer = setInterval(() => { if (!globalThis.begin) return; clearInterval(timer); ${late} }, 1); return performance.timeOrigin; }
       if (event.last) return performance.timeOrigin;
       this.$emit(1); globalThis.begin = true; ${untilLetGo} this.$emit(2); return performance.timeOrigin;`,
    );
    const stray = nextUnattributed();
    const pid = resultOf(await fixture.call(source, { deploymentId, call: event({ first: true }) }));
    const calling = fixture.call(source, { deploymentId });
    const letGo = await waitingCode();
    await stray;
    letGo();
    const second = await calling;
    assert.equal(resultOf(second), pid, 'the call ran in the same process, to its end');
    assert.equal(second.emits.length, 2);
    assert.deepEqual(
      unattributedErrors.map(({ deploymentId: id, error }) => [id, error.name, error.message]),
      [[deploymentId, 'RangeError', 'late']],
    );
    const last = await fixture.call(source, { deploymentId, call: event({ last: true }) });
    assert.notEqual(resultOf(last), pid, 'the process was replaced');
  }
});

test('an error between two calls is reported', async () => {
  const stray = nextUnattributed();
  const source = componentWith("setTimeout(() => { throw new Error('between'); }, 30);");
  resultOf(await fixture.call(source, { deploymentId: 'dc_between' }));
  await stray;
  assert.equal(unattributedErrors[0]?.deploymentId, 'dc_between');
  assert.equal(unattributedErrors[0]?.error.message, 'between');
});

test('an unhandled error of a connection fails the call that made it, among others', async () => {
  const source = componentWith(
    `if (event.bad) { require('net').connect(${rudePort}, '127.0.0.1').write('x'); await new Promise(() => {}); }
     ${untilLetGo} return 'fine';`,
  );
  const good = fixture.call(source, { deploymentId: 'dc_socket' });
  const bad = await fixture.call(source, { deploymentId: 'dc_socket', call: event({ bad: true }) });
  (await waitingCode())();
  assert.equal(resultOf(await good), 'fine');
  assert.equal(bad.status, 'threw');
  assert.equal(bad.error?.code, 'ECONNRESET');
});

test('a timer that throws repeatedly is reported a few times, and the running call ends normally', async () => {
  const stray = nextUnattributed();
  const source = componentWith(
    `globalThis.thrown ??= 0;
     if (event.first) { setInterval(() => { globalThis.thrown += 1; throw new Error('again'); }, 1); return; }
     while (globalThis.thrown < 30) await new Promise((r) => setTimeout(r, 1)); return 'fine';`,
  );
  const [running] = await Promise.all([
    fixture.call(source, { deploymentId: 'dc_again' }),
    fixture.call(source, { deploymentId: 'dc_again', call: event({ first: true }) }),
  ]);
  assert.equal(resultOf(running), 'fine');
  await stray;
  assert.equal(unattributedErrors.length, 10);
});

/** Source that writes frames of an error, each as `[call id, count]`. */
function forging(frames: [id: number, count: number][], name = 'Error'): string {
  return componentWith(`
    const frame = (id) => {
      const header = Buffer.from(JSON.stringify({ error: [${name.length}, 0, 0, -1] }));
      const bytes = Buffer.alloc(13 + header.length + ${name.length}, ${JSON.stringify(name)});
      bytes.writeUInt32BE(bytes.length - 4, 0); bytes[4] = 22; bytes.writeUInt32BE(id, 5); bytes.writeUInt32BE(header.length, 9);
      header.copy(bytes, 13); bytes.write(${JSON.stringify(name)}, 13 + header.length); return bytes;
    };
    const write = (bytes) => { for (let at = 0; at < bytes.length;) { try { at += require('fs').writeSync(3, bytes, at); } catch {} } };
    for (const [id, count] of ${JSON.stringify(frames)}) for (let i = 0; i < count; i += 1) write(frame(id));
    await new Promise(() => {});`);
}

test('errors that a component forges do not fill the log', async () => {
  logged.length = 0;
  const many = await fixture.call(forging([[0, 5000]]));
  assert.equal(many.status, 'exited');
  assert.ok(logged.length <= 10, `${logged.length} lines`);

  logged.length = 0;
  const own = await fixture.call(forging([[2, 5000]]));
  assert.equal(own.status, 'threw');
  const old = await fixture.call(forging([[1, 2]]));
  assert.equal(old.status, 'exited', 'the second for one call');
  assert.equal(logged.length, 1);

  logged.length = 0;
  const named = await fixture.call(forging([[2, 1]], 'n'.repeat(100_000)));
  assert.equal(named.status, 'threw');
  assert.equal(named.error?.name.length, 210);
  assert.ok(JSON.stringify(logged).length < 1000);
  const large = await fixture.call(forging([[2, 1]], 'n'.repeat(1_000_000)));
  assert.equal(large.status, 'exited');
});

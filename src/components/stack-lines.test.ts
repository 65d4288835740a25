import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import { type FakePackage, startNpmRegistry } from '../../test/support/npm-registry.ts';
import { type RunnerFixture, requestFor, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { type ComponentBuilder, type ComponentSource, createComponentBuilder } from './build-component.ts';

const thrower: FakePackage = {
  name: 'thrower',
  version: '1.0.0',
  files: {
    'index.js': 'module.exports = (call) => {\n\n  return call();\n};\n//# sourceMappingURL=/dev/zero',
  },
};

describe('the stack of an error', () => {
  let folder: TempFolder;
  let registry: Awaited<ReturnType<typeof startNpmRegistry>>;
  let builder: ComponentBuilder;
  let fixture: RunnerFixture;
  let calls = 0;

  before(async () => {
    folder = await createTempFolder('stacks');
    registry = await startNpmRegistry(() => [thrower]);
    builder = createComponentBuilder({
      cacheFolder: join(folder.path, 'cache'),
      registry: registry.url,
      npmConfig: { registry: registry.url, credentials: {}, ca: [] },
      fetchText: async (url) => {
        const answer = await fetch(url);
        return { status: answer.status, body: Buffer.from(await answer.arrayBuffer()), url: answer.url };
      },
      logger: silentLogger,
    });
    fixture = await startRunnerFixture();
  });

  after(async () => {
    await fixture?.close();
    await builder?.close();
    await registry?.close();
    await folder?.remove();
  });

  /** The stack of the error that `run` of the component ends with, without the first line. */
  async function stackOf(source: ComponentSource | string, format = 'cjs'): Promise<string> {
    const built = await builder.build(typeof source === 'string' ? { kind: 'code', code: source } : source, {
      ownerId: 'u_1',
    });
    assert.equal(built.bundle.format, format);
    calls += 1;
    const outcome = await fixture.runner.call(
      requestFor('', { deploymentId: `dc_${calls}`, bundle: built.bundle }),
    );
    assert.ok(outcome.error !== undefined, JSON.stringify(outcome));
    return outcome.error.stack;
  }

  test('has the line and column of the TypeScript that its author wrote', async () => {
    const stack = await stackOf(
      [
        'interface Event { body: string }',
        'type Unused = { a: number };',
        '',
        'const fail = (text: string): never => {',
        '  throw new RangeError(text);',
        '};',
        'export default {',
        '  async run(event: Event) {',
        '    await Promise.resolve();',
        '    fail("too far" as string);',
        '  },',
        '};',
      ].join('\n'),
    );
    assert.match(
      stack,
      /^RangeError: too far\n {4}at fail \(component\.ts:5:9\)\n {4}at \S*run \(component\.ts:10:5\)/,
    );
    assert.doesNotMatch(stack, /index\.cjs|runner-|sandbox-main/);
  });

  test('names JavaScript component.js, also when it is an ES module that awaits', async () => {
    assert.match(
      await stackOf('module.exports = {\n  run() {\n    null.x;\n  },\n};'),
      /at \S*run \(component\.js:3:10\)/,
    );
    assert.match(
      await stackOf('await 1;\nexport default {\n  run() {\n    throw new Error("b");\n  },\n};', 'esm'),
      /at \S*run \(component\.js:4:11\)/,
    );
  });

  test('has own lines on both sides of a package, whose own are left as they are', async () => {
    const stack = await stackOf(
      'import thrower from "thrower";\nexport default {\n  run() {\n    thrower(() => {\n      throw new Error("c");\n    });\n  },\n};',
    );
    const [, inner, inPackage, outer] = stack.split('\n');
    assert.match(inner ?? '', /component\.js:5:13/);
    assert.match(inPackage ?? '', /\/component\/index\.cjs:\d+:\d+/);
    assert.match(outer ?? '', /component\.js:4:\d+/);
  });

  test('names files of an address by their paths, without the key in its query', async () => {
    const server = createServer((request, response) => {
      const isEntry = request.url?.startsWith('/acme/new-thing.ts?key=s3cret');
      if (isEntry)
        response.end(
          'import { fail } from "./common/fail";\nexport default {\n  run: (): void => fail(),\n};',
        );
      else if (request.url === '/acme/common/fail.ts')
        response.end(
          'type A = 1;\n\nexport function fail(): never {\n  throw new Error("d", { cause: new Error("e") });\n}',
        );
      else response.writeHead(404).end();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    try {
      const { port } = server.address() as AddressInfo;
      const stack = await stackOf({
        kind: 'url',
        url: `http://127.0.0.1:${port}/acme/new-thing.ts?key=s3cret`,
      });
      assert.match(stack, /at fail \(acme\/common\/fail\.ts:4:9\)\n.*\(acme\/new-thing\.ts:3:\d+\)/);
      assert.match(stack, /Caused by: Error: e\n {4}at fail \(acme\/common\/fail\.ts:4:\d+\)/);
      assert.doesNotMatch(stack, /s3cret/);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });

  test('a file that says it was made from another is taken as it is, and nothing is read for it', async () => {
    const stack = await stackOf(
      'export default {\n  run() {\n    throw new Error("f");\n  },\n};\n//# sourceMappingURL=/dev/zero',
    );
    assert.match(stack, /component\.js:3:11/);
  });

  test('has the lines of each step where several run in one process', async () => {
    const stacks: string[] = [];
    for (const [module, line] of [
      ['c_1', 2],
      ['c_2', 4],
    ] as const) {
      const code = `export default {${'\n'.repeat(line - 1)}run() { throw new Error('g'); } };`;
      const { bundle } = await builder.build({ kind: 'code', code }, { ownerId: 'u_1' });
      const outcome = await fixture.runner.call(
        requestFor('', {
          deploymentId: 'd_steps',
          module,
          bundle,
          call: {
            kind: 'step',
            steps: '{}',
            context: '{}',
            resumeUrl: 'https://x.example/r',
            cancelUrl: 'https://x.example/c',
            scratch: 'r_1',
          },
        }),
      );
      stacks.push(outcome.error?.stack ?? JSON.stringify(outcome));
    }
    assert.match(stacks[0] ?? '', /^Error: g\n {4}at \S*run \(component\.js:2:15\)/);
    assert.match(stacks[1] ?? '', /^Error: g\n {4}at \S*run \(component\.js:4:15\)/);
  });
});

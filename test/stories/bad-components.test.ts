import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { forEachService, type Millrace } from '../support/millrace.ts';
import { waitFor, within } from '../support/wait-for.ts';

type Source = { id: string; configured_props: { http: { endpoint_url: string } } };

const echo = `
export default {
  name: 'Bystander', props: { http: { type: '$.interface.http', customResponse: true } },
  run(event) { this.http.respond({ status: 200, body: event.query.n }); },
};`;

/** A source with a custom response whose run is `lines`. */
const running = (lines: string, props = "http: { type: '$.interface.http', customResponse: true }") => `
export default {
  name: 'Bad', props: { ${props}, db: '$.service.db' },
  async run(event) { ${lines} },
};`;

async function post(source: Source): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(source.configured_props.http.endpoint_url, { method: 'POST', body: '{}' });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

async function errorsOf(service: Millrace, source: Source, count = 1) {
  return waitFor(
    async () => {
      const events = await service.events(source.id, '&event_name=$errors');
      return events.length >= count && events;
    },
    { timeoutMs: 20_000, what: `${count} events on $errors` },
  );
}

/** `POST /components` and `POST /sources` both refuse the code, and neither leaves anything. */
async function refused(service: Millrace, code: string) {
  const before = (await service.api('GET', '/v1/users/me/sources')).body.page_info.total_count;
  const saved = await service.api('POST', '/v1/components', { component_code: code });
  const deployed = await service.api('POST', '/v1/sources', { component_code: code });
  assert.deepEqual([deployed.status, deployed.body.code], [saved.status, saved.body.code]);
  assert.equal(deployed.status, 400, JSON.stringify(deployed.body));
  assert.equal(deployed.body.details.parameter, 'component_code');
  assert.equal((await service.api('GET', '/v1/users/me/sources')).body.page_info.total_count, before);
  return deployed.body as { code: string; error: string; details: Record<string, unknown> };
}

describe('whatever a component does', () => {
  forEachService(
    (fixture) => {
      let asking: Promise<number>;
      let stopAsking = false;
      let slowest = 0;

      /** Another source is asked all the time: it must go on answering, at once. */
      before(async () => {
        const { service } = fixture;
        const bystander: Source = await service.createSource({ component_code: echo });
        stopAsking = false;
        slowest = 0;
        asking = (async () => {
          let n = 0;
          while (!stopAsking) {
            n += 1;
            const begun = performance.now();
            const response = await fetch(`${bystander.configured_props.http.endpoint_url}?n=${n}`);
            assert.deepEqual([response.status, await response.text()], [200, String(n)]);
            slowest = Math.max(slowest, performance.now() - begun);
            await new Promise((resolve) => setTimeout(resolve, 20));
          }
          return n;
        })();
        asking.catch(() => {});
      });

      after(() => {
        stopAsking = true;
      });

      test('code that throws while it loads is refused with its error', async () => {
        const { service } = fixture;
        const { code, error, details } = await refused(
          service,
          `throw new Error('not today'); export default {};`,
        );
        assert.equal(code, 'invalid_component');
        assert.match(error, /Error: not today/);
        assert.equal((details.error as { message: string }).message, 'not today');
      });

      test('code that exports nothing, or no component, is refused with what was expected', async () => {
        const { service } = fixture;
        for (const code of [
          `const a = 1;`,
          `export const b = 2;`,
          `export default 5;`,
          `export default null;`,
          `module.exports = {};`,
          `export default { name: 'x', run: 'soon' };`,
        ]) {
          const { code: name, error } = await refused(service, code);
          assert.equal(name, 'invalid_component', code);
          assert.match(error, /exports no component|must be a function/);
        }
        for (const component_code of ['', '   ']) {
          const { status, body } = await service.api('POST', '/v1/components', { component_code });
          assert.deepEqual([status, body.details.parameter], [400, 'component_code']);
        }
      });

      test('code that does not parse is refused with file, line and column', async () => {
        const { service } = fixture;
        const { code, error } = await refused(
          service,
          `export default {\n  name: 'x',\n  run() { return ] }\n};`,
        );
        assert.equal(code, 'invalid_component_code');
        assert.match(error, /:3:\d+/);
      });

      test('a prop of unknown type is refused by its name', async () => {
        const { service } = fixture;
        const { code, error, details } = await refused(
          service,
          `export default { name: 'x', props: { when: { type: '$.interface.timr' } }, run() {} };`,
        );
        assert.equal(code, 'invalid_component');
        assert.match(error, /"when".*\$\.interface\.timr/);
        assert.equal(details.prop, 'when');
        const typeless = await refused(
          service,
          `export default { name: 'x', props: { odd: { label: 'Odd' } }, run() {} };`,
        );
        assert.match(typeless.error, /odd/);
        const wrongDedupe = await refused(
          service,
          `export default { name: 'x', dedupe: 'newest', run() {} };`,
        );
        assert.match(wrongDedupe.error, /dedupe/);
      });

      test('actions and apps can be saved, but not deployed as sources', async () => {
        const { service } = fixture;
        const { status, body } = await service.api('POST', '/v1/sources', {
          component_code: `export default { name: 'Act', type: 'action', async run() {} };`,
        });
        assert.deepEqual([status, body.code], [400, 'invalid_component']);
        assert.match(body.error, /action/);
      });

      test('packages of forms that are not allowed are refused by name', async () => {
        const { service } = fixture;
        for (const name of [
          'git+https://example.com/a.git',
          'file:../a',
          './beside.mjs',
          'https://example.com/a.mjs',
        ]) {
          const { error } = await refused(
            service,
            `import x from '${name}'; export default { name: 'x', run() { x(); } };`,
          );
          assert.ok(error.includes(name), error);
        }
      });

      test('a run that returns 100 MB, or emits 5,000 events, becomes an error event', async () => {
        const { service } = fixture;
        const big: Source = await service.createSource({
          component_code: running(
            `this.http.respond({ status: 200, body: {} }); return 'x'.repeat(100 * 1024 * 1024);`,
          ),
        });
        assert.equal((await post(big)).status, 200);
        const [tooBig] = await errorsOf(service, big);
        assert.match(tooBig.event.error.message, /\d/);
        const chatty: Source = await service.createSource({
          component_code: running(
            `this.http.respond({ status: 200, body: {} }); for (let n = 0; n < 5000; n += 1) this.$emit({ n });`,
          ),
        });
        assert.equal((await post(chatty)).status, 200);
        const [tooMany] = await errorsOf(service, chatty);
        assert.match(tooMany.event.error.message, /1000/);
        assert.equal((await post(chatty)).status, 200, 'the source itself goes on');
      });

      test('a value that contains itself is kept with a mark where it would go round', async () => {
        const { service } = fixture;
        const source: Source = await service.createSource({
          component_code: running(`
            this.http.respond({ status: 200, body: {} });
            const loop = { a: 1 }; loop.again = loop;
            this.$emit(loop);`),
        });
        await post(source);
        const [event] = await waitFor(async () => {
          const events = await service.events(source.id);
          return events.length > 0 && events;
        });
        assert.deepEqual(event.event, { a: 1, again: '[Circular]' });
      });

      test('a run that ends its process, or takes all memory, is run again, and after the third time is an error event', async () => {
        const { service } = fixture;
        const doomed = (lines: string): Promise<Source> =>
          service.createSource({
            component_code: running(
              `this.$emit('never kept'); this.db.set('never', 'kept'); ${lines}`,
              "http: '$.interface.http'",
            ),
          });
        const exiting = await doomed('process.exit(3);');
        const hoarding = await doomed('const hoard = []; for (;;) hoard.push(Buffer.alloc(5e7, 1));');
        for (const source of [exiting, hoarding])
          assert.deepEqual(await post(source), { status: 200, body: { success: true } });
        for (const source of [exiting, hoarding]) {
          const [error, ...more] = await errorsOf(service, source);
          assert.equal(more.length, 0);
          assert.match(`${error.event.error.name} ${error.event.error.message}`, /ended with code 3|memory/i);
          assert.equal(error.event.original_event.method, 'POST');
          assert.deepEqual(await service.events(source.id), []);
        }
      });

      test('an uncaught error after the run, or a rejected promise nobody waits for, ends up on $errors or $logs', async () => {
        const { service } = fixture;
        const source: Source = await service.createSource({
          component_code: running(`
            this.http.respond({ status: 200, body: {} });
            Promise.reject(new Error('nobody waits'));
            await new Promise((resolve) => setTimeout(resolve, 50));
            this.$emit('done');`),
        });
        await post(source);
        const found = await waitFor(
          async () => {
            const { body } = await service.api('GET', `/v1/sources/${source.id}/logs`);
            return JSON.stringify(body.data).includes('nobody waits') && body.data;
          },
          { timeoutMs: 20_000 },
        );
        assert.ok(found.length > 0);
      });

      test('an error that one run left behind is on $errors, and the run that goes on by then keeps all it does', async () => {
        const { service } = fixture;
        const source: Source = await service.createSource({
          component_code: running(`
            this.http.respond({ status: 200, body: {} });
            if (event.query.first) { setTimeout(() => { throw new RangeError('left behind'); }, 100); return; }
            this.$emit('begun');
            await new Promise((resolve) => setTimeout(resolve, 600));
            this.$emit('over');`),
        });
        const url = source.configured_props.http.endpoint_url;
        assert.equal((await fetch(`${url}?first=1`)).status, 200);
        assert.equal((await fetch(url)).status, 200);
        const [left] = await errorsOf(service, source);
        assert.equal(left.event.error.name, 'RangeError');
        assert.equal(left.event.error.message, 'left behind');
        assert.equal(left.event.original_event, null);
        const kept = await waitFor(async () => {
          const events = await service.events(source.id);
          return events.length >= 2 && events;
        });
        assert.deepEqual(kept.map(({ event }: { event: unknown }) => event).sort(), ['begun', 'over']);
        assert.equal((await errorsOf(service, source)).length, 1);
      });

      test('a custom response that never comes is answered with 500 no_response as soon as the run is over', async () => {
        const { service } = fixture;
        for (const [lines, errors] of [
          ['return 1;', 0],
          ["throw new Error('before the response');", 1],
        ] as const) {
          const source: Source = await service.createSource({ component_code: running(lines) });
          const begun = performance.now();
          const { status, body } = await post(source);
          assert.deepEqual([status, body.code, body.details], [500, 'no_response', {}]);
          assert.ok(performance.now() - begun < 2_000);
          if (errors > 0) await errorsOf(service, source, errors);
        }
      });

      test('an endless loop in run ends at the deadline with an error event, and the next request is served', async () => {
        const { service } = fixture;
        const source: Source = await service.createSource({
          component_code: running(
            `if (event.query.loop) for (;;); this.http.respond({ status: 200, body: { fine: true } });`,
          ),
        });
        const stream = await service.stream(source.id, { query: '?event_name=$errors' });
        const url = source.configured_props.http.endpoint_url;
        const looping = await fetch(`${url}?loop=1`);
        assert.deepEqual(
          [looping.status, ((await looping.json()) as { code: string }).code],
          [500, 'no_response'],
        );
        const { data } = await stream.message(1);
        assert.match(`${data.event.error.name} ${data.event.error.message}`, /did not end within 5 s/);
        stream.close();
        assert.deepEqual(await (await fetch(url)).json(), { fine: true });
      });

      test('a hook that never ends fails the creation at the deadline and leaves nothing', async () => {
        const { service } = fixture;
        for (const hook of ['for (;;);', 'process.exit(1);']) {
          const { status, body } = await service.api('POST', '/v1/sources', {
            component_code: `export default { name: 'Stuck', hooks: { async activate() { ${hook} } }, run() {} };`,
          });
          assert.deepEqual(
            [hook, status, body.code, body.details.hook],
            [hook, 400, 'hook_failed', 'activate'],
          );
        }
        const { body } = await service.api('GET', '/v1/users/me/sources?limit=100');
        assert.ok(body.data.every((source: { name_slug: string }) => !source.name_slug.startsWith('stuck')));
      });

      test('meanwhile another source kept answering, and is answering still', async () => {
        stopAsking = true;
        const asked = await within(asking, 5_000, 'the last answer');
        assert.ok(asked > 50, `asked ${asked} times`);
        assert.ok(slowest < 2_500, `the slowest answer took ${slowest} ms`);
      });
    },
    { environment: { MILLRACE_RUN_DEADLINE: '5' } },
  );
});

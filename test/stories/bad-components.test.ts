import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { forEachSharedService, Millrace, type ServiceClient, useSharedService } from '../support/millrace.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

type Source = { id: string; configured_props: { http: { endpoint_url: string } } };

const echo = `
export default {
  name: 'Bystander', props: { http: { type: '$.interface.http', customResponse: true } },
  run(event) { this.http.respond({ status: 200, body: event.query.n }); },
};`;

/** Between an answer of the bystander and the next question: many in the time of a run that is at fault, and little work. */
const pauseMs = 100;

/** Another source gets requests all the time: it must keep answering. */
class Bystander {
  #answers = 0;
  #stopped = false;
  #asking: Promise<void> = Promise.resolve();

  static async start(service: ServiceClient): Promise<Bystander> {
    const source: Source = await service.createSource({ component_code: echo });
    const bystander = new Bystander();
    bystander.#asking = bystander.#ask(source.configured_props.http.endpoint_url);
    bystander.#asking.catch(() => {});
    return bystander;
  }

  /** Fails when it is not answered again. */
  async isAnswered(): Promise<void> {
    const before = this.#answers;
    await Promise.race([
      this.#asking,
      waitFor(() => this.#answers > before, { what: 'the bystander to be answered' }),
    ]);
    assert.ok(this.#answers > before);
  }

  /** How often it was answered so far. */
  get answers(): number {
    return this.#answers;
  }

  /** Fails when an answer was wrong. */
  async stop(): Promise<void> {
    this.abandon();
    await this.#asking;
  }

  abandon(): void {
    this.#stopped = true;
  }

  async #ask(url: string): Promise<void> {
    for (let n = 1; !this.#stopped; n += 1) {
      const response = await fetch(`${url}?n=${n}`);
      assert.deepEqual([response.status, await response.text()], [200, String(n)]);
      this.#answers += 1;
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}

/** A source with a custom response whose run is `lines`. */
const running = (lines: string, props = "http: { type: '$.interface.http', customResponse: true }") => `
export default {
  name: 'Bad', props: { ${props}, db: '$.service.db' },
  async run(event) { ${lines} },
};`;

/** Less than the minute that a run may take by default: an answer in less has not waited for that to pass. */
const answerPatienceMs = 50_000;

async function post(source: Source): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(source.configured_props.http.endpoint_url, {
    method: 'POST',
    body: '{}',
    signal: AbortSignal.timeout(answerPatienceMs),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

async function errorsOf(service: ServiceClient, source: Source, count = 1) {
  return waitFor(
    async () => {
      const events = await service.events(source.id, '&event_name=$errors');
      return events.length >= count && events;
    },
    { what: `${count} events on $errors` },
  );
}

/** `POST /components` and `POST /sources` both refuse the code, and neither leaves anything. */
async function refused(service: ServiceClient, code: string) {
  const before = (await service.api('GET', '/v1/users/me/sources')).body.page_info.total_count;
  const saved = await service.api('POST', '/v1/components', { component_code: code });
  const deployed = await service.api('POST', '/v1/sources', { component_code: code });
  assert.deepEqual([deployed.status, deployed.body.code], [saved.status, saved.body.code]);
  assert.equal(deployed.status, 400, JSON.stringify(deployed.body));
  assert.equal(deployed.body.details.parameter, 'component_code');
  assert.equal((await service.api('GET', '/v1/users/me/sources')).body.page_info.total_count, before);
  return deployed.body as { code: string; error: string; details: Record<string, unknown> };
}

/** Nothing of a run that takes its process down is kept, and after the third time it is an error event. */
async function runsThreeTimes(service: ServiceClient, lines: string, what: RegExp): Promise<void> {
  const source: Source = await service.createSource({
    component_code: running(
      `this.$emit('never kept'); this.db.set('never', 'kept'); ${lines}`,
      "http: '$.interface.http'",
    ),
  });
  assert.deepEqual(await post(source), { status: 200, body: { success: true } });
  const [error, ...more] = await errorsOf(service, source);
  assert.equal(more.length, 0);
  assert.match(`${error.event.error.name} ${error.event.error.message}`, what);
  assert.equal(error.event.original_event.method, 'POST');
  assert.deepEqual(await service.events(source.id), []);
}

forEachSharedService((fixture) => {
  let bystander: Bystander;
  before(async () => {
    bystander = await Bystander.start(fixture.service);
  });
  after(() => bystander?.abandon());

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

  test('a run that ends its process is run again, and after the third time is an error event', () =>
    runsThreeTimes(fixture.service, 'process.exit(3);', /ended with code 3/));

  test('an uncaught error after the run, or a rejected promise that is not awaited, ends up on $errors or $logs', async () => {
    const { service } = fixture;
    const source: Source = await service.createSource({
      component_code: running(`
            this.http.respond({ status: 200, body: {} });
            Promise.reject(new Error('nobody waits'));
            await new Promise((resolve) => setTimeout(resolve, 50));
            this.$emit('done');`),
    });
    await post(source);
    const found = await waitFor(async () => {
      const { body } = await service.api('GET', `/v1/sources/${source.id}/logs`);
      return JSON.stringify(body.data).includes('nobody waits') && body.data;
    });
    assert.ok(found.length > 0);
  });

  test('an error that one run left behind is on $errors, and the run that is under way keeps all its effects', async () => {
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
      const { status, body } = await post(source);
      assert.deepEqual([status, body.code, body.details], [500, 'no_response', {}]);
      if (errors > 0) await errorsOf(service, source, errors);
    }
  });

  test('a reply that is too large is answered with its size and the bound, which the logs have too, also when the code catches the error', async () => {
    const { service } = fixture;
    const large = "this.http.respond({ status: 200, body: 'x'.repeat(20_000_000) });";
    const why = 'http.respond: body has 20000000 bytes, at most 6291456 are allowed';
    const largeHead =
      "this.http.respond({ status: 200, headers: { 'x-a': 'é'.repeat(50_000), 'x-b': 'b'.repeat(40_000) } });";
    const whyHead = 'http.respond: headers have 90006 bytes, at most 32768 are allowed';
    for (const [lines, message, error, details] of [
      [large, `TypeError: ${why}`, why, { bytes: 20_000_000, bytes_max: 6_291_456 }],
      [`try { ${large} } catch {}`, why, why, { bytes: 20_000_000, bytes_max: 6_291_456 }],
      [`try { ${largeHead} } catch {}`, whyHead, whyHead, { bytes: 90_006, bytes_max: 32_768 }],
    ] as const) {
      const source: Source = await service.createSource({ component_code: running(lines) });
      const { status, body } = await post(source);
      assert.deepEqual([status, body.code, body.error], [500, 'reply_too_large', error]);
      assert.deepEqual(body.details, details);
      const logged = await waitFor(async () => {
        const { data } = (await service.api('GET', `/v1/sources/${source.id}/logs`)).body;
        return data.length > 0 && data;
      });
      assert.deepEqual(
        logged.map((line: { level: string; message: string }) => [line.level, line.message]),
        [['error', message]],
      );
    }
    const smaller: Source = await service.createSource({
      component_code: running(`try { ${large} } catch { this.http.respond({ status: 413 }); }`),
    });
    const answer = await fetch(smaller.configured_props.http.endpoint_url, { method: 'POST' });
    assert.equal(answer.status, 413, 'code that answers something else is not overruled');
  });

  test('meanwhile another source kept answering, and is answering still', async () => {
    await bystander.isAnswered();
    await bystander.stop();
  });
});

/** What is refused before anything is stored, and the limits of a run, do not depend on the store. */
describe('on one store', () => {
  const fixture = useSharedService();

  test('code that throws while it loads is refused with its error', async () => {
    const { code, error, details } = await refused(
      fixture.service,
      `throw new Error('not today'); export default {};`,
    );
    assert.equal(code, 'invalid_component');
    assert.match(error, /Error: not today/);
    assert.equal((details.error as { message: string }).message, 'not today');
  });

  test('code that exports nothing, or no component, is refused with what was expected', async () => {
    for (const code of [
      `const a = 1;`,
      `export const b = 2;`,
      `export default 5;`,
      `export default null;`,
      `module.exports = {};`,
      `export default { name: 'x', run: 'soon' };`,
    ]) {
      const { code: name, error } = await refused(fixture.service, code);
      assert.equal(name, 'invalid_component', code);
      assert.match(error, /exports no component|must be a function/);
    }
    for (const component_code of ['', '   ']) {
      const { status, body } = await fixture.service.api('POST', '/v1/components', { component_code });
      assert.deepEqual([status, body.details.parameter], [400, 'component_code']);
    }
  });

  test('code that does not parse is refused with file, line and column', async () => {
    const { code, error } = await refused(
      fixture.service,
      `export default {\n  name: 'x',\n  run() { return ] }\n};`,
    );
    assert.equal(code, 'invalid_component_code');
    assert.match(error, /:3:\d+/);
  });

  test('a prop of unknown type is refused by its name', async () => {
    const { code, error, details } = await refused(
      fixture.service,
      `export default { name: 'x', props: { when: { type: '$.interface.timr' } }, run() {} };`,
    );
    assert.equal(code, 'invalid_component');
    assert.match(error, /"when".*\$\.interface\.timr/);
    assert.equal(details.prop, 'when');
    const typeless = await refused(
      fixture.service,
      `export default { name: 'x', props: { odd: { label: 'Odd' } }, run() {} };`,
    );
    assert.match(typeless.error, /odd/);
    const wrongDedupe = await refused(
      fixture.service,
      `export default { name: 'x', dedupe: 'newest', run() {} };`,
    );
    assert.match(wrongDedupe.error, /dedupe/);
  });

  test('actions and apps can be saved, but not deployed as sources', async () => {
    const { status, body } = await fixture.service.api('POST', '/v1/sources', {
      component_code: `export default { name: 'Act', type: 'action', async run() {} };`,
    });
    assert.deepEqual([status, body.code], [400, 'invalid_component']);
    assert.match(body.error, /action/);
  });

  test('packages of forms that are not allowed are refused by name', async () => {
    for (const name of [
      'git+https://example.com/a.git',
      'file:../a',
      './beside.mjs',
      'https://example.com/a.mjs',
    ]) {
      const { error } = await refused(
        fixture.service,
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
    const [tooBig] = await errorsOf(fixture.service, big);
    assert.match(tooBig.event.error.message, /\d/);
    const chatty: Source = await service.createSource({
      component_code: running(
        `this.http.respond({ status: 200, body: {} }); for (let n = 0; n < 5000; n += 1) this.$emit({ n });`,
      ),
    });
    assert.equal((await post(chatty)).status, 200);
    const [tooMany] = await errorsOf(fixture.service, chatty);
    assert.match(tooMany.event.error.message, /1000/);
    assert.equal((await post(chatty)).status, 200, 'the source itself continues');
  });

  test('a run that takes all memory is run again, and after the third time is an error event', () =>
    runsThreeTimes(
      fixture.service,
      'const hoard = []; for (;;) hoard.push(Buffer.alloc(5e7, 1));',
      /memory/i,
    ));
});

/** How a deadline ends a loop does not depend on the store. */
describe('on a service where a run may take 5 s', () => {
  let folder: TempFolder;
  let service: Millrace;
  let bystander: Bystander;
  before(async () => {
    folder = await createTempFolder('bad-components');
    service = await Millrace.start({
      dataFolder: `${folder.path}/data`,
      environment: { MILLRACE_RUN_DEADLINE: '5' },
    });
    bystander = await Bystander.start(service);
  });
  after(async () => {
    bystander?.abandon();
    await service?.stop();
    await folder?.remove();
  });

  test('an endless loop in run ends at the deadline with an error event, and the next request is served', async () => {
    const source: Source = await service.createSource({
      component_code: running(
        `if (event.query.loop) for (;;); this.http.respond({ status: 200, body: { fine: true } });`,
      ),
    });
    const stream = await service.stream(source.id, { query: '?event_name=$errors' });
    const url = source.configured_props.http.endpoint_url;
    const answersBefore = bystander.answers;
    const looping = await fetch(`${url}?loop=1`);
    assert.ok(bystander.answers >= answersBefore + 3, 'another source was answered all the while');
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
    for (const hook of ['for (;;);', 'process.exit(1);']) {
      const { status, body } = await service.api('POST', '/v1/sources', {
        component_code: `export default { name: 'Stuck', hooks: { async activate() { ${hook} } }, run() {} };`,
      });
      assert.deepEqual([hook, status, body.code, body.details.hook], [hook, 400, 'hook_failed', 'activate']);
    }
    const { body } = await service.api('GET', '/v1/users/me/sources?limit=100');
    assert.ok(body.data.every((source: { name_slug: string }) => !source.name_slug.startsWith('stuck')));
  });

  test('meanwhile another source kept answering, and is answering still', async () => {
    await bystander.isAnswered();
    await bystander.stop();
  });
});

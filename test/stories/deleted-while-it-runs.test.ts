import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService } from '../support/millrace.ts';

/** Far below the time that the code sleeps, and enough for a busy machine. */
const patienceMs = 60_000;
/** Says that it runs, then sleeps. */
const sleep = (url: string) =>
  `await fetch('${url}'); await new Promise((resolve) => setTimeout(resolve, 200_000));`;

/** The first one waited; the others may have come after the deletion. */
function assertTold([first, ...others]: readonly string[]): void {
  assert.equal(first, '410 endpoint_removed');
  for (const other of others) assert.match(other, /^(410 endpoint_removed|404 unknown_endpoint)$/);
}

forEachSharedService((fixture) => {
  /** Deletes what a caller waits for while it sleeps; returns the caller's answer. */
  async function answerAfterDeletion(make: (url: string) => Promise<{ path: string; endpoint: string }>) {
    const receiver = await HttpReceiver.start();
    try {
      const { path, endpoint } = await make(receiver.url);
      const ask = async (headers: Record<string, string> = {}) => {
        const answer = await fetch(endpoint, { headers, signal: AbortSignal.timeout(patienceMs) });
        const { code } = (await answer.json()) as { code: string };
        return `${answer.status} ${code}`;
      };
      const first = ask({ 'idempotency-key': 'k' });
      first.catch(() => {});
      await receiver.waitForRequest();
      // One waits for its turn, or runs beside it, one for the reply of the first.
      const others = [ask(), ask({ 'idempotency-key': 'k' })];
      for (const other of others) other.catch(() => {});
      assert.equal((await fixture.service.api('DELETE', path)).status, 204);
      return await Promise.all([first, ...others]);
    } finally {
      await receiver.close();
    }
  }

  test('a caller whose run sleeps is told that its workflow was deleted when it is, not at the timeout', async () => {
    const { service } = fixture;
    const answers = await answerAfterDeletion(async (url) => {
      const { id, triggers } = await service.createWorkflow({
        settings: { timeout_seconds: 300 },
        triggers: [{ type: 'http', props: { custom_response: true } }],
        steps: [
          { namespace: 'sleeps', code: `export default defineComponent({ async run() { ${sleep(url)} } })` },
        ],
      });
      return { path: `/v1/workflows/${id}`, endpoint: triggers[0].endpoint_url };
    });
    assertTold(answers);
  });

  test('so is the caller of a source', async () => {
    const { service } = fixture;
    const answers = await answerAfterDeletion(async (url) => {
      const { id, configured_props } = await service.createSource({
        component_code: `export default {
          name: 'Sleeps', props: { http: { type: '$.interface.http', customResponse: true } },
          async run() { ${sleep(url)} },
        };`,
      });
      return { path: `/v1/sources/${id}`, endpoint: configured_props.http.endpoint_url };
    });
    assertTold(answers);
  });

  test('a request whose body arrives while its endpoint is deleted is refused, not acknowledged and lost', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      component_code: `export default { name: 'Takes', props: { http: '$.interface.http' }, run() {} };`,
    });
    const workflow = await service.createWorkflow({
      triggers: [{ type: 'http', props: {} }],
      steps: [{ namespace: 'code', code: 'export default defineComponent({ run() {} })' }],
    });
    for (const { path, url } of [
      { path: `/v1/sources/${source.id}`, url: source.configured_props.http.endpoint_url as string },
      { path: `/v1/workflows/${workflow.id}`, url: workflow.triggers[0].endpoint_url as string },
    ]) {
      assert.equal((await fetch(url, { method: 'POST' })).status, 200, 'it is remembered');
      const sending = request(url, {
        method: 'POST',
        headers: { expect: '100-continue', 'x-pd-upload-body': '1', 'content-length': 4 },
      });
      const answered = once(sending, 'response');
      sending.flushHeaders();
      // The service has looked for the endpoint, and reads the body.
      await once(sending, 'continue');
      assert.equal((await service.api('DELETE', path)).status, 204);
      sending.end('body');
      const [response] = await answered;
      response.resume();
      assert.equal(response.statusCode, 404, path);
    }
  });
});

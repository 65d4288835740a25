import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService } from '../support/millrace.ts';

/** Far below the time that the code sleeps, and enough for a busy machine. */
const patienceMs = 60_000;
/** Says that it runs, then sleeps. */
const sleep = (url: string) =>
  `await fetch('${url}'); await new Promise((resolve) => setTimeout(resolve, 200_000));`;

forEachSharedService((fixture) => {
  /** Deletes what a caller waits for while it sleeps; the status of the answer. */
  async function statusAfterDeletion(make: (url: string) => Promise<{ path: string; endpoint: string }>) {
    const receiver = await HttpReceiver.start();
    try {
      const { path, endpoint } = await make(receiver.url);
      const answer = fetch(endpoint, { signal: AbortSignal.timeout(patienceMs) });
      answer.catch(() => {});
      await receiver.waitForRequest();
      assert.equal((await fixture.service.api('DELETE', path)).status, 204);
      return (await answer).status;
    } finally {
      await receiver.close();
    }
  }

  test('a caller whose run sleeps is answered when its workflow is deleted, not at the timeout', async () => {
    const { service } = fixture;
    const status = await statusAfterDeletion(async (url) => {
      const { id, triggers } = await service.createWorkflow({
        settings: { timeout_seconds: 300 },
        triggers: [{ type: 'http', props: { custom_response: true } }],
        steps: [
          { namespace: 'sleeps', code: `export default defineComponent({ async run() { ${sleep(url)} } })` },
        ],
      });
      return { path: `/v1/workflows/${id}`, endpoint: triggers[0].endpoint_url };
    });
    assert.equal(status, 400);
  });

  test('so is the caller of a source', async () => {
    const { service } = fixture;
    const status = await statusAfterDeletion(async (url) => {
      const { id, configured_props } = await service.createSource({
        component_code: `export default {
          name: 'Sleeps', props: { http: { type: '$.interface.http', customResponse: true } },
          async run() { ${sleep(url)} },
        };`,
      });
      return { path: `/v1/sources/${id}`, endpoint: configured_props.http.endpoint_url };
    });
    assert.equal(status, 503);
  });
});

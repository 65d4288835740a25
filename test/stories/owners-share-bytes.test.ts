import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../support/free-port.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { EventStream, forEachService } from '../support/millrace.ts';
import { SmtpClient } from '../support/smtp-client.ts';
import { waitFor } from '../support/wait-for.ts';

const port = await freePort();

/** A source that does this for each request, and then answers. */
const sourceThat = (body: string) => `export default {
  name: 'Sends', version: '0.0.1', props: { http: { type: '$.interface.http', customResponse: true } },
  async run(event) { ${body} this.http.respond({ status: 200, body: 'ok' }); },
};`;
const emits = (count: number, bytes: number) =>
  sourceThat(`for (let n = 0; n < ${count}; n += 1) this.$emit({ n, text: 'y'.repeat(${bytes}) });`);

forEachService(
  (fixture) => {
    const makeOwner = async (name: string): Promise<string> =>
      (await fixture.service.api('POST', '/v1/workspaces', { name })).body.data.id;
    const makeSource = async (ownerId: string, code: string): Promise<{ id: string; url: string }> => {
      const body = { name: 'sends', org_id: ownerId, component_code: code };
      const source = await fixture.service.createSource(body);
      return { id: source.id, url: source.configured_props.http.endpoint_url };
    };
    const call = async (url: string) => {
      const answer = await fetch(url, { method: 'POST', body: '{}' });
      assert.equal(answer.status, 200);
      await answer.text();
    };
    const delaysOf = async (ownerId: string): Promise<number> => {
      const { body } = await fixture.service.api('GET', `/v1/workspaces/${ownerId}/shares`);
      const rows = body.data as { resource: string; delayed: number }[];
      return rows.find(({ resource }) => resource === 'transfers')?.delayed ?? 0;
    };
    /** Calls a source, three times together, until its owner has waited: on a busy machine the first calls move less than an owner may. */
    const untilDelayed = (ownerId: string, url: string) =>
      waitFor(async () => {
        await Promise.all([call(url), call(url), call(url)]);
        return (await delaysOf(ownerId)) > 0;
      });
    /** Calls another owner's source all the time until `work` is done. */
    const beside = async (url: string, work: () => Promise<unknown>) => {
      let isDone = false;
      const calls = (async () => {
        while (!isDone) {
          await call(url);
          await delay(10);
        }
      })();
      await work().finally(() => {
        isDone = true;
      });
      await calls;
    };

    test('while another owner has calls, what an owner moves in calls, streams and mails waits, all of it arrives, and the owner can see that it waited', async () => {
      const { service } = fixture;
      const other = await makeOwner('Other');
      const { url } = await makeSource(other, sourceThat(''));

      const calling = await makeOwner('Calls');
      const large = await makeSource(calling, emits(8, 500_000));
      for (let n = 0; n < 4; n += 1) await call(large.url);
      assert.equal(await delaysOf(calling), 0, 'an owner that is alone does not wait');
      await beside(url, () => untilDelayed(calling, large.url));

      const streaming = await makeOwner('Streams');
      const streamed = await makeSource(streaming, emits(50, 50_000));
      const path = `${service.url}/sources/${streamed.id}/sse`;
      const streams = await Promise.all(Array.from({ length: 5 }, () => EventStream.open(path)));
      await beside(url, async () => {
        let read = 0;
        await waitFor(async () => {
          // One call at a time, which does not wait itself: its events are 12 MB for all readers.
          await call(streamed.url);
          read += 50;
          for (const stream of streams) await stream.message(read);
          return (await delaysOf(streaming)) > 0;
        });
        for (const stream of streams)
          assert.deepEqual(
            stream.messages.map(({ data }) => (data as { event: { n: number } }).event.n),
            Array.from({ length: read }, (_, n) => n % 50),
          );
      });
      for (const stream of streams) stream.close();

      const hooked = await makeOwner('Webhooks');
      await using receiver = await HttpReceiver.start();
      const source = await makeSource(hooked, emits(400, 1));
      const hook = await service.api('POST', '/v1/webhooks', { url: receiver.url, org_id: hooked });
      await service.api('POST', '/v1/subscriptions', {
        emitter_id: source.id,
        listener_id: hook.body.data.id,
      });
      await beside(url, async () => {
        await call(source.url);
        await receiver.waitForRequest(400);
      });
      assert.equal(receiver.requests.length, 400, 'each event once');

      const mailed = await makeOwner('Mails');
      const workflow = await service.createWorkflow({
        org_id: mailed,
        steps: [],
        triggers: [{ type: 'email' }],
      });
      await beside(url, async () => {
        const client = await SmtpClient.connect(port);
        const to: string = workflow.triggers[0].email_address;
        assert.match(await client.begin('a@sender.example', [to]), /^354/);
        await client.send(`Subject: large\r\n\r\n${`${'y'.repeat(76)}\r\n`.repeat(50_000)}.\r\n`);
        assert.match(await client.reply(), /^250/);
        client.close();
      });
      assert.equal(await delaysOf(other), 0);
    });
  },
  { environment: { MILLRACE_SMTP_PORT: String(port) }, inTurns: true },
);

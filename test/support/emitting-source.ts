import assert from 'node:assert/strict';
import type { ServiceClient } from './millrace.ts';

/** Emits each of the values that it is sent, on the channel that is named; its answer goes out before they are stored. */
const code = `export default {
  name: 'Emitting', props: { http: { type: '$.interface.http', customResponse: true } },
  run(request) {
    const { values, channel } = request.body;
    for (const value of values) this.$emit(value, channel === undefined ? {} : { name: channel });
    this.http.respond({ status: 200, body: {} });
  },
};`;

export interface EmittingSource {
  readonly id: string;
  emit(values: readonly unknown[], channel?: string): Promise<void>;
}

/** A deployed source that emits what a test requests. */
export async function createEmittingSource(
  service: ServiceClient,
  options: { key?: string; workspace?: string } = {},
): Promise<EmittingSource> {
  const query = options.workspace === undefined ? '' : `?org_id=${options.workspace}`;
  const answer = await service.api('POST', `/v1/sources${query}`, { component_code: code }, options);
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  const source = answer.body.data;
  return {
    id: source.id,
    async emit(values, channel) {
      const emitted = await fetch(source.configured_props.http.endpoint_url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ values, channel }),
      });
      assert.equal(emitted.status, 200);
    },
  };
}

/** A webhook that listens to a source; answers it with its `signing_secret`. */
export async function createListeningWebhook(
  service: ServiceClient,
  options: { url: string; emitterId: string; key?: string; workspace?: string },
  // biome-ignore lint/suspicious/noExplicitAny: tests look into webhooks of every shape.
): Promise<any> {
  const { url, emitterId, workspace } = options;
  const body = { url, ...(workspace === undefined ? {} : { org_id: workspace }) };
  const created = await service.api('POST', '/v1/webhooks', body, options);
  assert.equal(created.status, 200, JSON.stringify(created.body));
  const webhook = created.body.data;
  const subscription = { emitter_id: emitterId, listener_id: webhook.id };
  const subscribed = await service.api('POST', '/v1/subscriptions', subscription, options);
  assert.equal(subscribed.status, 200, JSON.stringify(subscribed.body));
  return { ...webhook, subscription_id: subscribed.body.data.id };
}

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { request } from './event-of-a-person.ts';

const component = `export default {
  name: 'Inbox', version: '0.0.1',
  props: { http: '$.interface.http' },
  run({ body }) { this.$emit(body); },
};`;

/** A source that emits what is sent to it, and a receiver of its events: what is acknowledged has to arrive there. */
export class Inbox {
  readonly sourceId: string;
  /** Path of its endpoint. */
  readonly path: string;
  /** Numbers that arrived. */
  readonly received: Set<number>;
  readonly #close: () => void;

  private constructor(fields: { sourceId: string; path: string; received: Set<number>; close: () => void }) {
    this.sourceId = fields.sourceId;
    this.path = fields.path;
    this.received = fields.received;
    this.#close = fields.close;
  }

  static async open(service: { url: string; apiKey: string }): Promise<Inbox> {
    const received = new Set<number>();
    const server = createServer(async (message, response) => {
      received.add((JSON.parse(await text(message)) as { n: number }).n);
      response.end();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const { data: source } = await request(service, 'POST', '/v1/sources', { component_code: component });
    const { data: webhook } = await request(service, 'POST', '/v1/webhooks', {
      url: `http://127.0.0.1:${port}/`,
    });
    await request(service, 'POST', '/v1/subscriptions', { emitter_id: source.id, listener_id: webhook.id });
    const { http } = source.configured_props as { http: { endpoint_url: string } };
    const close = () => {
      server.close();
      server.closeAllConnections();
    };
    return new Inbox({ sourceId: source.id, path: new URL(http.endpoint_url).pathname, received, close });
  }

  send(url: string, n: number): Promise<Response> {
    return fetch(new URL(this.path, url), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ n }),
      signal: AbortSignal.timeout(60_000),
    });
  }

  missing(numbers: readonly number[]): number[] {
    return numbers.filter((n) => !this.received.has(n));
  }

  close(): void {
    this.#close();
  }
}

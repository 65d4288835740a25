import { waitFor } from '../../test/support/wait-for.ts';
import type { Service } from './service.ts';
import type { Sink } from './sink.ts';

/** A source that emits the body of each request, on the channel that the body names. */
const code = `export default {
  name: 'bench numbers', version: '0.0.1',
  props: { http: '$.interface.http' },
  async run(event) { this.$emit(event.body, { name: event.body.channel ?? '' }); },
};`;
/** Between two events whose latency is measured. */
const pauseMs = 20;

export interface NumbersSource {
  id: string;
  url: string;
}

/** The way of events from the endpoint of a source to the sink's path `/one`, ms. */
export async function latenciesOf(
  source: NumbersSource,
  to: Sink,
  { samples, name }: { samples: number; name: string },
): Promise<{ p50: number; p99: number }> {
  const path = '/one';
  const before = (await to.report(path)).received;
  for (let n = 0; n < samples; n += 1) {
    await post(source, {
      number: String(n).padStart(12, '0'),
      sent: performance.timeOrigin + performance.now(),
    });
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  await waitFor(async () => (await to.report(path)).received >= before + samples, {
    timeoutMs: 60_000,
    what: `${samples} deliveries (${name})`,
  });
  const { latencies } = await to.report(path);
  const sorted = Float64Array.from(latencies.slice(-samples)).sort();
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return { p50: at(0.5), p99: at(0.99) };
}

/** Emits. */
export async function post(source: NumbersSource, body: object): Promise<void> {
  const response = await fetch(source.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  await response.arrayBuffer();
  if (!response.ok) throw new Error(`the endpoint answered ${response.status}`);
}

export async function createSource(service: Service, orgId?: string): Promise<NumbersSource> {
  const body = { name: 'numbers', component_code: code, ...(orgId === undefined ? {} : { org_id: orgId }) };
  const { data } = (await service.api('POST', '/sources/', body)) as {
    data: { id: string; configured_props: { http: { endpoint_url: string } } };
  };
  return { id: data.id, url: data.configured_props.http.endpoint_url };
}

export async function createWebhook(service: Service, url: string, orgId?: string): Promise<string> {
  const body = { url, ...(orgId === undefined ? {} : { org_id: orgId }) };
  const { data } = (await service.api('POST', '/webhooks', body)) as { data: { id: string } };
  return data.id;
}

export async function listen(service: Service, emitterId: string, listenerId: string): Promise<void> {
  await service.api('POST', '/subscriptions', { emitter_id: emitterId, listener_id: listenerId });
}

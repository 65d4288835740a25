import type { Service } from './service.ts';

const answering = `export default {
  name: 'answering', version: '0.0.1', props: { http: '$.interface.http' },
  async run(event) { this.http.respond({ status: 200, body: 'ok' }); },
};`;

/** Returns its id. */
export async function makeWorkspace(service: Service, name: string): Promise<string> {
  const { data } = (await service.api('POST', '/workspaces', { name })) as { data: { id: string } };
  return data.id;
}

/** Deploys a source that answers each request at once; returns its endpoint. */
export async function deployAnswering(service: Service, orgId: string, name: string): Promise<string> {
  const body = { name, org_id: orgId, component_code: `${answering} // ${name}` };
  const { data } = (await service.api('POST', '/sources/', body)) as {
    data: { configured_props: { http: { endpoint_url: string } } };
  };
  return data.configured_props.http.endpoint_url;
}

export function quantile(times: readonly number[], q: number): number {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}

/** Milliseconds for a table. */
export const shown = (ms: number): string => (ms < 10 ? ms.toFixed(2) : ms.toFixed(0));

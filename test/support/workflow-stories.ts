import assert from 'node:assert/strict';
import type { ServiceClient } from './service-client.ts';

/** What tests of whole workflows do again and again: set variables, send events, look at what steps have exported. */

// biome-ignore lint/suspicious/noExplicitAny: tests look into exports of every shape.
export type Exports = Record<string, Record<string, any>>;

/** The exports of the steps of a run that have any, by namespace. */
export function exportsOf(run: { steps: { namespace: string; exports: Exports[string] | null }[] }): Exports {
  return Object.fromEntries(run.steps.map(({ namespace, exports }) => [namespace, exports ?? {}]));
}

/** Where the first HTTP trigger of a workflow listens. */
export function endpointOf(workflow: { triggers: { endpoint_url?: string }[] }): string {
  const url = workflow.triggers.find(({ endpoint_url }) => endpoint_url)?.endpoint_url;
  assert.ok(url, 'the workflow has an HTTP trigger');
  return url;
}

export function postJson(url: string, body: unknown): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
}

/** Sets variables of the user. */
export async function setVariables(
  service: ServiceClient,
  values: Record<string, string>,
  secret = false,
): Promise<void> {
  const variables = Object.entries(values).map(([name, value]) => ({ name, value, secret }));
  const { status, body } = await service.api('PUT', '/v1/variables', { variables });
  assert.equal(status, 200, JSON.stringify(body));
}

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Millrace, type MillraceOptions } from '../support/millrace.ts';
import { createTempFolder } from '../support/temp-folder.ts';

/** Runs `work` with a service that has these settings. */
async function withService(
  environment: Record<string, string>,
  work: (service: Millrace) => Promise<void>,
  options: Partial<MillraceOptions> = {},
): Promise<void> {
  await using folder = await createTempFolder();
  const service = await Millrace.start({ dataFolder: folder.path, environment, ...options });
  try {
    await work(service);
  } finally {
    await service.stop();
  }
}

async function statusOf(service: Millrace, path: string): Promise<number> {
  return (await service.api('GET', path)).status;
}

describe('MILLRACE_ROLES', () => {
  test('without api and ingress, only health and metrics are answered', async () => {
    await withService({ MILLRACE_ROLES: 'scheduler,worker' }, async (service) => {
      for (const path of ['/healthz', '/readyz']) assert.equal(await statusOf(service, path), 200, path);
      assert.equal((await fetch(`${service.url}/metrics`)).status, 200);
      for (const path of [
        '/v1/users/me',
        '/v1/sources/x',
        '/openapi.json',
        '/docs',
        '/in/x',
        '/sources/x/sse',
      ]) {
        const answer = await service.api('GET', path);
        assert.deepEqual([answer.status, answer.body.code], [404, 'unknown_path'], path);
      }
      assert.doesNotMatch(service.output, /manual/);
    });
  });

  test('with ingress alone endpoints are answered and the API is not; with api alone the other way round', async () => {
    await withService({ MILLRACE_ROLES: 'ingress' }, async (service) => {
      assert.equal((await service.api('GET', '/in/nobody')).body.code, 'unknown_endpoint');
      assert.equal((await service.api('GET', '/v1/users/me')).body.code, 'unknown_path');
    });
    await withService({ MILLRACE_ROLES: 'api' }, async (service) => {
      assert.equal((await service.api('GET', '/in/nobody')).body.code, 'unknown_path');
      assert.equal(await statusOf(service, '/v1/users/me'), 200);
      assert.equal(await statusOf(service, '/openapi.json'), 200);
    });
  });
});

const telling = `
export default {
  name: 'Telling', props: { http: { type: '$.interface.http', customResponse: true } },
  run(event) { this.http.respond({ status: 200, body: { ip: event.client_ip, url: event.url } }); },
};`;

describe('MILLRACE_TRUSTED_PROXIES', () => {
  const headers = { 'x-forwarded-for': '198.51.100.1, 203.0.113.9', 'x-forwarded-host': 'hooks.example.com' };
  const ask = async (service: Millrace) => {
    const source = await service.createSource({ component_code: telling });
    const answer = await fetch(source.configured_props.http.endpoint_url, { headers });
    return (await answer.json()) as { ip: string; url: string };
  };

  test('what a trusted proxy says is the address of the caller and the host', async () => {
    await withService({ MILLRACE_TRUSTED_PROXIES: '10.0.0.0/8,127.0.0.1' }, async (service) => {
      const { ip, url } = await ask(service);
      assert.equal(ip, '203.0.113.9', 'the last address that is not a trusted proxy itself');
      assert.match(url, /^hooks\.example\.com\/in\//);
    });
  });

  test('the host that a trusted proxy says decides which endpoint is meant', async () => {
    const domain = { MILLRACE_ENDPOINT_DOMAIN: 'hooks.example.test' };
    for (const [proxies, status] of [
      ['127.0.0.1', 200],
      ['10.0.0.0/8', 404],
    ] as const) {
      await withService({ ...domain, MILLRACE_TRUSTED_PROXIES: proxies }, async (service) => {
        const source = await service.createSource({ component_code: telling });
        const { host } = new URL(source.configured_props.http.endpoint_url);
        const answer = await fetch(`${service.url}/ping`, { headers: { 'x-forwarded-host': host } });
        assert.equal(answer.status, status);
        if (status === 200) assert.equal(((await answer.json()) as { url: string }).url, `${host}/ping`);
      });
    }
  });

  test('without it, or from elsewhere, nobody is believed', async () => {
    for (const proxies of ['', '10.0.0.0/8']) {
      await withService({ MILLRACE_TRUSTED_PROXIES: proxies }, async (service) => {
        const { ip, url } = await ask(service);
        assert.equal(ip, '127.0.0.1');
        assert.doesNotMatch(url, /hooks/);
      });
    }
  });
});

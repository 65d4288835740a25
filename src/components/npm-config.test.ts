import assert from 'node:assert/strict';
import { test } from 'node:test';
import { npmThroughProxy } from './npm-config.ts';

test('npm asks the proxy of the service for all but the machine itself and what is excepted, whose names are as in URLs', () => {
  const own = {
    ...{ registry: 'https://registry.example/', credentials: {}, ca: [] },
    ...{ proxy: 'http://own.example:1', noProxy: 'own.example' },
  };
  assert.equal(npmThroughProxy(own, { egressProxy: '', egressProxyExcept: [] }), own);
  const egressProxy = 'http://proxy.example:3128';
  const egressProxyExcept = ['bücher.example', '.Müller.example', 'db.example', '10.0.0.0/8', '::1'];
  const { proxy, httpsProxy, noProxy } = npmThroughProxy(own, { egressProxy, egressProxyExcept });
  assert.deepEqual([proxy, httpsProxy], [egressProxy, egressProxy]);
  assert.deepEqual(noProxy?.split(','), [
    ...['localhost', '127.0.0.1', '::1'],
    ...['xn--bcher-kva.example', '.xn--mller-kva.example', 'db.example', '10.0.0.0/8', '::1'],
  ]);
});

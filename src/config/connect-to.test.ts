import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConnectTo } from './connect-to.ts';

const lead = (entries: string[], host: string, port: number) => {
  const found = new ConnectTo(entries).lead(host, port);
  return found === undefined ? undefined : `${found.host} ${found.port}`;
};

test('what goes to HOST1:PORT1 is led to HOST2:PORT2, and nothing else', () => {
  const entries = ['api.example.com:443:gateway.internal:8443'];
  assert.equal(lead(entries, 'api.example.com', 443), 'gateway.internal 8443');
  assert.equal(lead(entries, 'api.example.com.', 443), 'gateway.internal 8443', 'the dot of the root');
  assert.equal(lead(entries, 'api.example.com', 80), undefined);
  assert.equal(lead(entries, 'example.com', 443), undefined);
  assert.equal(lead(entries, 'x.api.example.com', 443), undefined);
  assert.equal(lead(entries, 'gateway.internal', 8443), undefined);
  assert.equal(lead([], 'api.example.com', 443), undefined);
});

test('hosts are read as everywhere: any case, IDNA, addresses in every spelling', () => {
  assert.equal(
    lead(['API.Example.COM:443:Mirror.Example:443'], 'api.example.com', 443),
    'mirror.example 443',
  );
  assert.equal(lead(['bücher.example:80:127.1:81'], 'xn--bcher-kva.example', 80), '127.0.0.1 81');
});

test('an empty HOST1 or PORT1 stands for any, an empty HOST2 or PORT2 for the one that was asked for', () => {
  assert.equal(lead([':443:proxy.example:8443'], 'any.example', 443), 'proxy.example 8443');
  assert.equal(lead([':443:proxy.example:8443'], 'any.example', 80), undefined);
  assert.equal(lead(['a.example::b.example:'], 'a.example', 5432), 'b.example 5432');
  assert.equal(lead(['a.example::b.example:'], 'a.example', 0), 'b.example 0', 'a look-up without a port');
  assert.equal(lead(['a.example:443::8443'], 'a.example', 443), 'a.example 8443');
  assert.equal(lead(['a.example:443::8443'], 'a.example', 0), undefined, 'the port is not known');
  assert.equal(lead([':::'], 'a.example', 443), undefined);
});

test('the first entry that fits counts: one that changes nothing is an exception from those after it', () => {
  const entries = ['keep.example:443::', 'a.example:443:first.example:1', '::rest.example:2'];
  assert.equal(lead(entries, 'keep.example', 443), undefined);
  assert.equal(lead(entries, 'a.example', 443), 'first.example 1');
  assert.equal(lead(entries, 'first.example', 1), 'rest.example 2');
});

test('IPv6 addresses stand in brackets, on both sides, and every spelling of one is the same', () => {
  assert.equal(lead(['[2001:DB8::1]:443:[::1]:8443'], '2001:db8:0:0:0:0:0:1', 443), '::1 8443');
  assert.equal(lead(['[2001:db8:0::1]:443:[::1]:'], '2001:db8::1', 443), '::1 443');
});

test('everything else is refused with what was expected', () => {
  for (const entry of [
    '',
    'a.example',
    'a.example:443',
    'a.example:443:b.example',
    'a.example:443:b.example:1:2',
    'a.example:https:b.example:1',
    'a.example:-1:b.example:1',
    '2001:db8::1:443:b.example:1',
    '[a.example]:443:b.example:1',
    '[]:443:b.example:1',
    'a.example:443:[::1:1',
    'a.example:0:b.example:1',
    'a.example:443:b.example:65536',
    'a/x:443:b.example:1',
    'a b:443:b.example:1',
    'u@a.example:443:b.example:1',
    'https://a.example:443:b.example:1',
  ]) {
    assert.throws(() => new ConnectTo([entry]), {
      message: /expected HOST1:PORT1:HOST2:PORT2, .* with IPv6 addresses in brackets; found "/,
    });
  }
});

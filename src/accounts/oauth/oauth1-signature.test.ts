import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { describe, test } from 'node:test';
import OAuth from 'oauth-1.0a';
import {
  authorizationHeader,
  baseString,
  type Parameter,
  parseForm,
  percentEncode,
  type SignatureMethod,
  signatureOf,
} from './oauth1-signature.ts';

const photos = { consumerKey: 'dpf43f3p2l4k3l03', consumerSecret: 'kd94hf93k423kf44' };

function protocol(parameters: Record<string, string>): Parameter[] {
  return Object.entries(parameters);
}

describe('signatures of RFC 5849', () => {
  test('the base string of section 3.4.1.1: names that repeat in query, body and header, and encodings of all kinds', () => {
    const text = baseString(
      {
        method: 'post',
        url: new URL('HTTP://EXAMPLE.COM:80/request?b5=%3D%253D&a3=a&c%40=&a2=r%20b'),
        form: parseForm('c2&a3=2+q'),
      },
      protocol({
        oauth_consumer_key: '9djdj82h48djs9d2',
        oauth_token: 'kkk9d7dh3k39sjv7',
        oauth_signature_method: 'HMAC-SHA1',
        oauth_timestamp: '137131201',
        oauth_nonce: '7d8f3e4a',
      }),
    );
    assert.equal(
      text,
      'POST&http%3A%2F%2Fexample.com%2Frequest&a2%3Dr%2520b%26a3%3D2%2520q%26a3%3Da%26b5%3D%253D%25253D%26c%2540%3D%26c2%3D' +
        '%26oauth_consumer_key%3D9djdj82h48djs9d2%26oauth_nonce%3D7d8f3e4a%26oauth_signature_method%3DHMAC-SHA1' +
        '%26oauth_timestamp%3D137131201%26oauth_token%3Dkkk9d7dh3k39sjv7',
    );
  });

  test('the three signatures of section 1.2', () => {
    const common = { oauth_consumer_key: photos.consumerKey, oauth_signature_method: 'HMAC-SHA1' };
    const sign = (
      method: string,
      url: string,
      tokenSecret: string,
      parameters: Record<string, string>,
    ): string =>
      signatureOf(
        baseString({ method, url: new URL(url), form: [] }, protocol({ ...common, ...parameters })),
        {
          method: 'HMAC-SHA1',
          consumerSecret: photos.consumerSecret,
          tokenSecret,
        },
      );
    assert.equal(
      sign('POST', 'https://photos.example.net/initiate', '', {
        oauth_timestamp: '137131200',
        oauth_nonce: 'wIjqoS',
        oauth_callback: 'http://printer.example.com/ready',
      }),
      '74KNZJeDHnMBp0EMJ9ZHt/XKycU=',
    );
    assert.equal(
      sign('POST', 'https://photos.example.net/token', 'hdhd0244k9j7ao03', {
        oauth_token: 'hh5s93j4hdidpola',
        oauth_timestamp: '137131201',
        oauth_nonce: 'walatlh',
        oauth_verifier: 'hfdp7dh39dks9884',
      }),
      'gKgrFCywp7rO0OXSjdot/IHF7IU=',
    );
    assert.equal(
      sign('GET', 'http://photos.example.net/photos?file=vacation.jpg&size=original', 'pfkkdhi9sl3r4s00', {
        oauth_token: 'nnch734d00sl2jdk',
        oauth_timestamp: '137131202',
        oauth_nonce: 'chapoH',
      }),
      'MdpQcU8iPSUjWoN/UDMsK2sui9I=',
    );
  });

  test('percent encoding of section 3.6', () => {
    assert.equal(percentEncode("aZ09-._~ +%&=*!'()/☃"), 'aZ09-._~%20%2B%25%26%3D%2A%21%27%28%29%2F%E2%98%83');
    assert.equal(percentEncode('\ud800'), '%EF%BF%BD');
  });

  test('a form is read as it is sent', () => {
    assert.deepEqual(parseForm('?a=1&a=2&&b&c=x=y+z%2B'), [
      ['?a', '1'],
      ['a', '2'],
      ['b', ''],
      ['c', 'x=y z+'],
    ]);
  });
});

/** As documented by Twitter, "Creating a signature". */
const twitter = {
  method: 'HMAC-SHA1' as const,
  consumerKey: 'xvz1evFS4wEEPTGEFPHBog',
  consumerSecret: 'kAcSOqF21Fu85e7zjz7ZN2U4ZRhfV3WpwPAoE3Z7kBw',
  token: '370773112-GmHxMAgYyLbNEtIKZeRNFsMKPR9EyMZeS9weJAEb',
  tokenSecret: 'LswwdoUaIvS8ltyTt5jkRh4J50vUPVVHtR2YPi5kE',
};

describe('the Authorization header', () => {
  test('is that of the example in the documentation of Twitter', () => {
    const header = authorizationHeader(
      {
        method: 'POST',
        url: new URL('https://api.twitter.com/1.1/statuses/update.json?include_entities=true'),
        form: [['status', 'Hello Ladies + Gentlemen, a signed OAuth request!']],
      },
      twitter,
      { nonce: 'kYjzVBB8Y0ZFabxSWbWovY3uYSQ2pTgmZeNu2VS4cg', seconds: 1318622958 },
    );
    assert.equal(
      header,
      'OAuth oauth_consumer_key="xvz1evFS4wEEPTGEFPHBog", ' +
        'oauth_token="370773112-GmHxMAgYyLbNEtIKZeRNFsMKPR9EyMZeS9weJAEb", oauth_signature_method="HMAC-SHA1", ' +
        'oauth_timestamp="1318622958", oauth_nonce="kYjzVBB8Y0ZFabxSWbWovY3uYSQ2pTgmZeNu2VS4cg", oauth_version="1.0", ' +
        'oauth_signature="hCtSmYh%2BiHYCEqBWrE7C7hYmtUk%3D"',
    );
  });

  for (const method of ['HMAC-SHA1', 'HMAC-SHA256'] as SignatureMethod[]) {
    test(`agrees with another implementation about ${method}`, () => {
      const requests = [
        { method: 'GET', url: 'https://api.example/things', data: {} },
        { method: 'GET', url: 'https://api.example/a%20b/c?q=caf%C3%A9%20!*&page=2', data: {} },
        { method: 'POST', url: 'https://api.example:8443/x?y=1', data: { text: 'a b+c & ☃', 'k(1)': '' } },
        { method: 'POST', url: 'https://api.example/x?tag=b&tag=a', data: { empty: '' } },
      ];
      const hash = method === 'HMAC-SHA1' ? 'sha1' : 'sha256';
      const other = new OAuth({
        consumer: { key: twitter.consumerKey, secret: twitter.consumerSecret },
        signature_method: method,
        hash_function: (text, key) => createHmac(hash, key).update(text).digest('base64'),
      });
      for (const { method: verb, url, data } of requests) {
        const theirs = other.authorize(
          { method: verb, url, data: { ...data } },
          { key: twitter.token, secret: twitter.tokenSecret },
        );
        const ours = authorizationHeader(
          { method: verb, url: new URL(url), form: Object.entries(data) },
          { ...twitter, method },
          { nonce: theirs.oauth_nonce, seconds: theirs.oauth_timestamp },
        );
        assert.equal(
          /oauth_signature="([^"]*)"/.exec(ours)?.[1],
          percentEncode(theirs.oauth_signature),
          `${verb} ${url}`,
        );
      }
    });
  }
});

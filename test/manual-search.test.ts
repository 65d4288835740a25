import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { Manual } from '#web/manual/manual.ts';
import { bestSections, sectionsOf, wordsOf } from '../docs/site/search.js';
import { projectRoot } from './support/project-files.ts';

/** What operators and authors search for, and where the first result has to lead. */
const expectations: readonly (readonly [query: string, address: string])[] = [
  ['docker', '/docs/guides/operating#docker-and-kubernetes'],
  ['kubernetes', '/docs/guides/install#on-kubernetes'],
  ['helm', '/docs/guides/install#on-kubernetes'],
  ['pgbouncer', '/docs/guides/high-availability#put-pgbouncer-in-between'],
  ['patroni', '/docs/guides/high-availability#run-postgresql-with-patroni'],
  ['debian package', '/docs/guides/install#as-a-debian-package'],
  ['compose', '/docs/guides/install#with-compose'],
  ['limit a workspace', '/docs/guides/limits'],
  ['grafana', '/docs/guides/monitor#metrics'],
  ['prometheus', '/docs/guides/monitor#metrics'],
  ['monitor', '/docs/guides/monitor'],
  ['alert', '/docs/guides/monitor#alerts'],
  ['pipedream', '/docs/guides/moving-in'],
  ['moving from pipedream', '/docs/guides/moving-in'],
  ['workflowDomain', '/docs/guides/moving-in#what-differs'],
  ['environment variables of workflows', '/docs/guides/variables'],
  ['.env file', '/docs/guides/variables#move-a-env-file'],
  ['python', '/docs/guides/workflows#python-and-other-languages'],
  ['rate limit', '/docs/how-it-works/quotas#rate-limits'],
  ['schedule', '/docs/guides/sources#on-a-schedule'],
  ['webhooks', '/docs/guides/webhooks'],
  ['verify signature', '/docs/guides/webhooks#verify-what-arrives'],
  ['dead letters', '/docs/how-it-works/deliveries'],
  ['idempotency-key', '/docs/how-it-works/idempotency'],
  ['extract phone number', '/docs/reference/components#formatting-extract-phone-number'],
  ['trim whitespace', '/docs/reference/components#formatting-trim-whitespace'],
  ['http-custom-request', '/docs/reference/components#http-custom-request'],
  ['return http response', '/docs/reference/components#http-return-http-response'],
  ['filter condition', '/docs/reference/components#filter-continue-based-on-condition'],
  ['delay until', '/docs/reference/components#delay-until'],
  ['smtp', '/docs/reference/components#smtp-send-email'],
  ['increment value', '/docs/reference/components#data_stores-increment-value'],
  ['validate json', '/docs/reference/components#json-validate'],
];

describe('the search of the manual', () => {
  let sections: ReturnType<typeof sectionsOf>;

  before(async () => {
    const manual = new Manual({ root: projectRoot, version: '0' });
    const read = async (address: string) => (await manual.find(address))?.plain.toString() ?? '';
    const index = /data-index="([^"]+)"/.exec(await read('/docs'))?.[1] ?? '';
    sections = sectionsOf(JSON.parse(await read(index)));
  });

  for (const [query, address] of expectations) {
    test(`${query}: leads to ${address} first`, () => {
      const found = bestSections(sections, wordsOf(query)).map((section) => section.address);
      assert.equal(found[0], address, found.join('\n'));
    });
  }

  test('ranks a guide above a reference page, and a reference page above texts about the code', () => {
    const page = (address: string) => sectionsOf([[address, 'Sources', [['sources', 'Sources', 'sources']]]]);
    const order = ['/docs/guides/a', '/docs/how-it-works/a', '/docs/reference/a', '/docs/architecture'];
    const found = bestSections([...order].reverse().flatMap(page), ['sources']);
    assert.deepEqual(
      found.map(({ address }) => address),
      order,
    );
  });
});

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type FastifyReply, fastify } from 'fastify';
import { ApiRequests } from '#idempotency/api-requests.ts';
import { KeptAnswers } from '#idempotency/kept-answers.ts';
import type { Caller } from '#identity/permissions.ts';
import { systemClock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import { Vault } from '#vault/vault.ts';
import { makeMembers } from '../../test/support/members.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { sendError } from './error-response.ts';
import { acceptRepeatedRequests } from './repeated-requests.ts';
import type { App } from './route-support.ts';

const user: Caller = { userId: 'u_1', isAdmin: false, keyId: 'key_1' };

describe('a POST with an Idempotency-Key', () => {
  forEachStore((fixture) => {
    /** Sends a POST with the key `k` twice to an operation, as `callers`; answers both and how often it was carried out. */
    async function twice(
      operation: (reply: FastifyReply) => unknown,
      {
        callers = [user, user],
        headers = { 'idempotency-key': 'k' },
      }: { callers?: (Caller | null)[]; headers?: Record<string, string> } = {},
    ) {
      const { store } = fixture;
      const common = { store, clock: systemClock, logger: silentLogger };
      const answers = new KeptAnswers({ ...common, vault: new Vault(Buffer.alloc(32, 1)), waitMs: 1 });
      const apiRequests = new ApiRequests({ ...common, answers, node: 'node_a' });
      const app = fastify() as unknown as App;
      app.decorateRequest('caller', null);
      app.setErrorHandler((error, request, reply) => sendError(error, request, reply, silentLogger));
      app.addHook('onRequest', async (request, reply) => {
        reply.header('x-request-id', request.id);
        request.caller = callers[sent] ?? null;
        sent += 1;
      });
      let sent = 0;
      let done = 0;
      await app.register(async (api: App) => {
        acceptRepeatedRequests(api, { store, apiRequests });
        api.post('/v1/things', async (_request, reply) => {
          done += 1;
          return operation(reply);
        });
      });
      const send = () => app.inject({ method: 'POST', url: '/v1/things', headers });
      const [first, again] = [await send(), await send()];
      await app.close();
      return { first, again, done };
    }
    const codeOf = ({ body }: { body: string }) => JSON.parse(body).code;
    const fails = (error: Error) => () => {
      throw error;
    };

    test('gets the same answer again: status, headers of the operation and bytes', async () => {
      const bytes = Buffer.from([0, 255, 1]);
      const { first, again, done } = await twice((reply) =>
        reply.code(201).headers({ 'content-type': 'image/gif', location: '/v1/things/1' }).send(bytes),
      );
      assert.deepEqual([first.statusCode, again.statusCode, done], [201, 201, 1]);
      assert.deepEqual(again.rawPayload, bytes);
      const { 'x-request-id': firstId, date: _a, ...expected } = first.headers;
      const { 'x-request-id': id, date: _b, 'idempotency-replayed': replayed, ...headers } = again.headers;
      assert.deepEqual(headers, expected);
      assert.equal(replayed, 'true');
      assert.notEqual(id, firstId, 'each request has an id of its own');
    });

    test('may have an answer without a body, and one that is too large to keep', async () => {
      const empty = await twice((reply) => reply.code(204).send());
      assert.deepEqual([empty.again.statusCode, empty.again.body, empty.done], [204, '', 1]);
      await fixture.store.transaction((tx) => tx.deleteFrom('idempotency_keys').execute());
      const large = await twice(() => ({ text: 'x'.repeat(1024 * 1024) }));
      assert.deepEqual([large.first.statusCode, large.done], [200, 1]);
      assert.deepEqual([large.again.statusCode, codeOf(large.again)], [200, 'reply_not_kept']);
    });

    for (const [what, error] of [
      ['refused', new CallerError('conflict', 'it is there')],
      ['not carried out', new UnavailableError('overloaded', 'too much to do')],
    ] as const)
      test(`that is ${what} leaves its key free`, async () => {
        const { first, again, done } = await twice(fails(error));
        assert.deepEqual([codeOf(first), codeOf(again), done], [error.code, error.code, 2]);
      });

    for (const [what, error] of [
      ['fails by a fault of the service', new Error('a defect')],
      ['may have been stored', new UnavailableError('outcome_unknown', 'cut off in the commit')],
    ] as const)
      test(`that ${what} is not carried out again`, async () => {
        const { again, done } = await twice(fails(error));
        assert.deepEqual([again.statusCode, codeOf(again), done], [409, 'outcome_unknown', 1]);
        assert.equal(again.headers['idempotency-replayed'], undefined);
      });

    test('belongs to the user, whatever the key or session, or to the OAuth client of a workspace', async () => {
      const session = { ...user, keyId: 'key_2', sessionId: 'ses_1' };
      assert.equal((await twice(() => ({}), { callers: [user, session] })).done, 1);
      await makeMembers(fixture.store, 'o_1', { u_2: 'member' });
      const token = { userId: 'oac_1', isAdmin: false, keyId: 'tok_1', workspaceId: 'o_1' };
      const member = { ...user, userId: 'u_2' };
      assert.equal((await twice(() => ({}), { callers: [token, member] })).done, 2);
      const owners = await fixture.store.read
        .selectFrom('idempotency_keys')
        .select('owner_id')
        .orderBy('subject_id')
        .execute();
      assert.deepEqual(owners, [{ owner_id: 'o_1' }, { owner_id: 'u_1' }, { owner_id: 'u_2' }]);
    });

    test('is not answered again to who was an admin of the instance', async () => {
      const { again, done } = await twice(() => ({}), { callers: [{ ...user, isAdmin: true }, user] });
      assert.deepEqual([again.statusCode, codeOf(again), done], [403, 'forbidden', 1]);
    });

    test('without a caller is carried out each time, and so is one without the header, which costs nothing', async () => {
      assert.equal((await twice(() => ({}), { callers: [null, null] })).done, 2);
      assert.equal((await twice(() => ({}), { headers: {} })).done, 2);
      const keys = await fixture.store.read.selectFrom('idempotency_keys').select('id').execute();
      assert.deepEqual(keys, []);
    });
  });
});

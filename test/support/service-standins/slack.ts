import type { CertificateAuthority } from '../certificates.ts';
import type { ReceivedRequest } from '../http-receiver.ts';
import { ServiceStandIn } from './stand-in.ts';

/** Slack's Web API: the account itself, one user, two channels on a page each, and posting to one. Refusals are 200 with `ok: false`, as there. */
export function startSlack(authority: CertificateAuthority, token: string): Promise<ServiceStandIn> {
  const form = (request: ReceivedRequest) => new URLSearchParams(request.body.toString());
  const channel = { id: 'C123ABC456', name: 'general', is_channel: true, is_im: false, is_mpim: false };
  return ServiceStandIn.start(authority, {
    host: 'slack.com',
    isAuthorized: (request) => request.headers.authorization === `Bearer ${token}`,
    unauthorized: { body: { ok: false, error: 'invalid_auth' } },
    routes: {
      'POST /api/auth.test': () => ({ body: { ok: true, user: 'ada', user_id: 'U1' } }),
      'POST /api/chat.postMessage': (request) => ({
        body: {
          ok: true,
          channel: form(request).get('channel'),
          ts: '1503435956.000247',
          message: { type: 'message', text: form(request).get('text'), ts: '1503435956.000247' },
        },
      }),
      'POST /api/users.conversations': (request) =>
        form(request).get('cursor') === 'dGVhbTpD'
          ? {
              body: {
                ok: true,
                channels: [{ id: 'C900', name: 'private-talk', is_private: true }],
                response_metadata: { next_cursor: '' },
              },
            }
          : { body: { ok: true, channels: [channel], response_metadata: { next_cursor: 'dGVhbTpD' } } },
      'POST /api/users.info': () => ({ body: { ok: true, user: { id: 'U1', name: 'ada' } } }),
      'POST /api/conversations.info': (request) =>
        form(request).get('channel') === channel.id
          ? { body: { ok: true, channel } }
          : { body: { ok: false, error: 'channel_not_found' } },
    },
  });
}

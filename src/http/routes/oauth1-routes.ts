import type { OAuth1Signer } from '#accounts/oauth1-signer.ts';
import type { App } from '#http/route-support.ts';

/** A request to sign, its form included. */
const bodyBytesMax = 64 * 1024;

export interface OAuth1RouteOptions {
  oauth1Signer: Pick<OAuth1Signer, 'sign'>;
}

/** The signing service that components ask: the secret is in the path, and the token of the account in the body. */
export function oauth1Routes(app: App, { oauth1Signer }: OAuth1RouteOptions): void {
  app.post(
    '/oauth1/sign/:capability',
    {
      bodyLimit: bodyBytesMax,
      // No operation of the API: these URIs are not made by hand.
      schema: { hide: true },
    },
    async (request, reply) => {
      const { capability } = request.params as { capability: string };
      const header = await oauth1Signer.sign(capability, request.body);
      return reply.type('text/plain; charset=utf-8').send(header);
    },
  );
}

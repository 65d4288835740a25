import type { Step } from '../../step.ts';
import { type RequestAction, requestProps, runRequest } from '../run-request.ts';

export default {
  key: 'http-custom-request',
  name: 'Send any HTTP request',
  version: '0.0.1',
  description:
    'Sends an HTTP request with any method, headers, body and authentication, and returns the body of the response. Example: `POST https://example.com/orders` with a JSON body and a bearer token',
  type: 'action',
  props: requestProps('GET'),
  async run(this: RequestAction, { $ }: { $: Step }) {
    return runRequest(this, $);
  },
};

import type { Step } from '../../step.ts';
import { type RequestAction, requestProps, runRequest } from '../run-request.ts';

export default {
  key: 'http-post-request',
  name: 'Send a POST request',
  version: '0.0.1',
  description:
    'Sends an HTTP POST request with a body and returns the body of the response. Example: send `{"name": "Ada"}` to `https://example.com/customers` to create a customer',
  type: 'action',
  props: requestProps('POST'),
  async run(this: RequestAction, { $ }: { $: Step }) {
    return runRequest(this, $);
  },
};

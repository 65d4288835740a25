import type { Step } from '../../step.ts';
import { type RequestAction, requestProps, runRequest } from '../run-request.ts';

export default {
  key: 'http-put-request',
  name: 'Send a PUT request',
  version: '0.0.1',
  description:
    'Sends an HTTP PUT request with a body and returns the body of the response. Example: send `{"name": "Ada"}` to `https://example.com/customers/7` to replace the customer',
  type: 'action',
  props: requestProps('PUT'),
  async run(this: RequestAction, { $ }: { $: Step }) {
    return runRequest(this, $);
  },
};

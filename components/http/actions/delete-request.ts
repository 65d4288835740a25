import type { Step } from '../../step.ts';
import { type RequestAction, requestProps, runRequest } from '../run-request.ts';

export default {
  key: 'http-delete-request',
  name: 'Send a DELETE request',
  version: '0.0.1',
  description:
    'Sends an HTTP DELETE request and returns the body of the response. Example: `https://example.com/customers/7` deletes the customer',
  type: 'action',
  props: requestProps('DELETE'),
  async run(this: RequestAction, { $ }: { $: Step }) {
    return runRequest(this, $);
  },
};

import type { Step } from '../../step.ts';
import { type RequestAction, requestProps, runRequest } from '../run-request.ts';

export default {
  key: 'http-get-request',
  name: 'Send a GET request',
  version: '0.0.1',
  description:
    'Sends an HTTP GET request and returns the body of the response. Example: `https://example.com/orders?status=open` returns the list that the server sends as JSON',
  type: 'action',
  props: requestProps('GET'),
  async run(this: RequestAction, { $ }: { $: Step }) {
    return runRequest(this, $);
  },
};

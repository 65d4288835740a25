import { ConfigurationError, shown } from '../../configuration-error.ts';
import type { Step } from '../../step.ts';

/** `this` of the action. */
interface ResponseAction {
  resStatusCode?: number;
  resHeaders?: object;
  resBody?: unknown;
}

export default {
  key: 'http-return-http-response',
  name: 'Respond to the HTTP request',
  version: '0.0.1',
  description:
    'Returns an HTTP response to the request that started the workflow. The HTTP trigger needs a custom response, and a delay before this step answers the caller without it. Example: status 200 and the body `{"photos": "{{steps.get_photos.$return_value}}"}`',
  type: 'action',
  props: {
    resStatusCode: {
      type: 'integer',
      label: 'Status code',
      description: 'From 200 to 599, such as 200 (OK), 400 (Bad Request) or 404 (Not Found)',
      min: 200,
      max: 599,
      default: 200,
    },
    resHeaders: {
      type: 'object',
      label: 'Headers',
      description: 'Names and values, such as `{"Content-Type": "application/xml"}`',
      optional: true,
    },
    resBody: {
      type: 'any',
      label: 'Body',
      description: 'Text is sent as it is; anything else is sent as JSON',
      optional: true,
    },
  },
  async run(this: ResponseAction, { $ }: { $: Step }) {
    const { resStatusCode = 200, resHeaders: headers = {}, resBody: body } = this;
    const status = Number(resStatusCode);
    if (!Number.isInteger(status) || status < 200 || status > 599)
      throw new ConfigurationError(
        `resStatusCode: found ${shown(resStatusCode)}, expected an integer from 200 to 599`,
      );
    await $.respond({ status, headers, ...(body === undefined ? {} : { body }) });
    $.export('$summary', `Response with status ${status}, if the caller still waits`);
    return { status, headers, body: body ?? null };
  },
};

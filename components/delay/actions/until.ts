import type { Step } from '../../step.ts';
import { msUntil } from '../delay-duration.ts';

export default {
  key: 'delay-until',
  name: 'Wait until a time',
  version: '0.0.1',
  description:
    'Waits until a date and time, at most a year ahead, before the next step. A time that has passed does not wait. A caller who waits for a response is answered before. Example: `2027-01-31T09:00:00` in `Europe/Berlin`',
  type: 'action',
  props: {
    until: {
      type: 'string',
      label: 'Time',
      description:
        'A date and time such as `2027-01-31T09:00:00Z` or `2027-01-31T09:00:00`, or milliseconds since 1970, such as `{{steps.trigger.event.body.due_at}}`',
    },
    timezone: {
      type: 'string',
      label: 'Time zone',
      description: 'The time zone of a time without an offset, such as `Europe/Berlin`',
      default: 'UTC',
      optional: true,
    },
  },
  async run(this: { until: unknown; timezone?: string }, { $ }: { $: Step }) {
    const ms = msUntil(this.until, this.timezone ?? 'UTC', Date.now());
    if (ms < 1) {
      $.export('$summary', `Did not wait: ${this.until} has passed`);
      return null;
    }
    const urls = $.flow.delay(ms);
    $.export('$summary', `Waits until ${new Date(Date.now() + ms).toISOString()}`);
    return urls;
  },
};

import { describeTick, type TimerEvent } from '../schedule.app.ts';

/** `this` of the source. */
interface Source {
  $emit(event: TimerEvent, metadata: { summary: string; ts: number }): void;
}

export default {
  key: 'schedule-cron-schedule',
  name: 'Cron Schedule',
  version: '1.0.0',
  description: 'Emits an event on a cron schedule',
  type: 'source',
  props: {
    cron: {
      type: '$.interface.timer',
      label: 'Schedule',
      description:
        'When to emit: `{ "cron": "0 9 * * 1-5", "timezone": "Europe/Berlin" }`; without a time zone it is UTC',
      default: { cron: '0 0 * * *' },
    },
  },
  async run(this: Source, event?: TimerEvent) {
    // A run by hand brings no event.
    const tick = event?.timestamp === undefined ? { timestamp: Math.floor(Date.now() / 1000) } : event;
    this.$emit(tick, describeTick(tick));
  },
};

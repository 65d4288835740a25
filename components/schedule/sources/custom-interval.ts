import { describeTick, type TimerEvent } from '../schedule.app.ts';

/** `this` of the source. */
interface Source {
  $emit(event: TimerEvent, metadata: { summary: string; ts: number }): void;
}

export default {
  key: 'schedule-custom-interval',
  name: 'Custom Interval',
  version: '1.0.0',
  description: 'Emits an event at a fixed interval',
  type: 'source',
  props: {
    cron: {
      type: '$.interface.timer',
      label: 'Interval',
      description: 'How long to wait from one event to the next: `{ "intervalSeconds": 900 }`, at least 15',
      default: { intervalSeconds: 900 },
    },
  },
  async run(this: Source, event?: TimerEvent) {
    // A run by hand brings no event.
    const tick = event?.timestamp === undefined ? { timestamp: Math.floor(Date.now() / 1000) } : event;
    this.$emit(tick, describeTick(tick));
  },
};

/** What the sources of this app have in common. Time needs no account. */
export default {
  type: 'app',
  app: 'schedule',
};

/** What `run` of a source with a timer is given. */
export interface TimerEvent {
  /** Epoch seconds. */
  timestamp: number;
  interval_seconds?: number;
  cron?: string;
}

/** Text and time of a tick. */
export function describeTick(event: TimerEvent): { summary: string; ts: number } {
  const ts = event.timestamp * 1000;
  return { summary: new Date(ts).toISOString(), ts };
}

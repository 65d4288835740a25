import { useEffect, useState } from 'react';
import { formatAgo } from './format.ts';

/** A time as its distance from now, which is updated while it is shown. The time itself is in the title. */
export function Ago({ ms }: { ms: number }) {
  const now = useNow(5_000);
  return (
    <time dateTime={new Date(ms).toISOString()} title={new Date(ms).toLocaleString()}>
      {formatAgo(ms, now)}
    </time>
  );
}

/** The current time in epoch ms, updated every `everyMs`. */
export function useNow(everyMs: number): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

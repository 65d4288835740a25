import type { Source } from '#sdk';
import { Command } from './copy.tsx';
import { shortened, visible } from './plain-text.ts';

/** What a prop for events of an app has as its value. */
interface AppEventsValue {
  app: string;
  /** Without a name it gets no event; `*` is any text. */
  event_names: string[];
}

const namesShown = 5;

/** What the source waits for, where a prop of it receives events of an app: nothing sends them by itself. */
export function AppEvents({ source }: { source: Source }) {
  const [value] = Object.values(source.configured_props).filter(isAppEvents);
  if (value === undefined) return null;
  const names = value.event_names;
  // What is shown is a request that reaches the source.
  const eventName = names[0]?.replaceAll('*', 'any');
  const body = JSON.stringify({
    app: value.app,
    event_name: eventName,
    payload: { hello: 'world' },
    ...(source.owner_id.startsWith('o_') ? { org_id: source.owner_id } : {}),
  });
  return (
    <section className="card endpoint" aria-label="App events">
      <div>
        <h2>App events</h2>
        <p className="muted">
          It waits for{' '}
          {names.length === 0 || names.includes('*') ? (
            names.length === 0 ? (
              'no events'
            ) : (
              'all events'
            )
          ) : (
            <code className="break">{visible(shortened(names.slice(0, namesShown).join(', '), 300))}</code>
          )}
          {names.length > namesShown && ` and ${names.length - namesShown} more`} of{' '}
          <bdi>{visible(shortened(value.app, 100))}</bdi>. The app does not send them here by itself: a
          program of yours receives and pushes them.{' '}
          <a href="/docs/how-it-works/apphooks">How to forward the events of an app</a>
        </p>
      </div>
      {eventName !== undefined && (
        <Command
          text={`curl -X POST ${window.location.origin}/v1/apphooks -H "Authorization: Bearer $MILLRACE_API_KEY" -H 'content-type: application/json' -d '${body.replaceAll("'", "'\\''")}'`}
        />
      )}
    </section>
  );
}

function isAppEvents(value: unknown): value is AppEventsValue {
  if (typeof value !== 'object' || value === null || !('event_names' in value) || !('app' in value))
    return false;
  return typeof value.app === 'string' && Array.isArray(value.event_names);
}

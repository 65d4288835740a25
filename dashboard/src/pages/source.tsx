import { Tabs } from '@base-ui/react/tabs';
import { Link, useLocation, useSearch } from 'wouter';
import { useComponent, useMayWrite, useSource } from '~/api/queries.ts';
import type { Source } from '~/api/types.ts';
import { Ago } from '~/parts/ago.tsx';
import { Command, CopyButton } from '~/parts/copy.tsx';
import { Loading, PageFrame } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { SourceEvents } from './source-events.tsx';
import { SourceLogs } from './source-logs.tsx';
import { SourceSettings } from './source-settings.tsx';

const tabs = [
  { id: 'events', name: 'Events' },
  { id: 'logs', name: 'Logs and errors' },
  { id: 'settings', name: 'Settings' },
] as const;

export function SourcePage({ id }: { id: string }) {
  const source = useSource(id);
  if (source.data === undefined) {
    return (
      <PageFrame title={`Source ${id}`}>
        {source.error === null ? (
          <Loading />
        ) : (
          <>
            <Problem error={source.error} onRetry={() => void source.refetch()} />
            <p>
              <Link href="/sources">All sources</Link>
            </p>
          </>
        )}
      </PageFrame>
    );
  }
  return (
    <>
      {source.error !== null && <Problem error={source.error} what="This may not be up to date." />}
      <Details source={source.data} />
    </>
  );
}

function Details({ source }: { source: Source }) {
  const [, navigate] = useLocation();
  const asked = new URLSearchParams(useSearch()).get('tab');
  const tab = tabs.find(({ id }) => id === asked)?.id ?? 'events';
  const component = useComponent(source.component_id);
  const mayWrite = useMayWrite(source.owner_id) === true;
  const endpoint = endpointOf(source);
  return (
    <PageFrame
      title={source.name}
      lead={
        <p className="muted facts">
          <span className={source.active ? 'state good' : 'state off'}>
            {source.active ? 'Active' : 'Inactive'}
          </span>
          <span className="with-copy">
            <code>{source.id}</code>
            <CopyButton text={source.id} label="Copy the id" />
          </span>
          {component.data !== undefined && (
            <span>
              <bdi>{visible(shortened(component.data.key ?? component.data.name, 100))}</bdi>{' '}
              {visible(shortened(component.data.version, 40))}
            </span>
          )}
          <span>
            changed <Ago ms={source.updated_at * 1000} />
          </span>
        </p>
      }
    >
      {endpoint !== undefined && (
        <section className="card endpoint" aria-label="Endpoint">
          <div>
            <h2>Its address</h2>
            <p className="muted">Each request to it runs this source. Send one from a terminal:</p>
          </div>
          <Command
            text={`curl -X POST ${endpoint} -H 'content-type: application/json' -d '{"hello": "world"}'`}
          />
          <p className="with-copy">
            <code className="break">{endpoint}</code>
            <CopyButton text={endpoint} label="Copy the address" />
          </p>
        </section>
      )}
      <Tabs.Root
        value={tab}
        onValueChange={(next) => navigate(`/sources/${source.id}?tab=${String(next)}`, { replace: true })}
      >
        <Tabs.List className="tabs">
          {tabs.map(({ id, name }) => (
            <Tabs.Tab key={id} value={id} className="tab">
              {name}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="events" className="panel">
          <SourceEvents source={source} />
        </Tabs.Panel>
        <Tabs.Panel value="logs" className="panel">
          <SourceLogs sourceId={source.id} code={component.data?.code} />
        </Tabs.Panel>
        <Tabs.Panel value="settings" className="panel">
          <SourceSettings
            source={source}
            definitions={component.data?.configurable_props}
            mayWrite={mayWrite}
          />
        </Tabs.Panel>
      </Tabs.Root>
    </PageFrame>
  );
}

/** Of the first prop that has one, whatever it is called. */
function endpointOf(source: Source): string | undefined {
  for (const value of Object.values(source.configured_props)) {
    if (typeof value !== 'object' || value === null || !('endpoint_url' in value)) continue;
    if (typeof value.endpoint_url === 'string') return value.endpoint_url;
  }
  return undefined;
}

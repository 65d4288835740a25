import type { Source } from '#sdk';
import { useComponent, useSource } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { useTimers } from '~/api/source-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { AppEvents } from '~/parts/app-events.tsx';
import { Command, CopyButton } from '~/parts/copy.tsx';
import { HealthBadge, HealthNote } from '~/parts/health.tsx';
import { LoadedPage } from '~/parts/loaded-page.tsx';
import { MapLink } from '~/parts/map-link.tsx';
import { MissingAccounts } from '~/parts/missing-accounts.tsx';
import { PageFrame } from '~/parts/page.tsx';
import { PageTabs } from '~/parts/page-tabs.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { RunsNow } from '~/parts/runs-now.tsx';
import { SourceCode } from './source-code.tsx';
import { SourceEvents } from './source-events.tsx';
import { SourceLogs } from './source-logs.tsx';
import { SourceReplay } from './source-replay.tsx';
import { SourceSettings } from './source-settings.tsx';
import { SourceTimers } from './source-timers.tsx';

export function SourcePage({ id }: { id: string }) {
  const source = useSource(id);
  return (
    <LoadedPage query={source} title={`Source ${id}`} list={{ href: '/sources', name: 'All sources' }}>
      {(data) => <Details source={data} />}
    </LoadedPage>
  );
}

function Details({ source }: { source: Source }) {
  const component = useComponent(source.component_id);
  const mayWrite = useMayWrite(source.owner_id) === true;
  const endpoint = endpointOf(source);
  // A timer may also come from additionalProps, which the component's own list does not have.
  const hasTimerProp =
    component.data?.configurable_props.some(({ type }) => type === '$.interface.timer') === true;
  const timers = useTimers(source.id, !hasTimerProp);
  const hasTimers = hasTimerProp || (timers.data?.length ?? 0) > 0;
  return (
    <PageFrame
      title={source.name}
      actions={<MapLink id={source.id} ownerId={source.owner_id} />}
      lead={
        <p className="muted facts">
          <HealthBadge health={source.health} />
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
      <RunsNow source={source} />
      <HealthNote kind="source" id={source.id} health={source.health} />
      {component.data !== undefined && (
        <MissingAccounts source={source} definitions={component.data.configurable_props} />
      )}
      <AppEvents source={source} />
      {endpoint !== undefined && (
        <section className="card endpoint" aria-label="Endpoint">
          <div>
            <h2>Endpoint URL</h2>
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
      <PageTabs
        href={`/sources/${source.id}`}
        tabs={[
          { id: 'events', name: 'Events', content: <SourceEvents source={source} mayWrite={mayWrite} /> },
          {
            id: 'logs',
            name: 'Logs and errors',
            content: <SourceLogs sourceId={source.id} code={component.data?.code} />,
          },
          { id: 'code', name: 'Code and props', content: <SourceCode source={source} mayWrite={mayWrite} /> },
          ...(hasTimers ? [{ id: 'timers', name: 'Timers', content: <SourceTimers source={source} /> }] : []),
          {
            id: 'replay',
            name: 'Replay',
            content: <SourceReplay source={source} mayWrite={mayWrite} />,
          },
          {
            id: 'settings',
            name: 'Settings',
            content: (
              <SourceSettings
                source={source}
                definitions={component.data?.configurable_props}
                mayWrite={mayWrite}
              />
            ),
          },
        ]}
      />
    </PageFrame>
  );
}

/** The endpoint of the first prop that has one, whatever its name. */
function endpointOf(source: Source): string | undefined {
  for (const value of Object.values(source.configured_props)) {
    if (typeof value !== 'object' || value === null || !('endpoint_url' in value)) continue;
    if (typeof value.endpoint_url === 'string') return value.endpoint_url;
  }
  return undefined;
}

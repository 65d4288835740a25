import type { ReactNode } from 'react';
import { Link } from 'wouter';
import type { Instance } from '#sdk';
import { Ago } from '~/parts/ago.tsx';
import { Figure } from '~/parts/figure.tsx';
import { formatBytes, formatDuration, formatNumber } from '~/parts/format.ts';
import { HealthBadge, HealthReason } from '~/parts/health.tsx';
import { visible } from '~/parts/plain-text.ts';
import { SandboxLevel } from '~/parts/sandbox-level.tsx';

/** Seconds that its clock and that of this browser may be apart. */
const clockDifferenceMax = 30;
/** Below this share of the disk, or this many bytes, there is something to do. */
const freeMin = { share: 0.05, bytes: 1024 ** 3 };

const stores = { sqlite: 'SQLite, in the data folder', postgres: 'PostgreSQL' } as const;

export function InstanceRunning({ instance }: { instance: Instance }) {
  const { disk, jobs, sandbox } = instance;
  const waiting = jobs.reduce((sum, { state, count }) => (state === 'queued' ? sum + count : sum), 0);
  const difference = Math.abs(instance.now - Date.now() / 1000);
  const egress = instance.settings.find(({ env }) => env === 'MILLRACE_EGRESS')?.value ?? '';
  return (
    <>
      <section className="card" aria-label="At work">
        <dl className="figures">
          <Figure name="Runs under way" value={formatNumber(instance.jobs_running)}>
            in this process
          </Figure>
          <Figure name="Jobs that wait" value={formatNumber(waiting)}>
            due now or later, of all owners
          </Figure>
          <Figure name="Deliveries being sent" value={formatNumber(instance.deliveries_sending)}>
            by this process
          </Figure>
          <Figure name="Open streams" value={formatNumber(instance.streams_open)}>
            of browsers and programs
          </Figure>
          <Figure
            name={<Link href="/instance?tab=processes">Processes of user code</Link>}
            value={formatNumber(instance.user_processes)}
          >
            kept for their next call
          </Figure>
          <Figure name="Memory" value={formatBytes(instance.memory_bytes)}>
            of the service itself
          </Figure>
        </dl>
      </section>
      <div className="columns">
        <section className="card" aria-labelledby="what-runs">
          <h2 id="what-runs">What runs</h2>
          <dl className="props">
            <Fact name="Millrace">{visible(instance.version)}</Fact>
            <Fact name="Since">
              <Ago ms={instance.started_at * 1000} /> ({new Date(instance.started_at * 1000).toLocaleString()}
              )
            </Fact>
            <Fact name="Node">
              {visible(instance.node_version)} on {visible(instance.platform)}
            </Fact>
            <Fact name="Address">
              <code className="break">{visible(instance.address)}</code>
            </Fact>
            <Fact name="This process">
              <code>{instance.node}</code>
            </Fact>
            <Fact name="Its clock">
              {difference > clockDifferenceMax ? (
                <strong>{formatDuration(difference * 1000)} apart from that of this browser</strong>
              ) : (
                'as that of this browser'
              )}
            </Fact>
            {instance.clock !== null && (
              <Fact name="Clock of its machine">
                <MachineClock clock={instance.clock} />
              </Fact>
            )}
          </dl>
        </section>
        <section className="card" aria-labelledby="infrastructure">
          <h2 id="infrastructure">Infrastructure</h2>
          <dl className="props">
            <Fact name="Store">{stores[instance.store]}</Fact>
            <Fact name="Content of files">
              <Files bucket={instance.file_bucket} />
            </Fact>
            <Fact name="Disk of the data folder">
              {disk === null ? 'The system does not say how full it is.' : <Disk disk={disk} />}
            </Fact>
            <Fact name="Sandbox">
              <SandboxLevel level={sandbox} />
              {instance.sandbox_reason === null ? null : (
                <div>No kernel level: {visible(instance.sandbox_reason)}</div>
              )}
              <div className="muted">
                {instance.cgroups_reason === null
                  ? 'Each process has a cgroup.'
                  : `cgroups: not delegated (${visible(instance.cgroups_reason)})`}
              </div>
            </Fact>
            <Fact name="Single sign-on">
              <SingleSignOn provider={instance.single_sign_on} />
            </Fact>
            {instance.egress_proxy !== null && (
              <Fact name="Outbound proxy">
                <StateOf found={instance.egress_proxy} name={instance.egress_proxy.proxy} />
              </Fact>
            )}
            <Fact name="User code may connect to">
              <code className="break">{visible(egress)}</code>
            </Fact>
            <Fact name="Components of all owners">
              <Link href="/registry?tab=packages">Packages of the registry</Link>
            </Fact>
          </dl>
        </section>
      </div>
      <Nodes instance={instance} />
      {jobs.length > 0 && (
        <section className="card" aria-labelledby="jobs">
          <h2 id="jobs">Jobs in the store</h2>
          <div className="table-scroll">
            <table className="table">
              <thead>
                <tr>
                  <th scope="col">What for</th>
                  <th scope="col">State</th>
                  <th scope="col">How many</th>
                </tr>
              </thead>
              <tbody>
                {jobs.map(({ kind, state, count }) => (
                  <tr key={`${kind} ${state}`}>
                    <th scope="row">{visible(kind.replaceAll('_', ' '))}</th>
                    <td>{visible(state)}</td>
                    <td>{formatNumber(count)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
    </>
  );
}

const stateWords = {
  unchecked: { look: 'state', word: 'Not checked yet' },
  ok: { look: 'state good', word: 'Healthy' },
  failing: { look: 'state bad', word: 'Failing' },
} as const;

function Files({ bucket }: { bucket: Instance['file_bucket'] }) {
  if (bucket === null) return <>in the store</>;
  return (
    <StateOf
      found={bucket}
      name={bucket.bucket === '' ? 'bucket without a name' : `bucket ${bucket.bucket}`}
    />
  );
}

/** The state of something outside, since when, and why it fails. */
function StateOf({
  found,
  name,
}: {
  found: { state: keyof typeof stateWords; since: number | null; reason: string | null };
  name: string;
}) {
  const { look, word } = stateWords[found.state];
  return (
    <>
      <span className={look}>{word}</span> <code className="break">{visible(name)}</code>
      {found.since !== null && (
        <>
          , since <Ago ms={found.since * 1000} />
        </>
      )}
      {found.reason !== null && <p className="break">{visible(found.reason)}</p>}
    </>
  );
}

const providerWords = {
  unchecked: { look: 'state', word: 'Not checked yet' },
  reachable: { look: 'state good', word: 'Healthy' },
  unreachable: { look: 'state bad', word: 'Failing' },
} as const;

function SingleSignOn({ provider }: { provider: Instance['single_sign_on'] }) {
  if (provider === null) return <a href="/docs/guides/single-sign-on">not set up</a>;
  const { look, word } = providerWords[provider.state];
  return (
    <>
      <span className={look}>{word}</span> {visible(provider.name)},{' '}
      <code className="break">{visible(provider.issuer)}</code>
      {provider.checked_at !== null && (
        <>
          , checked <Ago ms={provider.checked_at * 1000} />
        </>
      )}
      {provider.problem !== null && <p className="break">{visible(provider.problem)}</p>}
      <p className="muted">
        Redirect URI: <code className="break">{visible(provider.redirect_uri)}</code>
      </p>
    </>
  );
}

function Nodes({ instance: { nodes, node } }: { instance: Instance }) {
  return (
    <section className="card" aria-labelledby="nodes">
      <h2 id="nodes">Nodes</h2>
      <div className="table-scroll">
        <table className="table">
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Health</th>
              <th scope="col">Running since</th>
              <th scope="col">Last heartbeat</th>
              <th scope="col">Clock</th>
            </tr>
          </thead>
          <tbody>
            {nodes.map(({ id, health, advice, started_at, heartbeat_at, clock }) => (
              <tr key={id}>
                <th scope="row">
                  <code>{id}</code>
                  {id === node && ' (this process)'}
                </th>
                <td>
                  <HealthBadge health={health} />
                  {health.state !== 'healthy' && (
                    <p>
                      <HealthReason health={health} />
                    </p>
                  )}
                  {advice !== null && <p className="muted">{advice}</p>}
                </td>
                <td>
                  <Ago ms={started_at * 1000} />
                </td>
                <td>
                  <Ago ms={heartbeat_at * 1000} />
                </td>
                <td>
                  {clock === null
                    ? 'no other to compare with'
                    : `${clock.state}, ${formatNumber(clock.offset_ms)} ms off`}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

const clockTones = { synchronized: 'state good', corrected: 'state busy', unreliable: 'state bad' } as const;

function MachineClock({ clock }: { clock: NonNullable<Instance['clock']> }) {
  const { state, offset_ms: offset } = clock;
  const difference = `${formatDuration(Math.abs(offset))} ${offset < 0 ? 'behind' : 'ahead of'} the clock of the database`;
  return (
    <>
      <span className={clockTones[state]}>{state}</span>{' '}
      {state === 'synchronized' && 'It agrees with the clock of the database.'}
      {state === 'corrected' && `It is ${difference}, which this process uses instead. Synchronize it.`}
      {state === 'unreliable' &&
        `It is ${difference}. No timer fires on this node until it is synchronized; everything else uses the clock of the database.`}
    </>
  );
}

function Disk({ disk }: { disk: NonNullable<Instance['disk']> }) {
  const { folder, free_bytes: free, total_bytes: total } = disk;
  const isLow = free < freeMin.bytes || free < total * freeMin.share;
  return (
    <>
      <span className={isLow ? 'low-disk' : undefined}>
        {formatBytes(free)} of {formatBytes(total)} free
        {isLow && ': when it is full, nothing more is accepted'}
      </span>
      <meter
        aria-label="Disk"
        min={0}
        max={1}
        low={0.8}
        high={0.95}
        optimum={0}
        value={total === 0 ? 1 : 1 - free / total}
      />
      <code className="break muted">{visible(folder)}</code>
    </>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="break">{children}</dd>
    </div>
  );
}

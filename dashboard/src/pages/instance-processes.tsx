import { Link } from 'wouter';
import type { Processes } from '#sdk';
import { useMayWrite } from '~/api/rights.ts';
import { useProcesses } from '~/api/workspace-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { End } from '~/parts/delivery-detail.tsx';
import { Figure } from '~/parts/figure.tsx';
import { formatBytes, formatNumber } from '~/parts/format.ts';
import { OwnerLabel } from '~/parts/owner-label.tsx';
import { Loading } from '~/parts/page.tsx';
import { oneLine, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { ReadMore } from '~/parts/read-more.tsx';
import { SandboxLevel } from '~/parts/sandbox-level.tsx';

type Process = Processes['processes'][number];
type SetApartDeployment = Processes['set_apart'][number];
/** The source or workflow of a deployment, by the id of the deployment. */
type Deployments = ReadonlyMap<string, Processes['deployments'][number]>;

/** Cores from which the use of a process is shown. */
const cpuShownFrom = 0.05;

/** Deployments of a process that have room in its row. */
const idsShown = 3;

const states: Readonly<Record<Process['state'], { name: string; look: string; text?: string }>> = {
  idle: { name: 'Idle', look: 'off' },
  busy: { name: 'Busy', look: 'busy' },
  background: {
    name: 'Background',
    look: 'warn',
    text: 'No call is in it, and code that its calls left behind uses the processor.',
  },
  blocked: {
    name: 'Blocked',
    look: 'bad',
    text: 'Its code keeps it from answering: that of the first deployment, most likely.',
  },
  leaving: { name: 'Leaving', look: 'warn', text: 'It takes no new calls and ends after those in it.' },
};

/** Where user code runs on the node that answers, what each owner has of it, and which deployments run apart. */
export function InstanceProcesses() {
  const processes = useProcesses();
  const retry = () => void processes.refetch();
  if (processes.data === undefined)
    return processes.error === null ? <Loading /> : <Problem error={processes.error} onRetry={retry} />;
  const { data } = processes;
  const deployments: Deployments = new Map(data.deployments.map((one) => [one.id, one]));
  return (
    <>
      {processes.error !== null && <Problem error={processes.error} what="This may not be up to date." />}
      <section className="card" aria-label="Summary">
        <dl className="figures">
          <Figure name="Processes" value={formatNumber(data.processes.length)}>
            of at most {formatNumber(data.processes_max)}; {formatNumber(data.ready)} more are ready for code
          </Figure>
          <Figure
            name="Calls under way"
            value={formatNumber(data.processes.reduce((sum, { calls }) => sum + calls, 0))}
          >
            in these processes
          </Figure>
          <Figure name="Private memory" value={formatBytes(data.memory_bytes)}>
            of {formatBytes(data.memory_bytes_max)} for user code
          </Figure>
          <Figure
            name="Set apart"
            value={formatNumber(data.set_apart_count)}
            isBad={data.set_apart_count > 0}
          >
            {data.set_apart_count === 1 ? 'deployment' : 'deployments'}
          </Figure>
        </dl>
        <p>
          <SandboxLevel level={data.sandbox} />
        </p>
        <p className="muted">
          On the node <code>{visible(data.node)}</code>. With several nodes, each shows its own processes.
        </p>
      </section>
      <ProcessTable processes={data.processes} deployments={deployments} />
      <SetApart setApart={data.set_apart} count={data.set_apart_count} deployments={deployments} />
      <Shares owners={data.owners} />
      <ReadMore page="how-it-works/processes">Processes of user code</ReadMore>
    </>
  );
}

function ProcessTable({
  processes,
  deployments,
}: {
  processes: readonly Process[];
  deployments: Deployments;
}) {
  return (
    <section className="card" aria-labelledby="processes">
      <h2 id="processes">Processes</h2>
      {processes.length === 0 ? (
        <p className="muted">
          No process has user code. One starts with the next run of a source, workflow or action, and ends
          after ten minutes without a call.
        </p>
      ) : (
        <div className="table-scroll">
          <table className="table stacked" aria-labelledby="processes">
            <thead>
              <tr>
                <th scope="col">Owner</th>
                <th scope="col">State</th>
                <th scope="col">Deployments</th>
                <th scope="col">Calls</th>
                <th scope="col">Resident memory</th>
                <th scope="col">Process</th>
                <th scope="col">Started</th>
              </tr>
            </thead>
            <tbody>
              {processes.toSorted(inOrder).map((process, index) => (
                <tr key={process.pid ?? `starting ${index}`}>
                  <th scope="row">
                    <Owner of={process} />
                  </th>
                  <td data-name="State">
                    <State state={process.state} />
                    <CpuUse of={process} />
                  </td>
                  <td data-name="Deployments" className="long">
                    <DeploymentsOf process={process} deployments={deployments} />
                    <TrustDomain of={process} />
                    <LastBlame of={process} deployments={deployments} />
                  </td>
                  <td data-name="Calls">{formatNumber(process.calls)}</td>
                  <td data-name="Resident memory" className="short">
                    {process.memory_bytes === null ? 'unknown' : formatBytes(process.memory_bytes)}
                  </td>
                  <td data-name="Process" className="short">
                    {process.shared ? 'Shared' : 'Own'}{' '}
                    {process.pid !== null && <span className="muted">pid {process.pid}</span>}
                  </td>
                  <td data-name="Started" className="short">
                    <Ago ms={process.started_at * 1000} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** The processor time of a process that uses some, or has the lower priority. */
function CpuUse({ of: { cpu_cores: cores, priority } }: { of: Process }) {
  // A node of the version before says neither.
  if (priority !== 'low' && !(cores > cpuShownFrom)) return null;
  const isOne = formatNumber(cores) === '1';
  return (
    <p className="hint">
      {formatNumber(cores)} {isOne ? 'core' : 'cores'}
      {priority === 'low' && ', low priority: its owner uses more than its share'}
    </p>
  );
}

/** States that need attention are explained below their word. */
function State({ state }: { state: Process['state'] }) {
  const { name, look, text } = states[state];
  return (
    <>
      <span className={`state ${look}`}>{name}</span>
      {text !== undefined && <p className="hint">{text}</p>}
    </>
  );
}

/** The users whose accounts its code uses, beside its owner: only deployments with the same ones share it. */
function TrustDomain({ of: { trust_domain, trust_domain_names } }: { of: Process }) {
  // A node of the version before, during an upgrade, answers without names.
  const [, ...others] = trust_domain.map((id, index) => trust_domain_names?.[index] ?? id);
  if (others.length === 0) return null;
  return <p className="hint">With accounts of {others.map(visible).join(', ')}</p>;
}

/** The deployment of its trust domain that ended a shared process last. */
function LastBlame({ of: { last_blame: blame }, deployments }: { of: Process; deployments: Deployments }) {
  if (blame === null) return null;
  return (
    <p className="hint">
      Last blamed: <Deployment id={blame.deployment_id} deployments={deployments} />,{' '}
      <Ago ms={blame.at * 1000} />: <bdi>{oneLine(blame.reason, 300)}</bdi>
    </p>
  );
}

/** Blocked ones first. The others stay where they are while their states change. */
function inOrder(a: Process, b: Process): number {
  return (
    Number(b.state === 'blocked') - Number(a.state === 'blocked') ||
    ownerText(a).localeCompare(ownerText(b)) ||
    a.started_at - b.started_at ||
    (a.pid ?? 0) - (b.pid ?? 0)
  );
}

function ownerText({ owner_id, owner_name }: Pick<Process, 'owner_id' | 'owner_name'>): string {
  return owner_name ?? owner_id;
}

function Owner({ of: { owner_id, owner_name } }: { of: Pick<Process, 'owner_id' | 'owner_name'> }) {
  return <OwnerLabel id={owner_id} ownerId={undefined} name={owner_name} />;
}

function DeploymentsOf({
  process: { purpose, deployment_count: count, deployment_ids: ids },
  deployments,
}: {
  process: Process;
  deployments: Deployments;
}) {
  if (purpose === 'evaluation') return <span className="muted">code that is being deployed</span>;
  const shown = ids.slice(0, idsShown);
  if (shown.length === 0) return <span className="muted">none at the moment</span>;
  return (
    <>
      {shown.map((id, index) => (
        <span key={id}>
          {index > 0 && ', '}
          <Deployment id={id} deployments={deployments} />
        </span>
      ))}
      {count > shown.length && ` and ${formatNumber(count - shown.length)} more`}
    </>
  );
}

/** Its source or workflow where the admin may open that, else its id. */
function Deployment({ id, deployments }: { id: string; deployments: Deployments }) {
  const found = deployments.get(id);
  if (found === undefined) return <code>{visible(id)}</code>;
  return <End id={found.object_id} name={found.name} />;
}

function SetApart({
  setApart,
  count,
  deployments,
}: {
  setApart: readonly SetApartDeployment[];
  count: number;
  deployments: Deployments;
}) {
  return (
    <section className="card" aria-labelledby="set-apart">
      <h2 id="set-apart">Set apart</h2>
      {setApart.length === 0 ? (
        <p className="muted">
          A deployment whose code ends a process that others share is listed here with the reason. It then
          runs in a process of its own.
        </p>
      ) : (
        <>
          <p className="muted">
            The code of these deployments ended a process that others shared. Each has a process of its own
            until its code changes or the service restarts.
          </p>
          <div className="table-scroll">
            <table className="table stacked" aria-labelledby="set-apart">
              <thead>
                <tr>
                  <th scope="col">Deployment</th>
                  <th scope="col">Owner</th>
                  <th scope="col">Reason</th>
                  <th scope="col">Since</th>
                  <th scope="col">What to do</th>
                </tr>
              </thead>
              <tbody>
                {setApart.map((one) => (
                  <tr key={one.deployment_id}>
                    <th scope="row">
                      <Deployment id={one.deployment_id} deployments={deployments} />
                    </th>
                    <td data-name="Owner">
                      <Owner of={one} />
                    </td>
                    <td data-name="Reason" className="long">
                      <bdi>{oneLine(one.reason, 300)}</bdi>
                    </td>
                    <td data-name="Since" className="short">
                      <Ago ms={one.at * 1000} />
                    </td>
                    <td data-name="What to do" className="short">
                      <ChangeCode of={one} objectId={deployments.get(one.deployment_id)?.object_id} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {count > setApart.length && (
            <p className="muted below">
              The latest {formatNumber(setApart.length)} of {formatNumber(count)} are shown.
            </p>
          )}
        </>
      )}
    </section>
  );
}

function ChangeCode({
  of: { owner_id },
  objectId,
}: {
  of: SetApartDeployment;
  objectId: string | undefined;
}) {
  const mayWrite = useMayWrite(objectId === undefined ? null : owner_id);
  if (mayWrite === undefined) return null;
  if (!mayWrite || objectId === undefined) return <>Ask its owner to change it</>;
  const href = objectId.startsWith('p_') ? `/workflows/${objectId}/edit` : `/sources/${objectId}?tab=code`;
  return <Link href={href}>Change its code</Link>;
}

function Shares({ owners }: { owners: Processes['owners'] }) {
  return (
    <section className="card" aria-labelledby="shares">
      <h2 id="shares">Shares of owners</h2>
      {owners.length === 0 ? (
        <p className="muted">
          Owners whose code has run are listed here with their processes and memory, and with the calls that
          had to wait because the share was used up.
        </p>
      ) : (
        <>
          <p className="muted">
            A call that finds the share of its owner used up is delayed. After 30 seconds it is refused. Both
            are counted since the start of the service.
          </p>
          <div className="table-scroll">
            <table className="table stacked" aria-labelledby="shares">
              <thead>
                <tr>
                  <th scope="col">Owner</th>
                  <th scope="col">Processes</th>
                  <th scope="col">Private memory</th>
                  <th scope="col">Delayed</th>
                  <th scope="col">Refused</th>
                  <th scope="col">Limits</th>
                </tr>
              </thead>
              <tbody>
                {owners.map((owner) => (
                  <tr key={owner.owner_id}>
                    <th scope="row">
                      <Owner of={owner} />
                    </th>
                    <td data-name="Processes">{formatNumber(owner.processes)}</td>
                    <td data-name="Private memory">{formatBytes(owner.memory_bytes)}</td>
                    <td data-name="Delayed">
                      <Count value={owner.delayed} look="warn" />
                    </td>
                    <td data-name="Refused">
                      <Count value={owner.refused} look="bad" />
                    </td>
                    <td data-name="Limits">
                      <Link
                        href={`/instance?tab=quotas&owner=${encodeURIComponent(owner.owner_id)}`}
                        aria-label={`Quotas of ${visible(ownerText(owner))}`}
                      >
                        Quotas
                      </Link>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </section>
  );
}

/** Stands out where there is something to count. */
function Count({ value, look }: { value: number; look: 'warn' | 'bad' }) {
  if (value === 0) return <span className="muted">0</span>;
  return <span className={`state ${look}`}>{formatNumber(value)}</span>;
}

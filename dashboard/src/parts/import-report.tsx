import type { ReactNode } from 'react';
import { Link } from 'wouter';
import type { Import, ImportedWorkflow } from '#sdk';
import { Command, CopyButton } from './copy.tsx';
import { Figure } from './figure.tsx';
import { formatNumber } from './format.ts';
import { ImportChanges } from './import-changes.tsx';
import { shortened, visible } from './plain-text.ts';

type Report = Import['report'];

const statuses: Readonly<Record<ImportedWorkflow['status'], { name: string; look: string }>> = {
  converted: { name: 'Converted', look: 'state good' },
  check: { name: 'Check', look: 'state warn' },
  by_hand: { name: 'By hand', look: 'state bad' },
};
/** What needs the user comes first. */
const statusOrder = ['by_hand', 'check', 'converted'] as const;

const planned: Readonly<Record<ImportedWorkflow['outcome'], string>> = {
  created: 'new',
  updated: 'will be updated',
  unchanged: 'unchanged',
  conflict: 'changed there and here, stays as it is here',
  failed: 'cannot be imported',
};
const done: Readonly<Record<ImportedWorkflow['outcome'], string>> = {
  created: 'created',
  updated: 'updated',
  unchanged: 'unchanged',
  conflict: 'conflict: changed there and here, left as it is here',
  failed: 'failed',
};

export function ImportCounts({ report: { counts }, isPlan }: { report: Report; isPlan: boolean }) {
  const { created, updated, unchanged, conflict, failed } = counts;
  const outcomes = [
    [created, 'new'],
    [updated, isPlan ? 'to update' : 'updated'],
    [unchanged, 'unchanged'],
    [conflict, 'in conflict'],
    [failed, 'failed'],
  ] as const;
  return (
    <dl className="figures">
      <Figure name="Workflows" value={formatNumber(counts.workflows)}>
        {outcomes
          .filter(([count]) => count > 0)
          .map(([count, what]) => `${formatNumber(count)} ${what}`)
          .join(', ')}
      </Figure>
      <Figure name="Converted" value={formatNumber(counts.converted)}>
        nothing is left to do
      </Figure>
      <Figure name="Check" value={formatNumber(counts.check)}>
        look at their findings
      </Figure>
      <Figure name="By hand" value={formatNumber(counts.by_hand)} isBad={counts.by_hand > 0}>
        do not work until you act
      </Figure>
    </dl>
  );
}

/** The workflows of a report with their findings; `active` has those that exist here now. */
export function ImportedWorkflows({
  report,
  isPlan,
  active,
}: {
  report: Report;
  isPlan: boolean;
  active?: ReadonlyMap<string, boolean | undefined> | undefined;
}) {
  const { workflows, problems } = report;
  const inOrder = statusOrder.flatMap((status) => workflows.filter((one) => one.status === status));
  return (
    <section className="card" aria-labelledby="imported">
      <h2 id="imported">Workflows</h2>
      <ul className="imported" aria-labelledby="imported">
        {problems.map(({ path, message }) => (
          <li key={path}>
            <p className="imported-head">
              <span className="state bad">Unreadable</span>
              <code className="break">{visible(shortened(path, 300))}</code>
            </p>
            <p className="break">{visible(shortened(message, 1_000))}</p>
          </li>
        ))}
        {inOrder.map((workflow) => (
          <li key={workflow.old_id}>
            <ImportedOne workflow={workflow} isPlan={isPlan} active={active} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function ImportedOne({
  workflow: { name, folder, status, outcome, workflow_id, was_active, findings, ...differences },
  isPlan,
  active,
}: {
  workflow: ImportedWorkflow;
  isPlan: boolean;
  active: ReadonlyMap<string, boolean | undefined> | undefined;
}) {
  const shown = <bdi>{visible(shortened(name, 200))}</bdi>;
  const isHere = workflow_id !== null && (active === undefined || active.has(workflow_id));
  const isActive = workflow_id === null ? undefined : active?.get(workflow_id);
  const isRemoved = !isPlan && workflow_id !== null && !isHere;
  const facts = [
    isPlan ? planned[outcome] : done[outcome],
    ...(isPlan || isActive === undefined ? [] : [isActive ? 'active' : 'inactive']),
    ...(was_active ? [] : ['inactive there']),
    ...(isRemoved ? ['removed since'] : []),
  ];
  return (
    <>
      <p className="imported-head">
        <span className={statuses[status].look}>{statuses[status].name}</span>
        <span className="imported-name">
          {folder !== '' && <span className="muted">{visible(shortened(folder, 200))} / </span>}
          {isHere ? <Link href={`/workflows/${workflow_id}`}>{shown}</Link> : shown}
        </span>
        <span className="muted">{facts.join(' · ')}</span>
      </p>
      <ImportChanges {...differences} of={shown} />
      <Findings findings={findings} isPlan={isPlan} open={status === 'by_hand' && !isRemoved} of={shown} />
    </>
  );
}

/** Sources, webhooks and subscriptions of a bundle. */
export function ImportedObjects({
  report: { objects, unreadable },
  isPlan,
}: {
  report: Report;
  isPlan: boolean;
}) {
  if (objects.length + unreadable.length === 0) return null;
  const inOrder = statusOrder.flatMap((status) => objects.filter((one) => one.status === status));
  return (
    <section className="card" aria-labelledby="objects">
      <h2 id="objects">Sources, webhooks and subscriptions</h2>
      <ul className="imported" aria-labelledby="objects">
        {unreadable.map(({ part, reason }) => (
          <li key={part}>
            <p className="imported-head">
              <span className="state warn">Not readable</span>
              <span className="imported-name break">{visible(shortened(part, 300))}</span>
              <span className="muted">{visible(shortened(reason, 500))}</span>
            </p>
          </li>
        ))}
        {inOrder.map(({ kind, old_id, name, status, outcome, findings, ...differences }) => {
          const shown = <bdi>{visible(shortened(name, 200))}</bdi>;
          return (
            <li key={old_id}>
              <p className="imported-head">
                <span className={statuses[status].look}>{statuses[status].name}</span>
                <span className="imported-name">{shown}</span>
                <span className="muted">
                  {kind} · {isPlan ? planned[outcome] : done[outcome]}
                </span>
              </p>
              <ImportChanges {...differences} of={shown} />
              <Findings findings={findings} isPlan={isPlan} open={status === 'by_hand'} of={shown} />
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Findings({
  findings,
  isPlan,
  open,
  of,
}: {
  findings: ImportedWorkflow['findings'];
  isPlan: boolean;
  open: boolean;
  /** What they are about. */
  of: ReactNode;
}) {
  if (findings.length === 0) return null;
  return (
    <details open={open}>
      <summary>
        {findings.length === 1 ? '1 finding' : `${formatNumber(findings.length)} findings`}
        <span className="off-screen"> of {of}</span>
      </summary>
      <ul className="findings">
        {findings.map(({ level, step, message, command }, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: findings have no ids, and their order does not change.
          <li key={at}>
            <p className="break">
              {level === 'by_hand' && <strong>By hand: </strong>}
              {step !== '' && (
                <>
                  <code>{visible(shortened(step, 100))}</code>:{' '}
                </>
              )}
              {visible(shortened(message, 2_000))}
            </p>
            {command !== '' && !isPlan && <Command text={visible(command)} />}
          </li>
        ))}
      </ul>
    </details>
  );
}

/** Where senders have to be pointed at: the trigger there, and its address here. */
export function NewAddresses({ report }: { report: Report }) {
  const places = [
    ...report.workflows.flatMap(({ name, triggers }) => triggers.map((trigger) => ({ name, ...trigger }))),
    ...report.objects,
  ];
  const rows = places.flatMap(({ name, old_id, old_address, address }) =>
    address === null ? [] : [{ name, old_id: old_address ?? old_id, address }],
  );
  if (rows.length === 0) return null;
  return (
    <section className="card" aria-labelledby="addresses">
      <div className="detail-head">
        <h2 id="addresses">New addresses</h2>
        <CopyButton
          label="Copy all addresses"
          text={rows.map(({ name, old_id, address }) => `${name}\t${old_id}\t${address}`).join('\n')}
        />
      </div>
      <p className="muted">
        Point the senders of each trigger there at its new address here. The old addresses stop with the
        service that they belong to.
      </p>
      <Table
        label="addresses"
        columns={['Workflow', 'Trigger there', 'Address here']}
        rows={rows.map(({ name, old_id, address }) => ({
          key: `${old_id} ${address}`,
          cells: [
            <bdi key="name">{visible(shortened(name, 200))}</bdi>,
            <code key="old">{visible(old_id)}</code>,
            <span key="new" className="with-copy">
              <code className="break">{visible(address)}</code>
              <CopyButton text={address} label={`Copy the address of ${name}`} />
            </span>,
          ],
        }))}
      />
    </section>
  );
}

/** What is needed once for all workflows: accounts, variables, components; and what is worth knowing. */
export function NeededForAll({ report }: { report: Report }) {
  const { accounts, variables, actions, data_stores: stores } = report;
  return (
    <>
      {accounts.length > 0 && (
        <section className="card" aria-labelledby="needed-accounts">
          <h2 id="needed-accounts">Accounts</h2>
          <Table
            label="needed-accounts"
            columns={['App', 'Account here', 'Used by']}
            rows={accounts.map(({ app, old_id, account_id, places }) => ({
              key: `${app} ${old_id}`,
              cells: [
                visible(shortened(app, 100)),
                account_id === null ? (
                  <Link key="here" href={`/accounts/new?app=${encodeURIComponent(app)}`}>
                    none: connect one
                  </Link>
                ) : (
                  <Link key="here" href={`/accounts/${account_id}`}>
                    {account_id}
                  </Link>
                ),
                visible(shortened(places.join('; '), 500)),
              ],
            }))}
          />
        </section>
      )}
      {variables.length > 0 && (
        <section className="card" aria-labelledby="needed-variables">
          <h2 id="needed-variables">Variables</h2>
          <Table
            label="needed-variables"
            columns={['Variable', 'State', 'Used by']}
            rows={variables.map(({ name, set, secret, workflows }) => ({
              key: name,
              cells: [
                <code key="name">{visible(shortened(name, 200))}</code>,
                secret ? (
                  'secret that stood in clear in the export'
                ) : set ? (
                  'set'
                ) : (
                  <Link key="state" href="/workspace?tab=variables">
                    not set
                  </Link>
                ),
                visible(shortened(workflows.join('; '), 500)),
              ],
            }))}
          />
        </section>
      )}
      {actions.length > 0 && (
        <section className="card" aria-labelledby="needed-components">
          <h2 id="needed-components">Components</h2>
          <Table
            label="needed-components"
            columns={['Component', 'Version there', 'Here', 'Used by']}
            rows={actions.map(({ key, version, state, found, places }) => ({
              key: `${key}@${version}`,
              cells: [
                <code key="key">{visible(shortened(key, 200))}</code>,
                version === '' ? 'none' : visible(version),
                state === 'missing' ? (
                  <span key="here" className="bad-text">
                    missing
                  </span>
                ) : state === 'included' ? (
                  'included'
                ) : (
                  visible(found)
                ),
                visible(shortened(places.join('; '), 500)),
              ],
            }))}
          />
        </section>
      )}
      {stores.length > 0 && (
        <section className="card" aria-labelledby="needed-stores">
          <h2 id="needed-stores">Data stores</h2>
          <p className="muted">They are empty: an export has no records.</p>
          <Table
            label="needed-stores"
            columns={['Data store there', 'Here', 'Used by']}
            rows={stores.map(({ old_id, data_store_id, workflows }) => ({
              key: old_id,
              cells: [
                <code key="old">{visible(old_id)}</code>,
                data_store_id === null ? 'a new one' : <code key="new">{visible(data_store_id)}</code>,
                visible(shortened(workflows.join('; '), 500)),
              ],
            }))}
          />
        </section>
      )}
      <Remarks report={report} />
    </>
  );
}

function Remarks({ report: { runtimes, notified, keys, workflows } }: { report: Report }) {
  const triggers = workflows.flatMap((workflow) => workflow.triggers);
  const timers = triggers.filter(({ kind, complete }) => kind === 'timer' && !complete).length;
  const node = runtimes.filter(({ runtime }) => runtime.startsWith('node'));
  const unknown = keys.filter(({ outcome }) => outcome === 'unknown');
  const sum = (list: Report['keys']) => list.reduce((total, { count }) => total + count, 0);
  return (
    <section className="card" aria-labelledby="remarks">
      <h2 id="remarks">For all workflows</h2>
      <ul className="findings">
        {node.length > 0 && (
          <li>
            Steps ran on {node.map(({ runtime, steps }) => `${visible(runtime)} (${steps})`).join(', ')}. They
            run on the Node.js of this service.
          </li>
        )}
        {notified.length > 0 && (
          <li>
            Notified of errors there: {visible(shortened(notified.join(', '), 1_000))}. Here, subscribe to the
            channel <code>$errors</code> of each.
          </li>
        )}
        {triggers.some(({ kind }) => kind === 'http') && (
          <li>Whether HTTP triggers ask for a token is in no export: where they did, set it here.</li>
        )}
        {timers > 0 && (
          <li>
            The {timers === 1 ? 'schedule of 1 timer is' : `schedules of ${formatNumber(timers)} timers are`}{' '}
            not in what was read. A bundle of <code>millrace import --api-key-file</code> has them.
          </li>
        )}
        <li>
          {formatNumber(sum(keys))} keys were read, {formatNumber(sum(unknown))} of them unknown
          {unknown.length > 0 && `: ${visible(shortened(unknown.map(({ key }) => key).join(', '), 1_000))}`}.
        </li>
      </ul>
    </section>
  );
}

function Table({
  label,
  columns,
  rows,
}: {
  /** The id of its heading. */
  label: string;
  columns: readonly string[];
  rows: readonly { key: string; cells: readonly ReactNode[] }[];
}) {
  return (
    <div className="table-scroll">
      <table className="table stacked texts" aria-labelledby={label}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ key, cells: [first, ...others] }) => (
            <tr key={key}>
              <th scope="row">{first}</th>
              {others.map((cell, at) => (
                <td key={columns[at + 1]} data-name={columns[at + 1]} className="long">
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

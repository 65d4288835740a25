import { useMutation } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { Link } from 'wouter';
import type { AuditRecord } from '#sdk';
import { auditedOperations, operationWords } from '~/api/audited-operations.ts';
import { client } from '~/api/client.ts';
import { type AuditFilter, auditQuery, useChanges } from '~/api/workspace-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { formatNumber } from '~/parts/format.ts';
import { JsonView } from '~/parts/json-view.tsx';
import { Empty, Loading } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { saveFile } from '~/parts/save-file.ts';
import { ShowOlder } from '~/parts/show-older.tsx';
import { useSettled } from '~/parts/use-settled.ts';

interface Person {
  id: string;
  name: string;
}

const nothing = { operation: '', objectId: '', userId: '', fromDay: '', toDay: '' };
type Choice = typeof nothing;

/** The audit of all changes, newest first: of a workspace, of oneself, or of the instance. */
export function AuditLog({
  ownerId,
  people,
}: {
  /** u_… (oneself) or o_…; null: the instance. */
  ownerId: string | null;
  /** Users who may be in it, by name. */
  people: readonly Person[];
}) {
  const [choice, setChoice] = useState<Choice>(nothing);
  const settled = useSettled(choice);
  const filter: AuditFilter = {
    ...{ ownerId, operation: settled.operation, objectId: settled.objectId.trim(), userId: settled.userId },
    ...{ from: startOf(settled.fromDay, 0), to: startOf(settled.toDay, 1) },
  };
  const changes = useChanges(filter);
  const rows = changes.data?.pages.flatMap(({ data }) => data) ?? [];
  const total = changes.data?.pages[0]?.page_info.total_count ?? 0;
  const isFiltered = Object.values(settled).some((value) => value !== '');
  const nameOf = (id: string) => people.find((one) => one.id === id)?.name ?? id;
  return (
    <>
      <p className="muted">
        Every change through the API, this dashboard and the command line: who made it, what changed, and
        when. Secrets are hidden. <a href="/docs/guides/people#who-changed-what">Read more</a>
      </p>
      <Filters
        choice={choice}
        onChange={setChoice}
        people={withSeen(people, rows, choice.userId)}
        rows={rows}
      />
      <div className="tools">
        {changes.data !== undefined && (
          <span className="muted" role="status">
            {formatNumber(total)} {total === 1 ? 'change' : 'changes'}
          </span>
        )}
        {isFiltered && (
          <button type="button" className="button small" onClick={() => setChoice(nothing)}>
            Clear filters
          </button>
        )}
        <Download filter={filter} />
      </div>
      {changes.error !== null && !changes.isFetchNextPageError && (
        <Problem error={changes.error} onRetry={() => void changes.refetch()} />
      )}
      {changes.isPending && <Loading what="Loading the audit" />}
      {changes.data !== undefined && rows.length === 0 && (
        <Empty title={isFiltered ? 'No such change' : 'No changes yet'}>
          <p>
            {isFiltered
              ? 'No record that is still kept matches the filters.'
              : 'As soon as something is created, changed or deleted, it is listed here.'}
          </p>
        </Empty>
      )}
      {rows.length > 0 && (
        <ul className="rows card flush audit" aria-label="Audit log">
          {rows.map((record) => (
            <li key={record.id}>
              <Change
                record={record}
                who={whoOf(record, nameOf)}
                name={nameIn(record) ?? people.find(({ id }) => id === record.object_id)?.name}
                onOnly={(part) => setChoice({ ...choice, ...part })}
              />
            </li>
          ))}
        </ul>
      )}
      <ShowOlder list={changes} />
    </>
  );
}

function Filters({
  choice,
  onChange,
  people,
  rows,
}: {
  choice: Choice;
  onChange: (choice: Choice) => void;
  people: readonly Person[];
  rows: readonly AuditRecord[];
}) {
  const id = useId();
  const listed = new Set(auditedOperations.flatMap(({ operations }) => operations));
  const others = [...new Set([choice.operation, ...rows.map(({ operation }) => operation)])].filter(
    (operation) => operation !== '' && !listed.has(operation),
  );
  const day = (name: 'fromDay' | 'toDay', label: string) => (
    <div className="labelled">
      <label className="muted" htmlFor={`${id}${name}`}>
        {label}
      </label>
      <input
        id={`${id}${name}`}
        type="date"
        className="input small"
        value={choice[name]}
        onChange={(event) => onChange({ ...choice, [name]: event.target.value })}
      />
    </div>
  );
  return (
    <search className="tools audit-filters">
      <div className="labelled">
        <label className="muted" htmlFor={`${id}who`}>
          Who
        </label>
        <select
          id={`${id}who`}
          className="select small"
          value={choice.userId}
          onChange={(event) => onChange({ ...choice, userId: event.target.value })}
        >
          <option value="">everyone</option>
          {people.map((person) => (
            <option key={person.id} value={person.id}>
              {visible(shortened(person.name, 60))}
            </option>
          ))}
        </select>
      </div>
      <div className="labelled">
        <label className="muted" htmlFor={`${id}what`}>
          What
        </label>
        <select
          id={`${id}what`}
          className="select small"
          value={choice.operation}
          onChange={(event) => onChange({ ...choice, operation: event.target.value })}
        >
          <option value="">every change</option>
          {auditedOperations.map(({ about, operations }) => (
            <optgroup key={about} label={about}>
              {operations.map((operation) => (
                <option key={operation} value={operation}>
                  {operationWords(operation)}
                </option>
              ))}
            </optgroup>
          ))}
          {others.map((operation) => (
            <option key={operation} value={operation}>
              {visible(shortened(operationWords(operation), 60))}
            </option>
          ))}
        </select>
      </div>
      <div className="labelled">
        <label className="muted" htmlFor={`${id}object`}>
          Object id
        </label>
        <input
          id={`${id}object`}
          className="input small"
          maxLength={200}
          autoComplete="off"
          spellCheck={false}
          placeholder="wh_…"
          value={choice.objectId}
          onChange={(event) => onChange({ ...choice, objectId: event.target.value })}
        />
      </div>
      {day('fromDay', 'From')}
      {day('toDay', 'To')}
    </search>
  );
}

function Download({ filter }: { filter: AuditFilter }) {
  const download = useMutation({
    mutationFn: () => client.audit.export(auditQuery(filter)),
    // The text of many records is not kept.
    gcTime: 0,
    onSuccess: (lines) => saveFile('audit.ndjson', 'application/x-ndjson', lines),
  });
  return (
    <span className="tools-end">
      <button
        type="button"
        className="button small"
        disabled={download.isPending}
        title="All that match, as JSON lines, oldest first"
        onClick={() => download.mutate()}
      >
        {download.isPending ? 'Downloading …' : 'Download'}
      </button>
      {download.error !== null && <Problem error={download.error} what="Nothing was downloaded." />}
    </span>
  );
}

function Change({
  record,
  who,
  name,
  onOnly,
}: {
  record: AuditRecord;
  who: string;
  /** The name of the object. */
  name: string | undefined;
  onOnly: (part: Partial<Choice>) => void;
}) {
  const [isOpen, setIsOpen] = useState(false);
  const { actor, operation, status } = record;
  return (
    <details onToggle={(event) => setIsOpen(event.currentTarget.open)}>
      <summary className="row plain">
        <span className="row-main">
          <span className="wrap">
            <span className="row-name">{visible(shortened(operationWords(operation), 100))}</span>
            {name !== undefined && (
              <>
                {' '}
                <bdi>{visible(shortened(name, 100))}</bdi>
              </>
            )}
          </span>
          <span className="muted wrap">
            by <bdi>{visible(shortened(who, 100))}</bdi> · <Ago ms={Date.parse(record.created_at)} />
          </span>
        </span>
        {status === null && <span className="state warn">unfinished</span>}
        {status !== null && status >= 400 && <span className="state bad">failed: {status}</span>}
      </summary>
      {isOpen && (
        <div className="opened audit-detail">
          <ChangedFields before={record.before} after={record.after} />
          <dl className="props">
            <div>
              <dt>When</dt>
              <dd>{new Date(record.created_at).toLocaleString()}</dd>
            </div>
            <div>
              <dt>Who</dt>
              <dd className="break">
                <bdi>{visible(shortened(who, 100))}</bdi>
                {actor.key_id !== null && (
                  <>
                    {' '}
                    with <code>{visible(actor.key_id)}</code>
                  </>
                )}
                {actor.session !== null && (
                  <>
                    {' '}
                    in <code>{visible(actor.session)}</code>
                  </>
                )}
                {actor.address !== null && (
                  <>
                    {' '}
                    from <code>{visible(shortened(actor.address, 60))}</code>
                  </>
                )}
              </dd>
            </div>
            <div>
              <dt>What</dt>
              <dd className="break">
                <code>{visible(shortened(operation, 100))}</code>
                {record.object_id !== null && (
                  <>
                    {' '}
                    of <ObjectLink record={record} />
                  </>
                )}
              </dd>
            </div>
            <div>
              <dt>Answer</dt>
              <dd>{status ?? 'none: the service stopped before it answered'}</dd>
            </div>
            {record.request_id !== null && (
              <div>
                <dt>Request id</dt>
                <dd className="break">
                  <code>{visible(record.request_id)}</code>
                </dd>
              </div>
            )}
          </dl>
          {Object.keys(record.parameters).length > 0 && (
            <div>
              <h3>Parameters</h3>
              <JsonView value={record.parameters} label="Parameters of the request" />
            </div>
          )}
          <p className="buttons">
            {actor.user_id !== null && (
              <button
                type="button"
                className="button small"
                onClick={() => onOnly({ userId: actor.user_id ?? '' })}
              >
                Only this user
              </button>
            )}
            {record.object_id !== null && (
              <button
                type="button"
                className="button small"
                onClick={() => onOnly({ objectId: record.object_id ?? '' })}
              >
                Only this object
              </button>
            )}
          </p>
        </div>
      )}
    </details>
  );
}

type Fields = AuditRecord['before'];

/** Each field that changed, with what it was and what it is. */
function ChangedFields({ before, after }: { before: Fields; after: Fields }) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  if (names.length === 0) return null;
  return (
    <div className="table-scroll">
      <table className="table stacked audit-fields" aria-label="Changed fields">
        <thead>
          <tr>
            <th scope="col">Field</th>
            <th scope="col">Before</th>
            <th scope="col">After</th>
          </tr>
        </thead>
        <tbody>
          {names.map((name) => (
            <tr key={name}>
              <th scope="row">{visible(shortened(name, 100))}</th>
              <td data-name="Before">
                <FieldValue fields={before} name={name} absent="did not exist" />
              </td>
              <td data-name="After">
                <FieldValue fields={after} name={name} absent="deleted" />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function FieldValue({ fields, name, absent }: { fields: Fields; name: string; absent: string }) {
  if (fields === null) return <span className="muted">{absent}</span>;
  const value = fields[name];
  if (value === null || value === undefined) return <span className="muted">none</span>;
  // Fields with this ending are epoch milliseconds.
  if (typeof value === 'number' && name.endsWith('_ms') && name.includes('_at'))
    return <>{new Date(value).toLocaleString()}</>;
  return <bdi>{visible(shortened(typeof value === 'string' ? value : JSON.stringify(value), 500))}</bdi>;
}

/** The page of an object, by what its id begins with. */
const pages: Readonly<Record<string, string>> = {
  dc: '/sources/',
  p: '/workflows/',
  wh: '/webhooks/',
  apn: '/accounts/',
};

function ObjectLink({ record: { object_id, after } }: { record: AuditRecord }) {
  const id = object_id ?? '';
  const page = pages[id.split('_')[0] ?? ''];
  // A deleted object has no page.
  if (page === undefined || after === null) return <code>{visible(shortened(id, 200))}</code>;
  return <Link href={`${page}${encodeURIComponent(id)}`}>{visible(shortened(id, 200))}</Link>;
}

/** The name that a record knows of its object. */
function nameIn({ before, after, parameters }: AuditRecord): string | undefined {
  for (const fields of [after, before, parameters])
    for (const field of ['name', 'username']) {
      const value = fields?.[field];
      if (typeof value === 'string' && value !== '' && value !== '(hidden)') return value;
    }
  return undefined;
}

function whoOf({ actor }: AuditRecord, nameOf: (id: string) => string): string {
  if (actor.user_id !== null) return nameOf(actor.user_id);
  if (actor.kind === 'operator') return 'the operator, with a command on the data folder';
  return 'a caller without a key';
}

/** Those of the list, and those that only records name, such as users who left and OAuth clients. */
function withSeen(people: readonly Person[], rows: readonly AuditRecord[], chosen: string): Person[] {
  const seen = new Set([chosen, ...rows.map(({ actor }) => actor.user_id ?? '')]);
  const strangers = [...seen].filter((id) => id !== '' && !people.some((person) => person.id === id));
  return [...people, ...strangers.map((id) => ({ id, name: id }))];
}

/** Epoch seconds when a day begins, where the browser is, or one `daysLater`; undefined: no day is given. */
function startOf(day: string, daysLater: number): number | undefined {
  const date = new Date(`${day}T00:00`);
  date.setDate(date.getDate() + daysLater);
  const seconds = Math.floor(date.getTime() / 1000);
  return Number.isNaN(seconds) || seconds < 0 ? undefined : seconds;
}

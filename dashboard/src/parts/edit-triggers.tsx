import { useState } from 'react';
import { Link } from 'wouter';
import { useSources } from '~/api/queries.ts';
import type { Component } from '~/api/types.ts';
import { withoutPlace } from '~/editing/code-problem.ts';
import { triggerText } from '~/editing/definition-diff.ts';
import { newTrigger, type TriggerDraft, type TriggerKind } from '~/editing/workflow-draft.ts';
import { ComponentPicker } from './component-picker.tsx';
import { Icon } from './icon.tsx';
import { Loading } from './page.tsx';
import { oneLine, shortened, visible } from './plain-text.ts';
import { Problem } from './problem.tsx';
import { PropForm } from './prop-form.tsx';
import { TimerField } from './timer-field.tsx';
import { usePropDraft } from './use-prop-draft.ts';
import { useSettled } from './use-settled.ts';

const kinds: readonly { type: TriggerKind; name: string }[] = [
  { type: 'http', name: 'HTTP request' },
  { type: 'timer', name: 'Timer' },
  { type: 'email', name: 'Mail' },
  { type: 'source', name: 'Source' },
];

/** What the service said of one trigger. */
export interface TriggerProblem {
  key: string;
  field: string;
  message: string;
}

/** What starts runs of the workflow. */
export function EditTriggers({
  triggers,
  onChange,
  ownerId,
  problem,
}: {
  triggers: readonly TriggerDraft[];
  onChange: (triggers: TriggerDraft[]) => void;
  ownerId: string;
  problem: TriggerProblem | undefined;
}) {
  const replace = (key: string, change: Partial<TriggerDraft>) =>
    onChange(triggers.map((one) => (one.key === key ? { ...one, ...change, isChanged: true } : one)));
  return (
    <section className="edit-section" aria-labelledby="edit-triggers">
      <h2 id="edit-triggers">Triggers</h2>
      {triggers.length === 0 && <p className="muted">Nothing triggers it yet.</p>}
      <ul className="edit-list">
        {triggers.map((trigger) => {
          const told = problem?.key === trigger.key ? problem : undefined;
          const name = kinds.find(({ type }) => type === trigger.type)?.name ?? trigger.type;
          return (
            <li key={trigger.key}>
              <section
                className={told === undefined ? 'card edit-item' : 'card edit-item faulty'}
                aria-label={`Trigger: ${name}`}
              >
                <header className="edit-head">
                  <span className="facts">
                    <strong>{name}</strong>
                    <span className="muted">
                      {trigger.id === null ? 'new' : visible(shortened(trigger.name ?? trigger.id, 100))}
                    </span>
                  </span>
                  <button
                    type="button"
                    className="button small quiet"
                    onClick={() => onChange(triggers.filter(({ key }) => key !== trigger.key))}
                  >
                    Remove<span className="off-screen"> trigger {oneLine(triggerText(trigger), 80)}</span>
                  </button>
                </header>
                <Trigger
                  trigger={trigger}
                  ownerId={ownerId}
                  onChange={(change) => replace(trigger.key, change)}
                />
                {told !== undefined && (
                  <Problem error={withoutPlace(told.message)} what="This trigger does not fit." />
                )}
              </section>
            </li>
          );
        })}
      </ul>
      <div className="edit-row">
        {kinds.map(({ type, name }) => (
          <button
            key={type}
            type="button"
            className="button"
            onClick={() => onChange([...triggers, newTrigger(type)])}
          >
            <Icon name="plus" size={16} /> {name}
          </button>
        ))}
      </div>
    </section>
  );
}

interface TriggerProps {
  trigger: TriggerDraft;
  ownerId: string;
  onChange: (change: Partial<TriggerDraft>) => void;
}

function Trigger(props: TriggerProps) {
  const { trigger, onChange } = props;
  if (trigger.type === 'http') return <HttpTrigger {...props} />;
  if (trigger.type === 'email')
    return <p className="muted">Each mail to its address, which it has when it is deployed, is a run.</p>;
  if (trigger.type === 'source') return <SourceTrigger {...props} />;
  const { cron, timezone, interval_seconds } = trigger.props;
  return (
    <TimerField
      definition={{ name: 'schedule', type: '$.interface.timer' }}
      id={`${trigger.key}-schedule`}
      value={cron === undefined ? { intervalSeconds: interval_seconds } : { cron, timezone }}
      onChange={(value) => {
        const next = (value ?? {}) as { intervalSeconds?: number; cron?: string; timezone?: string };
        onChange({
          props:
            next.cron === undefined
              ? { interval_seconds: next.intervalSeconds ?? null }
              : { cron: next.cron, timezone: next.timezone },
        });
      }}
      describedBy=""
      invalid={false}
    />
  );
}

function HttpTrigger({ trigger, ownerId, onChange }: TriggerProps) {
  const { custom_response, auth } = trigger.props as {
    custom_response?: boolean;
    auth?: { type?: string; token?: string };
  };
  const set = (change: Record<string, unknown>) => onChange({ props: { ...trigger.props, ...change } });
  const id = `${trigger.key}-auth`;
  return (
    <div className="edit-body">
      <label className="check">
        <input
          type="checkbox"
          checked={custom_response === true}
          onChange={(event) => set({ custom_response: event.target.checked })}
        />
        A step answers the request, with $.respond
      </label>
      <div className="field">
        <label className="label" htmlFor={id}>
          Who may call it
        </label>
        <select
          id={id}
          className="select"
          value={auth?.type ?? 'none'}
          onChange={(event) => set({ auth: { type: event.target.value } })}
        >
          <option value="none">Anybody who knows the address</option>
          <option value="static_bearer_token">Who has a bearer token</option>
          {(ownerId.startsWith('o_') || auth?.type === 'oauth') && (
            <option value="oauth">Who has an access token of an API client of the workspace</option>
          )}
        </select>
      </div>
      {auth?.type === 'static_bearer_token' && (
        <div className="field">
          <label className="label" htmlFor={`${id}-token`}>
            Bearer token
          </label>
          <input
            id={`${id}-token`}
            className="input mono"
            type="password"
            autoComplete="new-password"
            placeholder={trigger.id === null ? 'At least 8 characters' : 'Left empty, one that it has stays'}
            value={auth.token ?? ''}
            onChange={(event) =>
              set({
                auth: {
                  type: 'static_bearer_token',
                  ...(event.target.value === '' ? {} : { token: event.target.value }),
                },
              })
            }
          />
        </div>
      )}
    </div>
  );
}

/** One that is there, or one that is made from a component and goes with the workflow. */
function SourceTrigger({ trigger, ownerId, onChange }: TriggerProps) {
  const [component, setComponent] = useState<Component>();
  const [isChoosing, setIsChoosing] = useState(false);
  const sourceId = trigger.props.source_id;
  if (trigger.id !== null)
    return (
      <p className="muted">
        Each event of{' '}
        <Link href={`/sources/${trigger.id}`}>{visible(shortened(trigger.name ?? trigger.id, 100))}</Link> is
        a run. What the source does is set on its own page.
      </p>
    );
  if (isChoosing)
    return (
      <ComponentPicker
        type="source"
        onCancel={() => setIsChoosing(false)}
        onChosen={(chosen) => {
          setComponent(chosen);
          setIsChoosing(false);
          const { key = '', id, version, name } = chosen;
          onChange({
            name,
            props: { component: key === '' ? id : `${key}@${version}`, configured_props: {} },
          });
        }}
      />
    );
  if (trigger.props.component !== undefined)
    return (
      <div className="edit-body">
        <p className="muted">
          A new source of <code>{visible(shortened(String(trigger.props.component), 120))}</code>, which comes
          and goes with the workflow.
        </p>
        {component === undefined ? (
          <p className="muted">
            Its props: <code>{oneLine(trigger.props.configured_props, 300)}</code>
          </p>
        ) : (
          <SourceForm trigger={trigger} component={component} ownerId={ownerId} onChange={onChange} />
        )}
        <div>
          <button type="button" className="button small" onClick={() => onChange({ name: null, props: {} })}>
            Choose another source
          </button>
        </div>
      </div>
    );
  return (
    <div className="edit-body">
      <SourceChoice
        id={`${trigger.key}-source`}
        ownerId={ownerId}
        chosen={typeof sourceId === 'string' ? sourceId : ''}
        onChosen={(id, name) =>
          onChange(id === '' ? { name: null, props: {} } : { name, props: { source_id: id } })
        }
      />
      <div>
        <button type="button" className="button small" onClick={() => setIsChoosing(true)}>
          Make one from a component
        </button>
      </div>
    </div>
  );
}

function SourceForm({ trigger, component, ownerId, onChange }: TriggerProps & { component: Component }) {
  const configured = (trigger.props.configured_props ?? {}) as Record<string, unknown>;
  const draft = usePropDraft(
    { id: component.key ?? component.id, definitions: component.configurable_props },
    ownerId,
    configured,
  );
  return (
    <>
      <PropForm
        definitions={draft.definitions}
        context={{
          componentId: component.key ?? component.id,
          ownerId,
          values: draft.values,
          idPrefix: `${trigger.key}-`,
        }}
        onChange={(name, value) => {
          draft.change(name, value);
          const { [name]: _before, ...rest } = configured;
          onChange({
            props: {
              ...trigger.props,
              configured_props: value === undefined ? rest : { ...rest, [name]: value },
            },
          });
        }}
        problems={new Map()}
      />
      {draft.isReloading && <Loading what="Asking the component which fields follow" />}
      {draft.reloadProblem !== undefined && (
        <Problem error={draft.reloadProblem} what="The component could not say which fields follow." />
      )}
    </>
  );
}

function SourceChoice({
  id,
  ownerId,
  chosen,
  onChosen,
}: {
  id: string;
  ownerId: string;
  chosen: string;
  onChosen: (id: string, name: string) => void;
}) {
  const [words, setWords] = useState('');
  const sources = useSources(ownerId, useSettled(words.trim()));
  const rows = sources.data?.pages.flatMap(({ data }) => data) ?? [];
  return (
    <div className="field">
      <label className="label" htmlFor={id}>
        Source
      </label>
      <div className="edit-row">
        <input
          className="input small"
          type="search"
          aria-label="Search among your sources"
          placeholder="Search"
          value={words}
          onChange={(event) => setWords(event.target.value)}
        />
        <select
          id={id}
          className="select small"
          value={chosen}
          onChange={(event) =>
            onChosen(
              event.target.value,
              rows.find((one) => one.id === event.target.value)?.name ?? event.target.value,
            )
          }
        >
          <option value="">{sources.isPending ? 'Loading sources …' : 'Choose …'}</option>
          {chosen !== '' && !rows.some((one) => one.id === chosen) && (
            <option value={chosen}>{chosen}</option>
          )}
          {rows.map((one) => (
            <option key={one.id} value={one.id}>
              {visible(shortened(one.name, 60))} · {one.id}
            </option>
          ))}
        </select>
      </div>
      {sources.error !== null && <Problem error={sources.error} onRetry={() => void sources.refetch()} />}
    </div>
  );
}

import { useState } from 'react';
import { Link } from 'wouter';
import type { Component } from '#sdk';
import { useSources } from '~/api/queries.ts';
import { ComponentPicker } from './component-picker.tsx';
import type { EditedTrigger } from './edited-trigger.ts';
import { Loading } from './page.tsx';
import { oneLine, shortened, visible } from './plain-text.ts';
import { Problem } from './problem.tsx';
import { PropForm } from './prop-form.tsx';
import { usePropDraft } from './use-prop-draft.ts';
import { useSettled } from './use-settled.ts';

/** An existing source, or one that is made from a component and removed with the workflow. */
export function SourceTrigger({ trigger, ownerId, onChange }: EditedTrigger) {
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

function SourceForm({ trigger, component, ownerId, onChange }: EditedTrigger & { component: Component }) {
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

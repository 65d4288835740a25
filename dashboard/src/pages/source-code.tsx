import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { type Component, type ConfigurableProp, MillraceError, type Source } from '#sdk';
import { api } from '~/api/client.ts';
import { type Data, useComponent } from '~/api/queries.ts';
import { type CodeContext, nothingBefore } from '~/editing/code-context.ts';
import { codeProblemOf } from '~/editing/code-problem.ts';
import { useKeptCode } from '~/editing/kept-code.ts';
import { CodeEditor } from '~/parts/code-editor.tsx';
import { LineDiff } from '~/parts/line-diff.tsx';
import { Loading } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { PropForm } from '~/parts/prop-form.tsx';
import { propProblems, usePropDraft } from '~/parts/use-prop-draft.ts';

const context: CodeContext = { kind: 'source', steps: nothingBefore };

/** The code and props of a source: to be read, and to be changed by those who may. */
export function SourceCode({ source, mayWrite }: { source: Source; mayWrite: boolean }) {
  const component = useComponent(source.component_id);
  const [saves, setSaves] = useState(0);
  if (component.data === undefined)
    return component.error === null ? (
      <Loading />
    ) : (
      <Problem error={component.error} onRetry={() => void component.refetch()} />
    );
  if (!mayWrite) {
    return (
      <>
        <CodeEditor label="Code of the source" value={component.data.code} />
        <p className="muted">
          You can look at this source; changing it takes the role of a member in its workspace.
        </p>
      </>
    );
  }
  return (
    <>
      <Edit
        // As it is now, with secrets masked again.
        key={`${saves} ${component.data.id}`}
        source={source}
        component={component.data}
        onSaved={() => setSaves(saves + 1)}
      />
      {saves > 0 && (
        <p className="good" role="status">
          Saved.
        </p>
      )}
    </>
  );
}

/** Their values are the platform's. */
const own: ReadonlySet<string> = new Set(['$.interface.http', '$.interface.apphook', '$.service.db']);

function Edit({ source, component, onSaved }: { source: Source; component: Component; onSaved: () => void }) {
  const queries = useQueryClient();
  const draft = useKeptCode(source.id, component.id, component.code);
  const [checked, setChecked] = useState<Component>();
  const used = checked ?? component;
  const props = usePropDraft(
    { id: used.id, definitions: used.configurable_props },
    source.owner_id,
    source.configured_props,
  );
  const shown = props.definitions.filter(({ type }) => !own.has(type));
  const given = sendable(props.given, props.definitions);
  const areChanged =
    JSON.stringify(given) !== JSON.stringify(sendable(source.configured_props, props.definitions));
  const owner = source.owner_id.startsWith('o_') ? { org_id: source.owner_id } : {};
  const check = useMutation({
    mutationFn: async (code: string) =>
      (await api<Data<Component>>('POST', '/v1/components', { body: { component_code: code, ...owner } }))
        .data,
    onSuccess: setChecked,
  });
  const save = useMutation({
    mutationFn: async (change: { code: string | undefined; props: Record<string, unknown> | undefined }) =>
      (
        await api<Data<Source>>('PUT', `/v1/sources/${source.id}`, {
          // Left out, `active` would mean true.
          body: {
            active: source.active,
            ...(change.code === undefined ? {} : { component_code: change.code }),
            ...(change.props === undefined ? {} : { configured_props: change.props }),
          },
        })
      ).data,
    onSuccess: (changed) => {
      queries.setQueryData(['source', source.id], changed);
      void queries.invalidateQueries({ queryKey: ['sources'] });
      onSaved();
    },
  });
  // The error of the last text that was checked.
  const error =
    save.error !== null && save.variables?.code === (draft.isChanged ? draft.code : undefined)
      ? save.error
      : check.variables === draft.code
        ? check.error
        : null;
  const places = useMemo(() => [codeProblemOf(error)].filter((place) => place !== undefined), [error]);
  const problems = propProblems(save.error);
  const isHook = save.error instanceof MillraceError && save.error.code === 'hook_failed';
  const isRegistry = component.key !== undefined && component.key !== '';
  return (
    <form
      className="edit-sections"
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate({
          code: draft.isChanged ? draft.code : undefined,
          props: areChanged ? given : undefined,
        });
      }}
    >
      {draft.isOld && (
        <div className="note edit-row" role="alert">
          <span>The code of this source was changed in the meantime.</span>
          <button type="button" className="button small" onClick={() => draft.follow({ base: component.id })}>
            Keep my changes
          </button>
          <button
            type="button"
            className="button small danger"
            onClick={() => draft.follow({ base: component.id, code: component.code })}
          >
            Discard my changes
          </button>
        </div>
      )}
      <section className="card edit-section" aria-labelledby="source-code">
        <h2 id="source-code">Code</h2>
        {isRegistry && (
          <p className="muted">
            This is the component <code>{visible(shortened(component.key ?? '', 100))}</code>. Changed, the
            source has a copy of its own, which new versions of the component do not reach.
          </p>
        )}
        <CodeEditor
          label="Code of the source"
          value={draft.code}
          onChange={draft.setCode}
          problems={places}
          context={context}
        />
        <div className="edit-row">
          <button
            type="button"
            className="button small"
            disabled={check.isPending}
            onClick={() => check.mutate(draft.code)}
          >
            {check.isPending ? 'Checking …' : 'Check the code'}
          </button>
          {draft.isChanged && (
            <button
              type="button"
              className="button small quiet"
              onClick={() => {
                draft.setCode(component.code);
                setChecked(undefined);
              }}
            >
              Discard the changes
            </button>
          )}
          <span className="hint" role="status">
            {check.isSuccess && check.variables === draft.code
              ? 'It can be built; its props are below.'
              : 'Builds it, and shows the props that it declares below.'}
          </span>
        </div>
        {check.error !== null && error === check.error && places.length === 0 && (
          <Problem error={check.error} what="This code cannot be used." />
        )}
      </section>
      <section className="card form" aria-labelledby="source-props">
        <h2 id="source-props">Props</h2>
        <PropForm
          definitions={shown}
          context={{
            componentId: used.id,
            ownerId: source.owner_id,
            values: props.values,
            idPrefix: 'source-',
          }}
          onChange={props.change}
          problems={problems}
        />
        {shown.length === 0 && <p className="muted">It has none.</p>}
        {props.isReloading && <Loading what="Asking the component which fields follow" />}
        {props.reloadProblem !== undefined && (
          <Problem error={props.reloadProblem} what="The component could not say which fields follow." />
        )}
      </section>
      {(draft.isChanged || areChanged) && (
        <section className="card edit-section" aria-labelledby="source-changes">
          <h2 id="source-changes">What happens when it is saved</h2>
          {draft.isChanged && (
            <LineDiff before={component.code} after={draft.code} label="Code of the source, what changed" />
          )}
          <ul>
            <li>
              {source.active
                ? 'The deactivate hook of the current code runs, then the activate hook of the new code.'
                : 'The source is inactive: no hook runs. The new code runs when the source is activated.'}
            </li>
            <li>The events, endpoint URL, subscriptions and state of the source stay.</li>
            <li>A run under way finishes with the old code.</li>
            <li>If a hook of the new code fails, the current code and props are restored.</li>
          </ul>
        </section>
      )}
      {save.error !== null && problems.size === 0 && (
        <Problem
          error={save.error}
          what={
            isHook
              ? 'A hook failed, and nothing was changed.'
              : 'It was not saved. What you wrote is still here.'
          }
        />
      )}
      <div className="edit-row">
        <button
          type="submit"
          className="button primary"
          disabled={(!draft.isChanged && !areChanged) || draft.isOld || save.isPending || props.isReloading}
        >
          {save.isPending ? 'Saving …' : 'Save'}
        </button>
        <span className="hint" role="status">
          {save.isPending ? 'Its code is built and its hooks run; this can take a while.' : ''}
        </span>
      </div>
    </form>
  );
}

function sendable(
  values: Readonly<Record<string, unknown>>,
  definitions: readonly ConfigurableProp[],
): Record<string, unknown> {
  return Object.fromEntries(
    definitions
      .filter(({ name, type }) => values[name] !== undefined && !own.has(type))
      .map(({ name, type }) => [name, type === '$.interface.timer' ? timerOf(values[name]) : values[name]]),
  );
}

/** As forms give it, whichever way it was answered. */
function timerOf(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const { cron, timezone, interval_seconds, intervalSeconds } = value as Record<string, unknown>;
  return typeof cron === 'string'
    ? { cron, timezone }
    : { intervalSeconds: intervalSeconds ?? interval_seconds };
}

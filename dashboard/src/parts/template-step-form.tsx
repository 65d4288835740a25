import { useEffect, useEffectEvent, useId } from 'react';
import type { Component, StepDefinition } from '#sdk';
import { type GivenProps, useTemplateComponent } from '~/api/template-queries.ts';
import { Loading } from './page.tsx';
import { shortened, visible } from './plain-text.ts';
import { Problem } from './problem.tsx';
import { PropForm } from './prop-form.tsx';
import { StepContent, StepMadeOf } from './template-parts.tsx';
import { usePropDraft } from './use-prop-draft.ts';

interface Props {
  title: string;
  step: StepDefinition;
  ownerId: string;
  /** Told whenever it changes, and first when the fields are known. */
  onGiven: (props: GivenProps) => void;
  problems: ReadonlyMap<string, string>;
}

/** The props of a step of a template that have no value: the user fills in the required ones, and may fill in the others. */
export function TemplateStepForm(props: Props) {
  const { title, step } = props;
  const component = useTemplateComponent(step);
  return (
    <section className="card" aria-label={visible(shortened(title, 200))}>
      <header className="facts">
        <h2>
          <bdi>{visible(shortened(title, 200))}</bdi>
        </h2>
        <StepMadeOf step={step} />
      </header>
      {component.isPending && <Loading what="Asking its code what it needs" />}
      {component.error !== null && (
        <Problem
          error={component.error}
          what="Its code cannot be built here."
          onRetry={() => void component.refetch()}
        />
      )}
      {component.data !== undefined && <Fields {...props} component={component.data} />}
      <StepContent step={step} />
    </section>
  );
}

function Fields({
  step,
  ownerId,
  onGiven,
  problems,
  component,
}: Props & { component: Component & { reference: string } }) {
  const idPrefix = useId();
  const values = step.props ?? {};
  const draft = usePropDraft(
    { id: component.reference, definitions: component.configurable_props },
    ownerId,
    values,
  );
  const given = JSON.stringify(draft.given);
  const tell = useEffectEvent((text: string) => onGiven(JSON.parse(text) as GivenProps));
  useEffect(() => tell(given), [given]);
  const isAsked = ({ name }: { name: string }) => !(name in values) || problems.has(name);
  const asked = draft.definitions.filter(isAsked);
  return (
    <>
      {asked.length === 0 && <p className="muted">There is nothing to give: it comes with all its values.</p>}
      <PropForm
        definitions={asked}
        context={{ componentId: component.reference, ownerId, values: draft.values, idPrefix }}
        onChange={draft.change}
        problems={problems}
      />
      {draft.isReloading && <Loading what="Asking the component which fields follow" />}
      {draft.reloadProblem !== undefined && (
        <Problem error={draft.reloadProblem} what="The component could not say which fields follow." />
      )}
    </>
  );
}

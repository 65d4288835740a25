import { useState } from 'react';
import type { ConfigurableProp } from '#sdk';
import { AccountField } from './account-field.tsx';
import { ChoiceField, RemoteChoiceField } from './choice-field.tsx';
import { ExpressionField, isExpression, mayBeExpression } from './expression-field.tsx';
import { MarkedWords } from './marked-text.tsx';
import { shortened, visible } from './plain-text.ts';
import type { FieldProps, PropFormContext } from './prop-field.ts';
import { RequestField } from './request-field.tsx';
import { JsonField, LinesField, NumberField, TextField, YesNoField } from './simple-fields.tsx';
import { TimerField } from './timer-field.tsx';

/** Types of props that need no input. */
const silent: ReadonlySet<string> = new Set(['$.service.db', '$.interface.apphook', '$.interface.http']);

/** A field for each prop of a component, by its definition. The service's error about a value is shown under its field. */
export function PropForm({
  definitions,
  context,
  onChange,
  problems,
}: {
  definitions: readonly ConfigurableProp[];
  context: PropFormContext;
  onChange: (name: string, value: unknown) => void;
  problems: ReadonlyMap<string, string>;
}) {
  const shown = definitions.filter(({ type, hidden }) => hidden !== true && !silent.has(type));
  return (
    <>
      {definitions.some(({ type }) => type === '$.interface.http') && (
        <p className="note">
          It gets an address of its own, to which requests are sent. You see it when it is created.
        </p>
      )}
      {definitions.some(({ type }) => type === '$.interface.apphook') && (
        <p className="note">
          It runs with events of its app, which a program of yours receives and pushes here:{' '}
          <a href="/docs/how-it-works/apphooks" target="_blank" rel="noreferrer">
            how to forward them
          </a>
          .
        </p>
      )}
      {shown.map((definition) => (
        <Field
          key={definition.name}
          definition={definition}
          context={context}
          onChange={(value) => onChange(definition.name, value)}
          problem={problems.get(definition.name)}
        />
      ))}
      {definitions.length > 0 && shown.length === 0 && (
        <p className="muted">There is nothing to configure.</p>
      )}
    </>
  );
}

function Field({
  definition,
  context,
  onChange,
  problem,
}: {
  definition: ConfigurableProp;
  context: PropFormContext;
  onChange: (value: unknown) => void;
  problem: string | undefined;
}) {
  const { name, type, label, description, optional } = definition;
  const id = `${context.idPrefix ?? ''}prop-${name}`;
  const value = context.values[name];
  const [asked, setAsked] = useState(false);
  const mayExpress = context.expressions !== undefined && mayBeExpression(type);
  const expressed = mayExpress && (asked || isExpression(value));
  if (type === 'alert') {
    return (
      <p className="note pre-line">
        <MarkedWords text={definition.content ?? description ?? ''} max={4_000} />
      </p>
    );
  }
  const isRequest = type === 'http_request' && !expressed;
  // The default of a request is its method alone.
  const isOptional = optional === true || (definition.default !== undefined && type !== 'http_request');
  const props: FieldProps = {
    definition,
    id,
    value,
    onChange,
    describedBy: `${id}-hint${problem === undefined ? '' : ` ${id}-problem`}`,
    invalid: problem !== undefined,
  };
  return (
    <div className="field">
      <label className="label" htmlFor={id}>
        <bdi>
          {visible(
            shortened(label ?? (definition.app === undefined ? name : `Account of ${definition.app}`), 200),
          )}
        </bdi>
        {isOptional && <span className="muted"> (optional)</span>}
      </label>
      {/* Fields of a request explain themselves; its description is about JSON, and is shown with that. */}
      {!isRequest && (
        <p className="hint pre-line" id={`${id}-hint`}>
          <MarkedWords text={description ?? ''} max={2_000} />
        </p>
      )}
      {expressed ? (
        <ExpressionField {...props} paths={context.expressions ?? []} />
      ) : (
        <Control props={props} context={context} />
      )}
      {mayExpress && (
        <button
          type="button"
          className="link"
          onClick={() => {
            if (expressed && isExpression(value)) onChange(undefined);
            setAsked(!expressed);
          }}
        >
          {expressed ? 'Give a value instead' : 'Use an expression'}
          <span className="off-screen"> for {visible(shortened(label ?? name, 100))}</span>
        </button>
      )}
      {problem !== undefined && (
        <p className="field-problem" id={`${id}-problem`} role="alert">
          {visible(problem)}
        </p>
      )}
    </div>
  );
}

function Control({ props, context }: { props: FieldProps; context: PropFormContext }) {
  const { definition } = props;
  const { type, options, remoteOptions } = definition;
  if (type === 'app') return <AccountField {...props} ownerId={context.ownerId} />;
  if (type === '$.interface.timer') return <TimerField {...props} />;
  if (remoteOptions === true) return <RemoteChoiceField {...props} context={context} />;
  if (options !== undefined && options.length > 0) return <ChoiceField {...props} />;
  if (type === 'boolean') return <YesNoField {...props} />;
  if (type === 'integer' || type === 'number') return <NumberField {...props} />;
  if (type === 'http_request') return <RequestField {...props} />;
  if (type === 'string[]') return <LinesField {...props} />;
  if (type === 'string' || type.startsWith('$.airtable') || type.startsWith('$.discord'))
    return <TextField {...props} />;
  return <JsonField {...props} />;
}
